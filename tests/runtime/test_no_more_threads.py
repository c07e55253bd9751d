"""The system refuses a thread, because a limit of processes is reached, or a user's code takes too long at the stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import forget, state_at
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import PoisonPill
from goworkers_py.wire.message import Message

ADDRESS = "memory://no-more-threads"


@pytest.fixture
def app() -> Iterator[App]:
    with own_app(ADDRESS, QueueConfig("a", concurrency=2), QueueConfig("b", concurrency=2)) as app:
        yield app
    forget(ADDRESS)


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Refuses to start the thread of this name, as CPython does when the system has none left."""
    start = threading.Thread.start

    def refuse(name: str) -> None:
        def start_unless(thread: threading.Thread) -> None:
            if thread.name == name:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_unless)

    return refuse


@pytest.mark.parametrize("name", ["heartbeat", "recoverer", "settler:a", "worker:b:2", "fetcher:b"])
def test_a_start_without_room_for_a_thread_fails_and_leaves_nothing(
    name: str, app: App, refuse: Callable[[str], None]
) -> None:
    ran = []
    app.job("Add", queue="a")(ran.append)
    app.enqueue("a", "Add", [1])
    refuse(name)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        app.start()
    assert not [thread.name for thread in threading.enumerate() if ":" in thread.name]
    before = len(ran)
    app.enqueue("a", "Add", [2])
    stats = app.inspector.stats()
    assert (stats.processes, stats.in_progress) == (0, 0)
    assert state_at(ADDRESS).leases == {}
    assert stats.queues[0].size + before == 2


def test_a_stop_without_room_for_a_thread_drains_and_runs_the_hooks(app: App, refuse: Callable[[str], None]) -> None:
    called, begun, ended = [], threading.Event(), threading.Event()
    app.during_drain(lambda: called.append("hook"))

    @app.job("Slow", queue="a")
    def slow() -> None:
        begun.set()
        time.sleep(0.2)
        ended.set()

    slow.enqueue()
    with working(app):
        assert begun.wait(10)
        refuse("during-drain")
    assert ended.is_set()
    assert called == ["hook"]
    assert app.inspector.stats().in_progress == 0


def test_after_a_start_that_failed_a_quit_calls_nothing(app: App, caplog: pytest.LogCaptureFixture) -> None:
    called = []
    app.before_start(lambda: 1 / 0)
    app.during_drain(lambda: called.append("hook"))
    with pytest.raises(ZeroDivisionError):
        app.start()
    app.quit()
    assert called == []
    assert "could not deregister" not in caplog.text


def test_a_stop_that_fails_closes_the_broker(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may go on after it, and an embedded server must not run for it any longer."""

    def refuse(*_: object, **__: object) -> Iterator[object]:
        raise ValueError("the lease cannot be read")

    broker, closed = app.broker, []
    monkeypatch.setattr(broker.recoverable, "leave", refuse)
    monkeypatch.setattr(broker, "close", lambda: closed.append(True))
    app.start()
    with pytest.raises(ValueError, match="the lease cannot be read"):
        app.quit()
    assert closed
    assert app.broker is not broker


def test_a_long_death_handler_keeps_no_lease_after_the_stop(app: App) -> None:
    entered, let_go = threading.Event(), threading.Event()

    @app.on_death
    def dead(message: Message, error: BaseException) -> None:
        entered.set()
        let_go.wait(30)

    launcher = app.runner.launcher()
    launcher.after_jobs_s = 3.0  # the heartbeat must end within it
    recoverer = launcher._services.recoverer
    launcher.start(threading.Event())
    try:
        recoverer._deaths.append((Message(b'{"class":"A","args":[]}', "a"), PoisonPill("it crashed")))
        recoverer.look_now()
        assert entered.wait(10)
        assert launcher.stop()
        assert state_at(ADDRESS).leases == {}
    finally:
        let_go.set()
        assert eventually(lambda: not recoverer.alive)
