"""The public Python API of `goworkers_py`."""

from __future__ import annotations

import datetime
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue, started, working
from daemon import environment
from servers import RedisServer
from waiting import eventually

import goworkers_py
from goworkers_py import ArgumentError, BrokerUnavailable, ConfigError, EnqueueOptions, Message, current_message
from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.config.options import Config, QueueConfig

UNWORKED = "jobs are registered for queue forgotten, but this process fetches from others: add -q"


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as app:
        yield app


def only(raws: list[bytes]) -> dict[str, Any]:
    (raw,) = raws
    fields: dict[str, Any] = json.loads(raw)
    return fields


# --- the module


def test_the_public_names_are_sorted_and_exist() -> None:
    assert goworkers_py.__all__ == sorted(goworkers_py.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(goworkers_py, name) for name in goworkers_py.__all__)


def test_the_functions_of_the_module_are_those_of_the_default_app() -> None:
    others = ("app", "current_message", "testing")
    of_the_app = [name for name in goworkers_py.__all__ if name.islower() and name not in others]
    assert len(of_the_app) > 20
    for name in of_the_app:
        assert getattr(goworkers_py, name) == getattr(goworkers_py.app, name)


# --- @job


def test_a_job_keeps_its_function_and_is_called_by_its_name_on_the_wire(app: App) -> None:
    @app.job
    def plain(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    @app.job("Billing::InvoiceJob", queue="billing")
    def invoice() -> None: ...

    @app.job(queue="other")
    def unnamed() -> None: ...

    assert (plain(1), plain(1, b=5), plain.__doc__, plain.__name__) == (3, 6, "Adds.", "plain")
    assert [plain.name, invoice.name, unnamed.name] == ["plain", "Billing::InvoiceJob", "unnamed"]
    assert repr(invoice) == "<Job Billing::InvoiceJob on queue billing>"
    assert app.registry.queues() == ["billing", "default", "other"]


def test_two_jobs_of_one_name_are_refused(app: App) -> None:
    @app.job("Same")
    def one() -> None: ...

    with pytest.raises(ConfigError, match="two jobs are called 'Same'"):

        @app.job("Same")
        def other() -> None: ...


def test_a_push_writes_the_options_of_the_jobs_code(app: App, redis: redis_py.Redis) -> None:
    @app.job("J", queue="q", retry=3, retry_queue="slow", dead=False, backtrace=5, tags=["a"])
    def run(number: int, options: dict[str, bool]) -> None: ...

    jid = run.enqueue(42, {"pdf": True})
    job = only(queue(redis))
    assert job.pop("created_at") == job.pop("enqueued_at") == pytest.approx(time.time(), abs=60)
    assert job == {
        "class": "J", "args": [42, {"pdf": True}], "jid": jid, "queue": "q",
        "retry": 3, "retry_queue": "slow", "dead": False, "backtrace": 5, "tags": ["a"],
    }  # fmt: skip
    assert redis.smembers("queues") == {b"q"}


def test_options_of_set_override_those_of_the_jobs_code(app: App, redis: redis_py.Redis) -> None:
    @app.job("J", queue="q", retry=3, tags=["a"])
    def run() -> None: ...

    run.set(queue="urgent", retry=False, tags=[]).enqueue()
    job = only(queue(redis, "urgent"))
    assert (job["retry"], job["tags"], job["queue"]) == (False, [], "urgent")
    run.enqueue()
    assert only(queue(redis))["retry"] == 3


@pytest.mark.parametrize("delay", [60, 60.0, datetime.timedelta(minutes=1)])
def test_enqueue_in_schedules_a_job_after_a_delay(delay: Any, app: App, redis: redis_py.Redis) -> None:
    @app.job("J", queue="q")
    def run(number: int) -> None: ...

    jid = run.enqueue_in(delay, 42)
    ((raw, score),) = redis.zrange("schedule", 0, -1, withscores=True)
    assert json.loads(raw)["jid"] == jid
    assert "enqueued_at" not in json.loads(raw)
    assert score == pytest.approx(time.time() + 60, abs=30)


def test_enqueue_at_schedules_a_job_for_a_time(app: App, redis: redis_py.Redis) -> None:
    @app.job("J", queue="q")
    def run(number: int) -> None: ...

    when = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
    run.enqueue_at(when, 1)
    run.enqueue_at(when.timestamp() + 1, 2)
    assert [score for _, score in redis.zrange("schedule", 0, -1, withscores=True)] == [4102444800, 4102444801]
    run.enqueue_at(5, 3)  # a time that has passed means now
    assert only(queue(redis))["args"] == [3]


def test_enqueue_bulk_keeps_the_order_of_its_rows(app: App, redis: redis_py.Redis) -> None:
    @app.job("J", queue="q")
    def run(number: int, options: dict[str, Any]) -> None: ...

    jids = run.enqueue_bulk([number, {}] for number in range(2_500))
    assert fields(queue(redis), "jid") == jids
    assert fields(queue(redis), "args") == [[number, {}] for number in range(2_500)]


@pytest.mark.parametrize(("args", "why"), [((), "missing a required argument: 'a'"), ((1, 2), "too many positional")])
def test_arguments_that_do_not_fit_the_function_are_refused_at_the_call(
    args: tuple[int, ...], why: str, app: App, redis: redis_py.Redis
) -> None:
    @app.job("J", queue="q")
    def run(a: int) -> None: ...

    with pytest.raises(ArgumentError, match=f"J cannot be called with these arguments: {why}"):
        run.enqueue(*args)
    with pytest.raises(ArgumentError, match=why):
        run.enqueue_bulk([[1], args])
    assert not redis.keys()


def test_arguments_of_a_builtin_without_a_signature_are_not_checked(app: App, redis: redis_py.Redis) -> None:
    app.job("Max", queue="q")(max).enqueue(1, 2)
    assert only(queue(redis))["args"] == [1, 2]


def test_current_message_is_the_message_of_the_running_job(app: App) -> None:
    seen: list[Message | None] = []

    @app.job("J", queue="q", tags=["t"])
    def run() -> None:
        seen.append(current_message())

    with working(app):
        jid = run.enqueue()
        assert eventually(lambda: seen)
    (message,) = seen
    assert message is not None
    assert (message.jid, message.queue, message.args, message.retry_count, message.tags) == (jid, "q", [], None, ["t"])
    assert current_message() is None


def test_without_configured_queues_the_queues_of_the_jobs_are_used(app: App) -> None:
    for name in ("a", "b"):
        app.job(f"J{name}", queue=name)(print)
    assert sorted(manager.name for manager in app.runner.launcher().managers) == ["a", "b"]


def test_without_any_job_no_queue_is_worked(app: App) -> None:
    """Those of `default` are the jobs of others."""
    assert app.runner.launcher().managers == []


def test_no_daemon_starts_without_code_for_its_queues(app: App) -> None:
    app.allow_no_jobs = False
    with pytest.raises(ConfigError, match="no jobs are registered: name the modules"):
        app.start()
    app.process("mail", print, 1)
    app.start()
    app.quit()


def test_run_warns_of_a_job_whose_queue_is_not_configured(tmp_path: Path) -> None:
    program = """
        import os, signal
        import goworkers_py as workers

        workers.configure(broker="memory://")
        workers.job("J", queue="forgotten")(print)
        workers.process("q", print)
        workers.before_start(lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert workers.run() == 0
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(UNWORKED) == 1


def test_a_job_whose_queue_is_not_configured_is_a_warning(app: App, caplog: pytest.LogCaptureFixture) -> None:
    app.job("J", queue="forgotten")(print)
    app.process("q", print)
    with working(app):
        pass
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [UNWORKED]


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
    assert only(queue(redis))["trace"] == "abc"


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


# --- what the configuration names


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module into the working directory and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    names: list[str] = []

    def write(text: str) -> str:
        names.append(f"written_{os.getpid()}_{len(names)}_{tmp_path.name}")
        (tmp_path / f"{names[-1]}.py").write_text(textwrap.dedent(text))
        return names[-1]

    yield write
    for name in names:
        sys.modules.pop(name, None)


LINKS = """
    seen = []
    class Trace:
        def call(self, queue, message, call_next):
            seen.append(type(self).__name__)
            return call_next()
    class First(Trace): pass
    class Own(Trace): pass
    made = Own()
    class Outer:
        class Inner(Trace): pass
    def handle(message):
        seen.append(message.job_class)
    def client(job):
        return {**job, "client": job.get("client", 0) + 1}
    constant = 7
"""


def configured(app: App, text: str) -> App:
    file = Path("conf.ini")
    file.write_text(f"[pyworkers]\nredis = {app.config.broker}\n{text}")
    app.configure(file)
    return app


def test_links_and_handlers_are_found_by_their_paths(
    module: Callable[[str], str], app: App, redis: redis_py.Redis
) -> None:
    name = module(LINKS)
    configured(
        app,
        f"""
        [queue:q]
        concurrency = 1
        handler = {name}:handle
        middleware = {name}:made, {name}:Outer.Inner
        [middleware]
        prepend = {name}:First
        append = {name}:Trace
        client = {name}:client
        """.replace("        ", ""),
    )
    for _ in range(2):
        with started(app) as launcher:
            app.enqueue("q", "J", [])
            assert eventually(lambda: sys.modules[name].seen[-1:] == ["J"])
            launcher.stop()
        assert sys.modules[name].seen == ["First", "Trace", "Own", "Inner", "J"]
        sys.modules[name].seen.clear()
    app.enqueue("q", "J", [])
    assert only(queue(redis))["client"] == 1  # one link, although the launcher was built several times


def test_a_job_object_may_be_a_queues_handler(module: Callable[[str], str], app: App) -> None:
    name = module(
        "from goworkers_py.api.app import App\nseen = []\n@App().job\ndef handle(message): seen.append(message)\n"
    )
    configured(app, f"[queue:q]\nhandler = {name}:handle\n")
    with working(app):
        jid = app.enqueue("q", "Whatever", [])
        assert eventually(lambda: sys.modules[name].seen)
    assert sys.modules[name].seen[0].jid == jid


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("require = no_such_module", "require: there is no module 'no_such_module' in "),
        ("require = {name}.inner", "require: there is no module '.*inner' in "),
        ("[queue:q]\nhandler = {name}", r"\[queue:q\] handler: '{name}' must be module:name"),
        ("[queue:q]\nhandler = {name}:nothing", r"\[queue:q\] handler: module '{name}' has no 'nothing'"),
        ("[queue:q]\nhandler = no_such_module:f", r"\[queue:q\] handler: there is no module 'no_such_module'"),
        ("[queue:q]\nmiddleware = {name}:constant", r"\[queue:q\] middleware: '{name}:constant' has no method call"),
        ("[middleware]\nappend = {name}:Outer.Gone", r"\[middleware\] append: module '{name}' has no 'Outer.Gone'"),
        ("[middleware]\nprepend = {name}:Outer", r"\[middleware\] prepend: '{name}:Outer' has no method call"),
        ("[middleware]\nclient = {name}:gone", r"\[middleware\] client: module '{name}' has no 'gone'"),
    ],
)
def test_a_wrong_path_to_a_link_or_handler_is_refused_before_anything_starts(
    section: str, why: str, module: Callable[[str], str], app: App
) -> None:
    name = module(LINKS)
    with pytest.raises(ConfigError, match=why.format(name=name)):
        configured(app, section.format(name=name) + "\n").runner.launcher()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"broker": "redis://localhost/0?no_such_option=1"}, "the server's address is not valid: .*no_such_option"),
        ({"broker": "kafka://localhost"}, "no installed package has a broker for kafka://"),
        ({"broker_password_file": "missing"}, "broker_password_file missing: cannot be read"),
    ],
)
def test_a_plan_for_a_broker_that_cannot_be_opened_is_refused(options: dict[str, str], why: str) -> None:
    """`restart` and `reload` make a plan to try new code and its configuration, before they stop a process."""
    app = App()
    app.configure(**options)
    with pytest.raises(ConfigError, match=why):
        app.runner.checked_plans()


def test_a_failing_import_inside_a_users_module_is_reported_with_its_traceback(
    module: Callable[[str], str], app: App
) -> None:
    name = module("import nothing_of_this_name")
    with pytest.raises(ConfigError, match="cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this"):
        configured(app, f"require = {name}\n").runner.launcher()


def test_start_does_not_change_the_programs_logging(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with own_app(redis_url, QueueConfig("q")) as app, caplog.at_level(logging.INFO, "goworkers_py"):
        handlers = logging.getLogger().handlers[:]
        with working(app):
            pass
        assert logging.getLogger().handlers == handlers


def test_a_push_without_a_server_raises_an_error_that_says_what_to_do() -> None:
    with own_app("redis://:secret@127.0.0.1:1/0") as app:
        for push in (lambda: app.enqueue("q", "J", []), lambda: app.job("J")(print).enqueue()):
            with pytest.raises(BrokerUnavailable) as raised:
                push()
            assert str(raised.value) == (
                "Error 111 connecting to 127.0.0.1:1. Connection refused; start the server of "
                "redis://:***@127.0.0.1:1/0, or set another address with PYWORKERS_BROKER, --broker or "
                "configure(broker=...): redis://host:port/db, or embedded, which starts a server of its own"
            )
