"""The public Python API of `goworkers_py`."""

from __future__ import annotations

import datetime
import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, own_app, queue, started, working
from daemon import environment
from waiting import eventually

import goworkers_py
from goworkers_py import ArgumentError, BrokerUnavailable, ConfigError, Message, current_message
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig

UNWORKED = "jobs are registered for queue forgotten, but this process fetches from others: add -q"


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
