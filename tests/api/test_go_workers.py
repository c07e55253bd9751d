"""The API in go-workers' shape: configure, start and quit, links, handlers, the stats server."""

from __future__ import annotations

import datetime
import json
import logging
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue, working
from daemon import environment
from servers import RedisServer
from waiting import eventually

from goworkers_py import ConfigError, EnqueueOptions, Message
from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.config.options import Config

# --- go-workers' shape


@pytest.mark.parametrize(
    ("settings", "redis", "rest"),
    [
        ({}, "redis://localhost:6379/0", {}),
        (
            {"server": "db:6380", "database": "2", "pool": "30", "process": "1"},
            "redis://db:6380/2",
            {"process": "1"},
        ),
        ({"server": "db:1", "password": "a:b/c@d"}, "redis://:a%3Ab%2Fc%40d@db:1/0", {}),
        ({"namespace": "app", "poll_interval": 15}, "redis://localhost:6379/0", {"namespace": "app"}),
    ],
)
def test_settings_of_go_workers_are_translated(settings: dict[str, Any], redis: str, rest: dict[str, str]) -> None:
    app = App()
    app.configure(settings)
    assert app.config.broker == redis
    assert app.config.poll_interval == settings.get("poll_interval", 5)
    assert {name: getattr(app.config, name) for name in rest} == rest


@pytest.mark.parametrize("name", ["broker", "redis"])
def test_the_server_is_configured_under_either_name(name: str) -> None:
    app = App()
    app.configure(**{name: "redis://one"})
    assert app.config == Config(broker="redis://one")
    app.configure({"server": "go:1", "namespace": "go"}, **{name: "redis://one"})
    assert app.config == Config(broker="redis://one", namespace="go")


@pytest.mark.parametrize(
    ("settings", "options", "why"),
    [
        ({"sever": "db:6379"}, {}, "configure: 'sever' is not an option; did you mean 'server'?"),
        ({"server": "db:x"}, {}, "is not an address"),
        ({"colour": "red"}, {}, "configure: 'colour' is not an option; known are database, namespace"),
        (None, {"timeout": "soon"}, "^configure: timeout must be a number of seconds"),
        (
            None,
            {"redis": "redis://h", "broker": "redis://h"},
            "^configure: broker and redis are two names of one option: leave one of them out$",
        ),
        (None, {"redis": "h"}, "^configure: redis must be redis://"),
        (None, {"timeot": 5}, "^configure: timeot is not an option; did you mean 'timeout'"),
        ("nowhere.ini", {}, "nowhere.ini: cannot be read"),
    ],
)
def test_a_wrong_setting_is_refused(settings: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        App().configure(settings, **options)


def test_a_second_configure_closes_the_connections_of_the_first(own_redis: RedisServer) -> None:
    client = own_redis.client()

    def connections() -> set[str]:
        return {one["id"] for one in client.client_list()}

    before = connections()
    with own_app(own_redis.url) as app:
        former = app.broker  # still held here, so that nothing else than `close` can close its connections
        app.inspector.queues()
        assert connections() > before
        app.configure(broker=own_redis.url, timeout=7)
        assert eventually(lambda: connections() <= before)
        assert app.broker is not former


def test_configure_takes_a_file_and_options_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pyworkers.ini"
    file.write_text("[pyworkers]\ntimeout = 7\nnamespace = file\n[queue:q]\nconcurrency = 3\n")
    app = App()
    app.configure(file, namespace="option", require=["a", "b"])
    assert (app.config.timeout, app.config.namespace, app.config.require) == (7, "option", ("a", "b"))
    assert [(queue.name, queue.concurrency) for queue in app.config.queues] == [("q", 3)]
    app.configure(str(file))
    assert app.config.namespace == "file"
    monkeypatch.setenv("PYWORKERS_TIMEOUT", "9")
    assert App().config.timeout == 9


def test_configure_in_a_module_is_ignored_with_a_warning_after_the_command_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "goworkers_py")
    app = App()
    app.configure(namespace="before")
    app.use(Config(namespace="command"), by_command=True)
    app.configure(namespace="module")
    assert app.config.namespace == "command"
    app.configure(namespace="command")
    app.configure(redis="redis://module")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "set namespace in the configuration file" in told[0]
    assert "set redis in the configuration file" in told[1]
    app.use(Config(namespace="next command"), by_command=True)
    assert app.config.namespace == "next command"


def test_the_example_of_go_workers_runs_in_python(redis_url: str, redis: redis_py.Redis) -> None:
    """The example of go-workers' README, translated to Python."""
    seen: list[Any] = []

    class MyMiddleware:
        def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
            seen.append(("before", queue))
            acknowledge = call_next()
            seen.append(("after", acknowledge))
            return acknowledge

    workers = App()
    server, _, database = redis_url.removeprefix("redis://").partition("/")
    workers.configure({"server": server, "database": database, "pool": "30", "process": "1"})
    workers.process("myqueue", lambda message: seen.append((message["class"], message.args)), 10, MyMiddleware())
    workers.before_start(lambda: seen.append("start"))
    workers.during_drain(lambda: seen.append("drain"))
    workers.start()
    try:
        assert redis.get("pyworkers:process:1")
        workers.enqueue("myqueue", "Add", [1, 2])
        assert eventually(lambda: ("after", True) in seen)
    finally:
        workers.quit()
        workers.use(workers.config)
    assert seen == ["start", ("before", "myqueue"), ("Add", [1, 2]), ("after", True), "drain"]
    assert not in_progress(redis)


def test_jobs_are_enqueued_by_queue_class_and_arguments(app: App, redis: redis_py.Redis) -> None:
    now, at = time.time(), datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
    jids = [
        app.enqueue("q", "Add", [1, 2]),
        app.enqueue_with_options("q", "Add", [1, 2], EnqueueOptions(retry=True, tags=["a"], extra={"own": 1})),
        *app.enqueue_bulk("q", "Add", [[1], [2]], EnqueueOptions(retry=False)),
    ]
    jobs = [json.loads(raw) for raw in queue(redis)]
    assert [job["jid"] for job in jobs] == jids
    assert [job["retry"] for job in jobs] == [True, True, False, False]
    assert (jobs[1]["tags"], jobs[1]["own"]) == (["a"], 1)
    later = [app.enqueue_in("q", "Add", 60, []), app.enqueue_at("q", "Add", at, [])]
    entries = redis.zrange("schedule", 0, -1, withscores=True)
    assert fields([raw for raw, _ in entries], "jid") == later
    assert [score for _, score in entries] == [pytest.approx(now + 60, abs=30), at.timestamp()]


def test_process_refuses_a_queue_without_threads(app: App) -> None:
    with pytest.raises(ConfigError, match="process\\('q'\\): concurrency must be at least 1, is 0"):
        app.process("q", print, 0)


def test_start_returns_and_quit_finishes_the_running_jobs(app: App, redis: redis_py.Redis) -> None:
    started_, ended = threading.Event(), threading.Event()

    def run(message: Message) -> None:
        started_.set()
        time.sleep(0.2)
        ended.set()

    app.process("q", run, 1)
    app.start()
    app.enqueue("q", "J", [])
    assert started_.wait(20)
    app.quit()
    assert ended.is_set()
    assert redis.get("stat:processed") == b"1"
    app.quit()  # once more does nothing


def test_an_app_may_push_after_quit_and_be_started_again(app: App, redis: redis_py.Redis) -> None:
    seen: list[int] = []
    app.process("q", lambda message: seen.append(message.args[0]), 1)
    with working(app):
        app.enqueue("q", "J", [1])
        assert eventually(lambda: seen == [1])
    app.enqueue("q", "J", [2])
    with working(app):
        assert eventually(lambda: seen == [1, 2])
        app.enqueue_in("q", "J", 0.1, [3])
        assert eventually(lambda: seen == [1, 2, 3])
    assert not in_progress(redis)


def test_quit_ends_a_start_that_waits_for_its_server(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    own_redis.kill()
    with own_app(own_redis.url) as app:
        start = threading.Thread(target=app.start, daemon=True)
        start.start()
        assert eventually(lambda: "cannot serve" in caplog.text)
        app.quit()
        start.join(20)
        assert not start.is_alive()


def test_quit_just_as_a_start_has_made_its_threads_is_not_lost(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_redis.kill()
    with own_app(own_redis.url) as app:
        monkeypatch.setattr(app.runner, "_warn_of_unworked", lambda launcher: app.quit())
        start = threading.Thread(target=app.start, daemon=True)
        start.start()
        start.join(20)
        assert not start.is_alive()


@pytest.mark.parametrize("partitions", ["", "[partition:billing]\nqueues = invoices 1\n"])
def test_quit_while_a_hook_of_the_start_runs_leaves_no_thread_behind(tmp_path: Path, partitions: str) -> None:
    conf = tmp_path / "conf.ini"
    conf.write_text(f"[pyworkers]\nbroker = memory://{tmp_path.name}\n[queue:q]\n{partitions}")
    app = App()
    app.configure(conf)
    app.job("J", queue="q")(print)
    in_hook, go_on = threading.Event(), threading.Event()

    @app.before_start
    def wait() -> None:
        in_hook.set()
        go_on.wait(20)

    start = threading.Thread(target=app.start)
    start.start()
    assert in_hook.wait(20)
    end = threading.Thread(target=app.quit)
    end.start()
    assert eventually(app.runner._stop_asked.is_set)
    assert end.is_alive()  # it waits for the start
    go_on.set()
    for thread in (start, end):
        thread.join(20)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("worker:", "heartbeat"))]


def test_a_hook_of_the_start_may_quit() -> None:
    app = App()
    app.configure(broker="memory://quit-in-hook")
    app.process("q", print, 1)
    app.before_start(app.quit)
    app.start()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("worker:", "heartbeat"))]


def test_client_links_may_change_or_stop_a_push(app: App, redis: redis_py.Redis) -> None:
    @app.client_middleware
    def link(job: dict[str, Any]) -> dict[str, Any] | None:
        return None if job["args"] == ["stop"] else {**job, "trace": "abc"}

    assert app.enqueue("q", "J", ["stop"]) is None
    assert app.enqueue("q", "J", [1])
    assert fields(queue(redis), "trace") == ["abc"]


def test_client_links_of_a_file_apply_in_a_program_that_only_pushes(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links_of_a_file.py").write_text(
        "def stamp(job):\n    return {**job, 'stamps': job.get('stamps', 0) + 1}\n"
    )
    (tmp_path / "conf.ini").write_text(
        f"[pyworkers]\nredis = {redis_url}\n[middleware]\nclient = links_of_a_file:stamp\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app = App()
    for _ in range(2):  # the second one is not a second link
        app.configure(tmp_path / "conf.ini")
        app.enqueue("q", "J", [])
    app.use(app.config)
    assert fields(queue(redis), "stamps") == [1, 1]


def test_a_client_link_of_a_file_is_added_once_by_threads_that_push_first_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        """A link that is compared with others: the two threads meet in their first comparison."""

        __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            self.both, self.compared = threading.Barrier(2), threading.local()

        def __call__(self, job: dict[str, Any]) -> dict[str, Any]:
            return job

        def __eq__(self, other: object) -> bool:
            if not hasattr(self.compared, "once"):
                self.compared.once = True
                self.both.wait(10)
            return False

    (tmp_path / "link_of_threads.py").write_text("def stamp(job):\n    return job\n")
    (tmp_path / "conf.ini").write_text(
        "[pyworkers]\nbroker = memory://client-links\n[middleware]\nclient = link_of_threads:stamp\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app = App()
    app.client_middleware(Slow())
    app.configure(tmp_path / "conf.ini")
    try:
        pushing = [threading.Thread(target=app.enqueue, args=("q", "J", [])) for _ in range(2)]
        for thread in pushing:
            thread.start()
        for thread in pushing:
            thread.join(20)
        assert len(app._declared.client_links) == 2
    finally:
        app.use(app.config)
        forget("memory://client-links")


def test_error_and_death_handlers_are_called(app: App) -> None:
    seen: list[Any] = []
    app.on_error(lambda message, error: seen.append(("error", message.jid, str(error))))
    app.on_death(lambda message, error: seen.append(("death", message.jid, str(error))))

    @app.job("J", queue="q", retry=0)
    def run() -> None:
        raise ValueError("no")

    with working(app):
        jid = run.enqueue()
        assert eventually(lambda: len(seen) == 2)
    assert seen == [("error", jid, "no"), ("death", jid, "no")]


def test_all_threads_share_one_client(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler is told through it: a second one would not tell."""
    made: list[Any] = []
    at_once = threading.Barrier(4)
    module = sys.modules["goworkers_py.api.partition"]
    client = module.Client

    def slow_client(*args: Any) -> Any:
        made.append(client(*args))
        at_once.wait(20)
        return made[-1]

    monkeypatch.setattr(module, "Client", slow_client)
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(app.client)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(map(id, got))) == 1
    assert app.client is got[0]


@pytest.mark.usefixtures("server_program")
def test_the_embedded_server_is_started_by_the_first_push(tmp_path: Path) -> None:
    app = App()
    app.configure(redis="embedded", data_dir=tmp_path)
    try:
        app.enqueue("q", "J", [1])
        assert [(queue.name, queue.size) for queue in app.inspector.stats().queues] == [("q", 1)]
    finally:
        app.use(app.config)


@pytest.mark.usefixtures("server_program")
def test_quit_releases_the_embedded_server(tmp_path: Path) -> None:
    """As its last user does: it stops, and a later push starts it again."""
    app = App()
    app.configure(redis="embedded", data_dir=tmp_path)
    app.process("q", print, 1)
    try:
        app.start()
        assert (tmp_path / "redis.sock").exists()
        app.quit()
        assert not (tmp_path / "redis.sock").exists()
        assert app.enqueue("q", "J", [1])
    finally:
        app.use(app.config)


@pytest.mark.usefixtures("server_program")
def test_after_run_the_embedded_server_is_started_by_the_next_push(tmp_path: Path) -> None:
    program = """
        import os, signal
        import goworkers_py as workers

        @workers.job(queue="q")
        def end():
            os.kill(os.getpid(), signal.SIGTERM)

        workers.configure(broker="embedded", data_dir="data")
        end.enqueue()
        assert workers.run() == 0
        assert not os.path.exists("data/redis.sock")
        assert end.enqueue()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, env=environment())
    assert done.returncode == 0


@pytest.mark.usefixtures("server_program")
def test_after_a_start_that_failed_the_embedded_server_is_started_by_the_next_push(tmp_path: Path) -> None:
    app = App()
    app.configure(broker="embedded", data_dir=tmp_path)
    app.process("q", print, 1)
    app.before_start(lambda: 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            app.start()
        assert app.enqueue("q", "J", [1])
        app.quit()
        assert app.enqueue("q", "J", [1])
    finally:
        app.use(app.config)


# --- stats_server


def get(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_stats_server_has_the_figures_of_go_workers(own_redis: RedisServer) -> None:
    with own_app(own_redis.url) as app:
        app.enqueue("q", "J", [])
        app.enqueue_in("q", "J", 60, [])
        server = app.stats_server(0)
        try:
            assert get(server.port, "/stats?x=1") == (
                200,
                {
                    "processed": 0, "failed": 0, "enqueued": {"q": "1"},
                    "retries": 0, "scheduled": 1, "dead": 0, "in_progress": 0,
                },
            )  # fmt: skip
            assert get(server.port, "/")[0] == 404
            with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{server.port}: Address already in use"):
                app.stats_server(server.port)
            own_redis.kill()
            status, body = get(server.port, "/stats")
            assert (status, list(body)) == (503, ["error"])
        finally:
            server.stop()
