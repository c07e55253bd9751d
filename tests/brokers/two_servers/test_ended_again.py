"""A job of RabbitMQ has ended, and its connection was lost before its end was acknowledged: RabbitMQ delivers it again,
and it does not run again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
from harness import Process, job, payloads
from rabbit import RabbitNode
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.brokers.redis.queues.store import RedisStore
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import DONE, REQUEUE, Outcome, Retry

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


@pytest.fixture
def proxy(rabbit_server: RabbitNode) -> Iterator[RawProxy]:
    with RawProxy(rabbit_server.port) as one:
        yield one


@pytest.fixture
def me(rabbit_url: str, rabbit_server: RabbitNode, proxy: RawProxy, redis_url: str) -> Iterator[Process]:
    address = rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")
    one = Process(Config(broker=address, store=redis_url)).begin()
    with closing(one.broker):
        yield one


@pytest.fixture
def other(rabbit_url: str, redis_url: str) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url, store=redis_url)).begin()
    with closing(one.broker):
        yield one


@pytest.fixture
def pusher(rabbit_url: str) -> Iterator[Process]:
    """Its connection is not lost."""
    one = Process(Config(broker=rabbit_url))
    with closing(one.broker):
        yield one


def lose(proxy: RawProxy, delivery: Delivery) -> None:
    proxy.cut()
    assert eventually(lambda: delivery.receipt.flow.connection.error)


def end_too_late(me: Process, pusher: Process, proxy: RawProxy, outcome: Outcome = DONE) -> None:
    """A job ends after its connection was lost."""
    pusher.publish(job("ended"))
    [delivery] = me.consume(1)
    lose(proxy, delivery)
    assert me.settle((delivery, outcome)) == [False]


def is_acknowledged(process: Process, pusher: Process, caplog: pytest.LogCaptureFixture) -> None:
    """The job comes again to this process, does not run, and is gone."""
    while not any("acknowledged and not run: 1 jobs" in line for line in caplog.messages):
        assert process.broker.transport.consume(process.identity, [("q", 9)], 9, 0.2) == []
    process.broker.close()
    pusher.publish(job("next"))
    assert payloads(pusher.consume(1)) == [job("next")]


@pytest.mark.parametrize("outcome", [DONE, Retry(4_000_000_000.5, job("ended", retry_count=0))], ids=["done", "retry"])
def test_it_is_acknowledged_and_not_run_by_another_process(
    me: Process, other: Process, pusher: Process, proxy: RawProxy, redis: redis_py.Redis, outcome: Outcome,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    end_too_late(me, pusher, proxy, outcome)
    me.broker.close()
    is_acknowledged(other, pusher, caplog)
    assert (redis.zcard("retry"), int(redis.get("stat:processed"))) == (int(outcome is not DONE), 1)
    lives_s = [redis.ttl(key) for key in redis.keys("pyworkers:ended-message:*")]
    assert [0 < life_s <= 86_400 for life_s in lives_s] == [True]


def test_a_job_that_was_given_back_and_one_that_has_not_ended_run(
    me: Process, other: Process, pusher: Process, proxy: RawProxy
) -> None:
    end_too_late(me, pusher, proxy, REQUEUE)
    [again] = me.consume(1)
    assert (again.payload, me.settle((again, DONE))) == (job("ended"), [True])
    pusher.publish(job("other"))
    [runs] = me.consume(1)
    lose(proxy, runs)
    assert payloads(other.consume(1)) == [job("other")]


def test_an_end_is_remembered_when_the_store_was_away_at_first(
    me: Process,
    other: Process,
    pusher: Process,
    proxy: RawProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pusher.publish(job("ended"))
    [delivery] = me.consume(1)
    lose(proxy, delivery)
    batch = me.batch((delivery, DONE))
    with monkeypatch.context() as away:
        away.setattr(RedisStore, "note_ends", raising(BrokerUnavailable("away")))
        with pytest.raises(BrokerUnavailable):
            me.broker.transport.settle(batch)
    assert me.broker.transport.settle(batch) == [False]
    me.broker.close()
    is_acknowledged(other, pusher, caplog)


def test_a_store_that_refuses_to_remember_ends_keeps_nothing_from_ending(
    me: Process,
    other: Process,
    pusher: Process,
    proxy: RawProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(RedisStore, "note_ends", raising(BrokerRefused("no permission")))
    monkeypatch.setattr(RedisStore, "known_ends", raising(BrokerRefused("no permission")))
    end_too_late(me, pusher, proxy)
    me.broker.close()
    assert payloads(other.consume(1)) == [job("ended")]
    assert [line for line in caplog.messages if "cannot" in line] == [
        "the ends of 1 jobs cannot be remembered, and they run again: no permission",
        "cannot ask whether jobs that came again have ended, and they run: no permission",
    ]


def test_a_job_that_comes_again_while_the_store_is_away_goes_back_and_does_not_run(
    me: Process,
    other: Process,
    pusher: Process,
    proxy: RawProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    end_too_late(me, pusher, proxy)
    me.broker.close()
    asked: list[bool] = []

    def known_ends(*_: object) -> set[str]:
        asked.append(True)
        raise BrokerUnavailable("away")

    with monkeypatch.context() as away:
        away.setattr(RedisStore, "known_ends", known_ends)
        while not asked:
            assert other.broker.transport.consume(other.identity, [("q", 9)], 9, 0.2) == []
    is_acknowledged(other, pusher, caplog)


def test_no_store_is_asked_for_a_job_that_comes_the_first_time(
    me: Process, pusher: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisStore, "known_ends", raising(AssertionError("asked")))
    pusher.publish(job(1))
    [delivery] = me.consume(1)
    assert me.settle((delivery, DONE)) == [True]


def raising(error: Exception) -> object:
    def method(*_: object) -> None:
        raise error

    return method
