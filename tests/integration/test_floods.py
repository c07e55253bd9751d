"""Floods of both HTTP ports of a daemon: its memory stays small, its probes answer, and its jobs are done meanwhile."""

from __future__ import annotations

import base64
import http.client
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app
from daemon import Daemon
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py import App, BrokerUnavailable
from goworkers_py.web.http.request import MOST_BYTES
from goworkers_py.web.site.access_file import password_line, token_line

# From 3.14 on, Python takes ten more to begin with, and keeps more of what it frees.
MOST_MB = 120 if sys.version_info < (3, 14) else 140
CLIENTS = 60  # more than a port answers at once
LOOPBACK = "127.0.0.1"

JOBS = """
import goworkers_py as workers

@workers.job(queue="q")
def note():
    pass
"""

pytestmark = pytest.mark.server


class Flooded:
    """A daemon with `stats_port` and pages."""

    def __init__(self, daemon: Daemon, app: App, probes: int, pages: int, token: str) -> None:
        self.pid = daemon.process.pid
        self.app = app
        self.probes = probes
        self.ports = (probes, pages)
        self.pages = pages
        self.token = token

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1_000

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.probes, timeout=5)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False  # of many connections the oldest is closed: a monitor asks again
        finally:
            connection.close()


@contextmanager
def daemon_flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    directory = tmp_path_factory.mktemp("flooded")
    line, token = token_line("ada", "act")
    access = directory / "access"
    access.write_text(f"{line}\n{password_line('bob', 'view', 'correct horse battery')}\n")
    access.chmod(0o600)
    probes, pages = free_port(), free_port()
    (directory / "conf.ini").write_text(f"[web]\nport = {pages}\naccess_file = {access}\n")
    flags = ("-c", "conf.ini", "-q", "q=2", "--stats-port", str(probes))
    with (
        closing(RedisServer()) as server,
        own_app(server.url) as app,
        Daemon(directory, server.url, JOBS, *flags) as daemon,
    ):
        daemon.ready()
        yield Flooded(daemon, app, probes, pages, token)


@pytest.fixture(scope="module")
def flooded(server_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    """One for all floods but that of logins, after which the memory of two hashes is kept."""
    with daemon_flooded(tmp_path_factory) as running:
        yield running


Send = Callable[[socket.socket], None]


def flood(port: int, send: Send, held: ExitStack) -> None:
    """Many clients at once, of which each keeps its connection until `held` ends."""

    def one(client: socket.socket) -> None:
        with suppress(OSError):  # refused, or closed as one of the oldest
            send(client)

    threads = []
    for _ in range(CLIENTS):
        with suppress(OSError):
            client = held.enter_context(socket.create_connection((LOOPBACK, port), 10))
            threads.append(threading.Thread(target=one, args=(client,)))
            threads[-1].start()
    for thread in threads:
        thread.join()


def post(body: bytes, token: str) -> bytes:
    return (
        b"POST /api/enqueue/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (token.encode(), len(body))
    ) + body


def large_headers(client: socket.socket) -> None:
    client.sendall(b"GET /live HTTP/1.1\r\n")
    for number in range(100):
        client.sendall(b"A%d: %s\r\n" % (number, b"a" * 65_000))


def slow_headers(client: socket.socket) -> None:
    client.sendall(b"GET /live?%s HTTP/1.1\r\nA: %s" % (b"q" * 30_000, b"a" * 30_000))


def many_headers(client: socket.socket) -> None:
    client.sendall(b"GET /live HTTP/1.1\r\n" + b"a:\r\n" * 20_000)


def cookies(client: socket.socket) -> None:
    client.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\nCookie: x="%s"\r\n\r\n' % (b"\\" * 60_000))
    client.recv(1_000)


def logins(client: socket.socket) -> None:
    guess = base64.b64encode(b"bob:guess %d" % client.fileno())
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n" % guess)
    client.recv(1_000)


def test_a_flood_of_logins_and_then_of_bodies(server_program: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """After the first hash, glibc would keep the memory of bodies for each thread."""
    with daemon_flooded(tmp_path_factory) as fresh:

        def bodies(client: socket.socket) -> None:
            client.sendall(post(b'{"jobs": %s}' % FILLINGS["text"], fresh.token))
            client.recv(1_000)

        for send in (logins, bodies, bodies):
            check(fresh, fresh.pages, send)


@pytest.mark.parametrize("send", [large_headers, slow_headers, many_headers, cookies])
@pytest.mark.parametrize("port", ["stats_port", "pages"])
def test_a_flood_of_headers(flooded: Flooded, port: str, send: Send) -> None:
    check(flooded, flooded.ports[port == "pages"], send)


def test_a_flood_of_looks_at_one_job_of_many_values(
    server_program: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jid = f"{1:024x}"
    values = b"[[[[1]]]]," * 9_000
    # Of its own: after so many values, Python keeps much of their memory for the next ones.
    with (
        daemon_flooded(tmp_path_factory) as fresh,
        closing(redis_py.Redis.from_url(fresh.app.config.broker)) as redis,
    ):
        redis.zadd("dead", {b'{"class":"Large","args":[%s1],"jid":"%s"}' % (values, jid.encode()): 5.0})
        check(fresh, fresh.pages, look_at(f"/job?jid={jid}&state=dead&key=5.0|{jid}", fresh.token))


def look_at(path: str, token: str) -> Send:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"

    def look(client: socket.socket) -> None:
        client.sendall(request.encode())
        while client.recv(100_000):
            pass

    return look


FILLINGS = {"text": b'["%s"]' % (b"a" * (MOST_BYTES - 100)), "values": b"[%s1]" % (b"[]," * 120_000)}


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
def test_a_flood_of_bodies(flooded: Flooded, filling: str, whole: bool) -> None:
    request = post(b'{"jobs": %s}' % FILLINGS[filling], flooded.token)

    def send(client: socket.socket) -> None:
        client.sendall(request if whole else request[:-1])
        if whole:
            client.recv(1_000)

    check(flooded, flooded.pages, send)


LOOKS = [
    "/",
    pytest.param("/jobs?state=dead", marks=pytest.mark.slow),  # reads what the next one reads
    "/api/jobs?state=dead&limit=500",
    "/queue?name=slow",
]


@pytest.mark.parametrize("path", LOOKS)
def test_a_flood_of_looks_at_large_jobs(flooded: Flooded, path: str) -> None:
    jobs = {large_job(number, b"a" * 1_000_000): float(number) for number in range(1, 60)}
    jobs |= {large_job(number, b'",[],"' * 15_000): float(number) for number in range(60, 120)}
    jobs[large_job(120, b'",[],"' * 5_000_000)] = 120.0
    # A busy machine may take seconds to receive these hundred megabytes.
    with closing(redis_py.Redis.from_url(flooded.app.config.broker, socket_timeout=60)) as redis:
        redis.zadd("dead", jobs)
        redis.sadd("queues", "slow")
        redis.rpush("queue:slow", *jobs)
        try:
            check(flooded, flooded.pages, look_at(path, flooded.token))
        finally:
            redis.delete("dead", "queue:slow")


def large_job(number: int, text: bytes) -> bytes:
    return b'{"class":"Large","args":["%s"],"jid":"%024x","queue":"slow","error_class":"E"}' % (text, number)


def processed(flooded: Flooded) -> int:
    """How many jobs have run; 0 while the server is busy with the flood."""
    try:
        return flooded.app.inspector.stats().processed
    except BrokerUnavailable:
        return 0


def check(flooded: Flooded, port: int, send: Send) -> None:
    done = flooded.app.inspector.stats().processed
    flooded.forget_peak()
    with ExitStack() as held:
        flooding = threading.Thread(target=flood, args=(port, send, held))
        flooding.start()
        flooded.app.enqueue_bulk("q", "note", [[]] * 20)
        assert eventually(flooded.is_ready), "a probe is answered"
        flooding.join()
        assert eventually(lambda: processed(flooded) == done + 20)
        assert eventually(flooded.is_ready), "a probe is answered while the clients hold their connections"
        assert flooded.peak_mb() < MOST_MB
