"""The HTTP port, over real HTTP."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from waiting import eventually

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.config.options import Config
from goworkers_py.config.web_options import WebConfig
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, ConfigError
from goworkers_py.observe.health_report import WORKING, HealthReport, merged
from goworkers_py.observe.running_jobs import RunningJob
from goworkers_py.web import server as module
from goworkers_py.web.probes import Probes, as_json, pages
from goworkers_py.web.server import WebServer
from goworkers_py.web.site.hiding import Hiding

Source = Callable[[], dict[str, Any]]

LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def stops_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server checks every half second whether to stop, which is too slow for so many tests."""
    forever = module._Server.serve_forever
    monkeypatch.setattr(module._Server, "serve_forever", lambda server: forever(server, poll_interval=0.02))


@pytest.fixture
def serve() -> Iterator[Callable[[Source], WebServer]]:
    servers: list[WebServer] = []

    def serve(source: Source) -> WebServer:
        servers.append(WebServer(LOOPBACK, 0, Probes({"/stats": lambda: as_json(source())})))
        servers[-1].start()
        return servers[-1]

    yield serve
    for server in servers:
        server.stop()


def get(server: WebServer, path: str = "/stats") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(LOOPBACK, server.port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/stats", "/stats?pretty=1"])
def test_stats_are_one_json_object(serve: Callable[[Source], WebServer], path: str) -> None:
    assert get(serve(lambda: {"processed": 5, "enqueued": {"é": "1"}}), path) == (
        200,
        {"processed": 5, "enqueued": {"é": "1"}},
    )


def test_each_request_computes_the_page_again(serve: Callable[[Source], WebServer]) -> None:
    looks = iter(range(1, 10))
    server = serve(lambda: {"look": next(looks)})
    assert [get(server)[1]["look"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("path", ["/", "/stats/", "/metrics", "/?/stats"])
def test_any_other_path_is_404_and_names_the_pages(serve: Callable[[Source], WebServer], path: str) -> None:
    assert get(serve(dict), path) == (404, {"error": "no such page; the pages are /stats"})


def test_any_other_error_is_500_and_logged(
    serve: Callable[[Source], WebServer], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> dict[str, Any]:
        raise ConfigError("broker: files has no lists of jobs")

    assert get(serve(fail)) == (500, {"error": "broker: files has no lists of jobs"})
    assert caplog.messages == ["page /stats failed"]


@pytest.mark.parametrize("error", [BrokerUnavailable("connection refused"), BrokerRefused("no permissions")])
def test_a_broker_error_is_503_with_its_text(serve: Callable[[Source], WebServer], error: Exception) -> None:
    def fail() -> dict[str, Any]:
        raise error

    assert get(serve(fail)) == (503, {"error": str(error)})


def test_a_slow_request_delays_no_other(serve: Callable[[Source], WebServer]) -> None:
    def slowly_at_first() -> dict[str, Any]:
        if first.acquire(blocking=False):
            asked.set()
            enough.wait(30)
        return {}

    first, asked, enough = threading.Lock(), threading.Event(), threading.Event()
    server = serve(slowly_at_first)
    slow = threading.Thread(target=get, args=(server,))
    slow.start()
    assert asked.wait(30)
    assert get(server) == (200, {})
    enough.set()
    slow.join()


def test_a_request_writes_nothing_to_stderr(
    serve: Callable[[Source], WebServer], capfd: pytest.CaptureFixture[str]
) -> None:
    get(serve(dict))
    assert capfd.readouterr().err == ""


def test_the_server_listens_on_its_one_address_only(serve: Callable[[Source], WebServer]) -> None:
    server = serve(dict)
    with pytest.raises(OSError, match="refused"):  # 127.0.0.2 is this machine too
        socket.create_connection(("127.0.0.2", server.port), 5)


def test_a_port_in_use_is_a_configuration_error(serve: Callable[[Source], WebServer]) -> None:
    port = serve(dict).port
    with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
        WebServer(LOOPBACK, port, Probes({}))


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 0), (LOOPBACK, 70_000)])
def test_an_impossible_address_is_a_configuration_error(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match=f"stats server: cannot listen on {host}:{port}: "):
        WebServer(host, port, Probes({}))


def test_after_a_stop_connections_are_refused(serve: Callable[[Source], WebServer]) -> None:
    server = serve(dict)
    get(server)
    for _ in range(2):
        server.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((LOOPBACK, server.port), 5)
    assert eventually(lambda: "stats-server" not in [thread.name for thread in threading.enumerate()])


def test_a_server_that_was_never_started_can_be_stopped() -> None:
    server = WebServer(LOOPBACK, 0, Probes({}))
    stopper = threading.Thread(target=server.stop, daemon=True)
    stopper.start()
    stopper.join(20)
    assert not stopper.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((LOOPBACK, server.port), 5)


def test_a_client_that_sends_nothing_delays_no_stop(serve: Callable[[Source], WebServer]) -> None:
    server = serve(dict)
    with socket.create_connection((LOOPBACK, server.port), 5):
        assert get(server)[0] == 200
        server.stop()


def is_closed(client: socket.socket) -> bool:
    client.settimeout(0.01)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def requests() -> int:
    """Threads that answer a client."""
    return sum("process_request" in thread.name for thread in threading.enumerate())


def test_idle_clients_take_few_threads_and_do_not_keep_a_monitor_from_its_answer(
    serve: Callable[[Source], WebServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 5)
    monkeypatch.setattr(module, "MOST_THREADS", 8)
    server = serve(dict)
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(socket.create_connection((LOOPBACK, server.port), 5)) for _ in range(30)]
        for client in clients:
            with suppress(OSError):  # the connection may be closed already
                client.sendall(b"GET /st")
        assert eventually(lambda: sum(map(is_closed, clients)) == 25)
        assert eventually(lambda: requests() <= 5)
        assert get(server) == (200, {})


def test_requests_that_wait_for_a_slow_broker_take_few_threads(
    serve: Callable[[Source], WebServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly() -> dict[str, Any]:
        enough.wait(30)
        return {}

    monkeypatch.setattr(module, "MOST_CLIENTS", 5)
    monkeypatch.setattr(module, "MOST_THREADS", 8)
    enough = threading.Event()
    server = serve(slowly)
    with ExitStack() as open_ones:
        for _ in range(20):
            client = open_ones.enter_context(socket.create_connection((LOOPBACK, server.port), 20))
            client.sendall(b"GET /stats HTTP/1.0\r\n\r\n")
        assert client.recv(1) == b"", "the last ones are closed at once"
        assert eventually(lambda: requests() == 8)
        enough.set()
        assert eventually(lambda: requests() == 0)
        assert get(server) == (200, {})


def test_a_client_that_sends_its_request_too_slowly_is_closed(serve: Callable[[Source], WebServer]) -> None:
    server = serve(dict)
    server._server.longest_connection_s = 0.3
    with socket.create_connection((LOOPBACK, server.port), 5) as slow:

        def says_more() -> None:
            with suppress(OSError):
                slow.sendall(b"G")

        assert eventually(lambda: says_more() or is_closed(slow))


def test_without_a_free_descriptor_the_server_waits_instead_of_spinning(
    serve: Callable[[Source], WebServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[None] = []
    get_request = module._Server.get_request
    monkeypatch.setattr(module._Server, "get_request", lambda server: [tries.append(None), get_request(server)][1])
    server = serve(dict)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            client.connect((LOOPBACK, server.port))
            client.sendall(b"GET /stats HTTP/1.0\r\n\r\n")
            assert eventually(lambda: tries)
            before = time.monotonic()
            time.sleep(0.5)
            slept_s = time.monotonic() - before  # on a busy machine seconds, with a try every fifth of each
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert len(tries) < 20 + 10 * slept_s
        client.settimeout(20)
        assert client.recv(12) == b"HTTP/1.0 200"


# --- who asks


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, tuple[int, str]]]:
    """The answers of all pages to a client that asks under a name."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Worker1.shop.example")
    config = Config(web=WebConfig(hosts=("Metrics.shop.example",)))
    found = pages(lambda: merged(WORKING, []), lambda: Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, []), None)
    application = Probes(found, config.web.hosts)

    def ask(host: str) -> dict[str, tuple[int, str]]:
        told: list[str] = []

        def page(path: str) -> tuple[int, str]:
            environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "HTTP_HOST": host}
            body = b"".join(application(environ, lambda status, headers: told.append(status)))
            return int(told[-1].split()[0]), body.decode()

        return {path: page(path) for path in found}

    return ask


@pytest.mark.parametrize(
    "host",
    ["", "localhost", "127.0.0.1:80", "10.1.2.3:9090", "[::1]", "[fd00::1%25eth0]:80", "worker:80",
     "[::ffff:1.2.3.4]:8", "worker1.Shop.example:80", "metrics.shop.example"],
)  # fmt: skip
def test_monitors_get_the_figures_under_a_name_that_no_other_site_can_have(
    foreign: Callable[[str], dict[str, tuple[int, str]]], host: str
) -> None:
    answers = foreign(host)
    assert {path: status for path, (status, _) in answers.items()} == {
        "/stats": 200, "/metrics": 200, "/live": 200, "/ready": 503,
    }  # fmt: skip
    assert answers["/ready"] == (503, "no process is running\n")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "EVIL.example.", "1.2.3", "[a.b"])
def test_another_site_whose_name_points_here_learns_nothing_but_the_status_of_probes(
    foreign: Callable[[str], dict[str, tuple[int, str]]], host: str
) -> None:
    answers = foreign(host)
    assert (answers["/live"], answers["/ready"]) == ((200, ""), (503, ""))
    for path in ("/stats", "/metrics"):
        status, text = answers[path]
        assert (status, list(json.loads(text))) == (403, ["error"])


def running(*messages: str) -> HealthReport:
    return {**merged(WORKING, []), "running": {"q": [RunningJob(message=one, started_at=5) for one in messages]}}


def test_stats_show_no_jobs_unless_asked_and_mask_what_is_hidden() -> None:
    plain, secret = '{"class":"A","args":[1.10]}', '{"class":"B","args":[{"password":"hunter2","n":1}]}'
    stats = Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, [])
    closed = pages(lambda: running(plain, secret), lambda: stats, None)["/stats"]()
    assert "jobs" not in json.loads(closed.text)
    shown = pages(lambda: running(plain, secret), lambda: stats, Hiding(["password"]))["/stats"]().text
    assert f'"message":{plain},' in shown, "no digit has changed"
    assert "hunter2" not in shown
    assert [one["message"]["args"] for one in json.loads(shown)["jobs"]["q"]] == [
        [1.1], [{"password": "(hidden)", "n": 1}],
    ]  # fmt: skip


# --- what one request may hold


def told(server: WebServer, *parts: bytes) -> bytes:
    """The first line of the answer; empty where there was none."""
    with socket.create_connection((LOOPBACK, server.port), 30) as client:
        for part in parts:
            client.sendall(part)
        client.settimeout(30)
        return client.makefile("rb").readline().rstrip()


GET = b"GET /stats HTTP/1.0\r\n"
NO_HEADERS = [
    b"a b: c\r\n", b"a : b\r\n", b"a\r\n", b": a\r\n", b"\xe9: a\r\n", b"a: b\r\n c\r\n", b"a: b\rVia: c\r\n",
    b"a: \0\r\n", b"From a\r\n", b"\r \r\n",
]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([GET, b"A: " + b"a" * 65_000 + b"\r\n\r\n"], b"200"),
        ([GET, b"A: " + b"a" * 66_000 + b"\r\n\r\n"], b"431"),
        ([GET, *[b"A%d: %s\r\n" % (n, b"a" * 1_000) for n in range(66)], b"\r\n"], b"431"),
        ([GET, b"a:\r\n" * 99, b"\r\n"], b"200"),
        ([GET, b"a:\r\n" * 100, b"\r\n"], b"431"),
        ([GET, b"A~1: \xe9\tb: c \r\nb:\n\r\n"], b"200"),
        *(([GET, line, b"Via: 1.1 a\r\n\r\n"], b"400") for line in NO_HEADERS),
        ([b"GET /stats?" + b"a" * 66_000], b"414"),
    ],
)
def test_the_first_line_and_the_headers_share_64_kb_and_are_as_http_has_them(
    serve: Callable[[Source], WebServer], parts: list[bytes], status: bytes
) -> None:
    assert told(serve(dict), *parts).split()[1] == status


def test_a_client_that_sends_far_too_much_sees_why_it_was_refused(serve: Callable[[Source], WebServer]) -> None:
    assert told(serve(dict), GET, b"a" * 900_000).split()[1] == b"431"
