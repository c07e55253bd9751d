"""A daemon with `standby` inside the test's process: hooks, epochs, and jobs that outlive their term."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import own_app, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.core.election import Fence, LeaderChange
from goworkers_py.core.errors import ConfigError, Fenced
from goworkers_py.wire.message import current_message

LEASE = "pyworkers:leader:main"


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, standby=True, leader_lease=0.6) as app:
        yield app


def test_a_broker_without_elections_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryBroker, "capabilities", frozenset(Capability) - {Capability.LEADERSHIP})
    with own_app("memory://", standby=True) as app, pytest.raises(ConfigError, match="standby needs a broker with ele"):
        app.daemon()


def test_hooks_and_jobs_are_told_the_epoch(app: App) -> None:
    changes, epochs = list[LeaderChange](), list[int | None]()
    app.on_lead(changes.append)
    app.on_follow(changes.append)
    app.process("q", lambda message: epochs.append(message.epoch), 1)
    with working(app):
        app.enqueue("q", "J", [])
        assert eventually(lambda: epochs == [1])
    assert changes == [LeaderChange(True, 1, ""), LeaderChange(False, 1, "")]


def test_a_job_without_standby_has_no_epoch(redis_url: str) -> None:
    epochs: list[int | None] = []
    with own_app(redis_url) as app:
        app.process("q", lambda message: epochs.append(message.epoch), 1)
        with working(app):
            app.enqueue("q", "J", [])
            assert eventually(lambda: epochs == [None])


def test_a_hook_that_fails_does_not_end_the_term(app: App, caplog: pytest.LogCaptureFixture) -> None:
    ran = threading.Event()

    @app.on_lead
    def fail(change: LeaderChange) -> None:
        raise ValueError("no")

    app.process("q", lambda message: ran.set(), 1)
    with working(app):
        app.enqueue("q", "J", [])
        assert ran.wait(20)
    assert "of on_lead or on_follow failed" in caplog.text


def test_a_job_that_outlives_its_term_pushes_nothing(app: App, redis: redis_py.Redis) -> None:
    begun, over, told = threading.Event(), threading.Event(), list[object]()

    @app.job("J", queue="q", interrupt=False)
    def outlive() -> None:
        message = current_message()
        assert message is not None
        if message.epoch != 1:
            return
        begun.set()
        over.wait(20)
        try:
            app.enqueue("other", "J", [])
        except Fenced as error:
            told.append(error)

    with working(app):
        outlive.enqueue()  # of the program itself, which is not fenced
        assert begun.wait(20)
        redis.delete(LEASE)  # as if it had ended by the server's clock
        assert eventually(lambda: redis.hget("pyworkers:election:main", "epoch") == b"2")
        over.set()
        assert eventually(lambda: told)
        app.enqueue("mine", "J", [])
        assert redis.llen("queue:mine") == 1
    assert redis.llen("queue:other") == 0


def test_a_fence_that_has_fallen_stays_so() -> None:
    fence = Fence("main", "token")
    with pytest.raises(Fenced):
        fence.check()
    fence.hold(float("inf"))
    fence.check()
    fence.fall("another leads")
    fence.hold(float("inf"))
    with pytest.raises(Fenced, match="another leads"):
        fence.check()
