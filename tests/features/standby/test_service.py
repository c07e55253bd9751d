"""A daemon with `standby` inside the test's process: hooks, epochs, and jobs that outlive their term."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from stepped_server import SteppedServer
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.core.errors import BrokerUnavailable, ConfigError, Fenced, LeaseLost
from goworkers_py.core.fence import Fence, as_producer
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, LeaderChange, News
from goworkers_py.features.standby.redis import RedisLeadership
from goworkers_py.features.standby.standby import Standby
from goworkers_py.wire.message import current_message

LEASE = "pyworkers:leader:main"


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, standby=True, leader_lease=10) as app:  # a busy machine renews it in time
        yield app


def test_a_broker_without_elections_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryBroker, "family", "")
    with own_app("memory://", standby=True) as app, pytest.raises(ConfigError, match="standby needs a broker with ele"):
        app.runner.daemon()


def test_hooks_and_jobs_are_told_the_epoch(app: App) -> None:
    changes, epochs = list[LeaderChange](), list[int | None]()
    app.on_lead(changes.append)
    app.on_follow(changes.append)
    app.process("q", lambda message: epochs.append(message.epoch), 1)
    with working(app):
        app.enqueue("q", "J", [])
        assert eventually(lambda: epochs == [1])
    assert changes == [LeaderChange(True, 1, ""), LeaderChange(False, 1, "")]


def test_a_leader_tells_its_first_beat_at_once(redis_url: str) -> None:
    beats: list[News] = []
    with own_app(redis_url, standby=True, leader_lease=60) as app:
        end = app.broker.require_part(Leadership).listen(
            "main", lambda news: beats.append(news) if news.what == "beat" else None
        )
        app.process("q", print, 1)
        with working(app):
            assert eventually(lambda: beats, within_s=15)  # a third of the lease is 20 s
        end()
    assert beats[0].epoch == 1


def test_a_lease_counts_from_before_it_was_asked_for(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server counts from its own step, and the reply may be on its way for long."""
    asked_at, left_s = [0.0], list[float]()
    for verb in ("win", "renew"):
        real: Any = getattr(RedisLeadership, verb)

        def slow(*args: Any, real: Any = real) -> Any:
            asked_at[0] = awake_and_asleep()
            answer = real(*args)
            time.sleep(0.3)
            return answer

        monkeypatch.setattr(RedisLeadership, verb, slow)
    hold = Fence.hold

    def noted(fence: Fence, until: float) -> None:
        left_s.append(until - asked_at[0])
        hold(fence, until)

    monkeypatch.setattr(Fence, "hold", noted)
    with own_app(redis_url, standby=True, leader_lease=30) as app:
        app.process("q", print, 1)
        with working(app):
            assert eventually(lambda: len(left_s) == 2)  # of the bid and of the first renewal
    # A tenth of the lease is left over, for clocks that run at another speed.
    assert max(left_s) < 27.1


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
    begun, over, told, epochs = threading.Event(), threading.Event(), list[object](), list[int]()

    @app.job("J", queue="q", interrupt=False)
    def outlive() -> None:
        message = current_message()
        assert message is not None
        if begun.is_set():
            return  # the leader after that one has recovered it
        epochs.append(message.epoch or 0)
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
        assert eventually(lambda: int(redis.hget("pyworkers:election:main", "epoch")) > epochs[0])
        over.set()
        assert eventually(lambda: told)
        app.enqueue("mine", "J", [])
        assert redis.llen("queue:mine") == 1
    assert redis.llen("queue:other") == 0


def test_a_job_is_interrupted_when_the_term_is_lost_while_the_leader_hands_over(
    redis_url: str, redis: redis_py.Redis
) -> None:
    begun, told = threading.Event(), list[type]()
    with own_app(redis_url, standby=True, leader_lease=10, timeout=60) as app:

        @app.job("J", queue="q", retry=False)
        def long() -> None:
            begun.set()
            try:
                while True:
                    time.sleep(0.01)
            except BaseException as error:
                told.append(type(error))
                raise

        daemon = app.runner.daemon()
        assert daemon.start(threading.Event())
        try:
            standby = daemon.main
            assert isinstance(standby, Standby)
            long.enqueue()
            assert begun.wait(20)
            standby.quiet()
            assert eventually(lambda: any(one.state.deadline is not None for one in standby._turns.launchers))
            redis.delete(LEASE)  # as if it had ended by the server's clock
            assert eventually(lambda: told == [LeaseLost])
        finally:
            standby.hurry()
            daemon.stop()


def test_the_command_quiet_has_a_leader_hand_over(app: App, redis: redis_py.Redis) -> None:
    app.process("q", print, 1)
    daemon = app.runner.daemon(lambda command, who: None)
    assert daemon.start(threading.Event())
    try:
        assert eventually(lambda: any(one.commands for one in app.inspector.processes()))
        [answer] = app.inspector.call("quiet", timeout_s=20).answers
        assert (answer.value, answer.error) == ("quiet", "")
        assert eventually(lambda: not redis.exists(LEASE))
        assert daemon.state == "quiet"
    finally:
        daemon.stop()


def test_a_leader_whose_farewell_the_server_held_up_bids_again(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), threading.Event()
    answers.set()
    for verb in ("look", "renew"):
        real: Any = getattr(RedisLeadership, verb)

        def held_up(*args: Any, real: Any = real) -> Any:
            if not answers.is_set():
                asked.set()
                answers.wait(20)
                raise BrokerUnavailable("no answer")
            return real(*args)

        monkeypatch.setattr(RedisLeadership, verb, held_up)
    with own_app(redis_url, standby=True, leader_lease=3) as app:  # so long it waits for the farewell
        app.process("q", print, 1)
        daemon = app.runner.daemon()
        assert daemon.start(threading.Event())
        try:
            standby = daemon.main
            assert isinstance(standby, Standby)
            assert eventually(lambda: (now := standby._turns.now) is not None and now.launcher.state.started)
            term = standby._turns.next
            assert term is not None
            answers.clear()
            assert asked.wait(20)
            standby._turns.end_term()
            assert eventually(lambda: standby._turns.next is not term)  # it did not wait for the farewell any longer
            answers.set()
            assert eventually(lambda: int(redis.hget("pyworkers:election:main", "epoch")) > term.fence.epoch)
        finally:
            answers.set()
            daemon.stop()


def test_a_process_that_has_won_leads_when_the_reply_was_lost(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, epochs = RedisLeadership.win, list[int]()

    def lose_the_first_reply(*args: Any) -> int:
        epochs.append(real(*args))
        if len(epochs) == 1:
            raise BrokerUnavailable("no answer")
        return epochs[-1]

    monkeypatch.setattr(RedisLeadership, "win", lose_the_first_reply)
    ran = threading.Event()
    with own_app(redis_url, standby=True, leader_lease=60) as app:
        app.process("q", lambda message: ran.set(), 1)
        with working(app):
            app.enqueue("q", "J", [])
            assert ran.wait(20)
    assert epochs == [1, 1]


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


def test_after_a_step_back_of_the_servers_clock_another_process_takes_over_from_a_dead_leader(
    stepped_redis: SteppedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(stepped_redis.url, standby=True, leader_lease=0.6) as app:
        nobody = app.broker.require_part(Leadership).look("main")
        assert app.broker.require_part(Leadership).win("main", Bid("dead", "token", False, nobody), 5) == 1
        stepped_redis.step_to(-600)
        app.process("q", print, 1)
        with working(app):
            assert eventually(lambda: int(stepped_redis.client().hget(LEASE, "epoch") or 0) > 1)
    assert "the clock of the server was set back. Shortened it" in caplog.text


def test_after_a_step_back_of_the_servers_clock_a_leader_that_lives_goes_on(stepped_redis: SteppedServer) -> None:
    client = stepped_redis.client()
    with own_app(stepped_redis.url, standby=True, leader_lease=10) as app:
        app.process("q", print, 1)
        with working(app):
            assert eventually(lambda: client.hget(LEASE, "epoch") == b"1")
            for _ in range(5):
                client.pexpire(LEASE, 600_000)
                app.broker.require_part(Leadership).shorten("main", 1)
                assert client.pttl(LEASE) <= 10_000
                time.sleep(0.05)
            assert not app.broker.require_part(Leadership).shorten("main", 1)
            client.pexpire(LEASE, 600_000)
            assert not app.broker.require_part(Leadership).shorten("main", 2)
            stepped_redis.step_to(-600)
            assert eventually(lambda: client.pttl(LEASE) <= 10_000)
            assert client.hget(LEASE, "epoch") == b"1"


def test_a_lease_that_lasts_longer_than_those_of_its_leader_is_shortened(app: App, redis: redis_py.Redis) -> None:
    leadership = app.broker.require_part(Leadership)
    leadership.win("main", Bid("one", "token", False, leadership.look("main")), 60)
    redis.pexpire(LEASE, 600_000)
    assert app.broker.require_part(Leadership).shorten("main", 1)
    assert 0 < redis.pttl(LEASE) <= 60_000


def test_the_lease_of_a_leader_of_a_former_release_is_left_alone(app: App, redis: redis_py.Redis) -> None:
    """It does not tell how long its leases last."""
    leadership = app.broker.require_part(Leadership)
    leadership.win("main", Bid("old", "token", False, leadership.look("main")), 60)
    redis.hdel(LEASE, "life")
    redis.pexpire(LEASE, 600_000)
    leader = app.broker.require_part(Leadership).look("main").leader
    assert leader is not None
    assert leader.life_s == math.inf
    assert not app.broker.require_part(Leadership).shorten("main", 1)


def test_a_thread_without_the_context_of_a_job_pushes_in_the_term_of_its_process(
    app: App, redis: redis_py.Redis
) -> None:
    """In a process whose program is the daemon: a job may have started that thread."""
    app.runner._is_daemon = True

    def push(queue: str = "other") -> None:
        pool.submit(app.enqueue, queue, "J", []).result(20)

    def pushes_again() -> bool:
        with suppress(Fenced):
            push("again")
        return redis.llen("queue:again") > 0

    @app.on_follow
    def tell(change: LeaderChange) -> None:
        app.enqueue("followed", "J", [])

    with ThreadPoolExecutor(1) as pool:
        app.process("q", lambda message: push(), 1)
        push("q")  # before the first term: no job can have started the thread
        with working(app):
            assert eventually(lambda: redis.llen("queue:other") == 1)
            redis.hset(LEASE, mapping={"token": "of another", "epoch": 41, "identity": "another"})
            redis.persist(LEASE)
            with pytest.raises(Fenced):
                push()
            assert eventually(lambda: redis.llen("queue:followed") == 1)
            with pytest.raises(Fenced):
                push()
            with as_producer():  # the pages of this process
                app.enqueue("by a person", "J", [])
            assert redis.llen("queue:other") == redis.llen("queue:by a person") == 1
            redis.delete(LEASE)
            assert eventually(pushes_again)


def test_a_program_in_which_the_daemon_runs_pushes_whoever_leads(app: App, redis: redis_py.Redis) -> None:
    app.process("q", print, 1)
    with working(app):
        assert eventually(lambda: redis.exists(LEASE))
        redis.hset(LEASE, mapping={"token": "of another", "epoch": 41, "identity": "another"})
        redis.persist(LEASE)
        app.enqueue("mine", "J", [])
    assert redis.llen("queue:mine") == 1
