"""For how long Redis knows a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import redis as redis_py
from apps import job, own_broker
from verbs import OWNER, batch_of

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.effect import KEPT_S, Push
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.outcome import Done
from goworkers_py.features.batches.batch import BatchTie, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.chains.chain import LinkJob, NewChain
from goworkers_py.features.chains.contract import Chains

INNER = Membership("b.inner")


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def test_events_of_a_batch_let_those_around_it_live_on(broker: RedisBroker, redis: redis_py.Redis) -> None:
    def end() -> None:
        [one] = broker.transport.consume(OWNER, [("q", 1)], 1)
        broker.transport.settle(batch_of((one, Done(effects=(EndInBatch("1", INNER, "succeeded"),)))))

    def chain() -> None:
        broker.require_part(Chains).push(NewChain("c", [[LinkJob("elsewhere", job())]], INNER.bid))

    broker.require_part(Batches).open(NewBatch(Membership("b"), "", "hold"))
    redis.lpush("pyworkers:deaths:b", "{}")
    events: list[Callable[[], object]] = [
        lambda: broker.require_part(Batches).open(NewBatch(INNER, "", "hold")),
        lambda: broker.require_part(Batches).hold(INNER.bid, "other"),
        lambda: broker.transport.publish([Push("q", job(), ties=(BatchTie(INNER.bid),))] * 2),
        chain,
        end,
    ]
    for event in events:
        redis.expire("pyworkers:batch:b", 1_000)
        redis.expire("pyworkers:deaths:b", 1_000)
        redis.zadd("pyworkers:batches", {"b": 1_000})
        event()
        assert redis.ttl("pyworkers:batch:b") > KEPT_S - 1_000
        assert redis.ttl("pyworkers:deaths:b") > KEPT_S - 1_000
        assert redis.zscore("pyworkers:batches", "b") > time.time() + KEPT_S - 1_000


def test_where_a_batch_can_be_neither_listed_nor_deleted_nothing_of_it_stays(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    redis.execute_command("ACL", "SETUSER", "default", "-zadd", "-del")
    try:
        with pytest.raises(BrokerRefused, match="ZADD"):
            broker.require_part(Batches).open(NewBatch(Membership("b"), "", "hold"))
    finally:
        redis.execute_command("ACL", "SETUSER", "default", "+zadd", "+del")
    assert redis.keys("pyworkers:batch*") == []


def test_blocks_that_open_a_batch_again_make_its_record_no_longer(broker: RedisBroker, redis: redis_py.Redis) -> None:
    batches = broker.require_part(Batches)
    batches.open(NewBatch(Membership("b"), "", "hold"))
    fields = redis.hkeys("pyworkers:batch:b")
    batches.hold("b", "other")
    batches.let_go("b", "other")
    assert redis.hkeys("pyworkers:batch:b") == fields


def test_a_batch_that_has_ended_notes_no_hold(broker: RedisBroker, redis: redis_py.Redis) -> None:
    batches = broker.require_part(Batches)
    batches.open(NewBatch(Membership("b"), "", "hold"))
    batches.let_go("b", "hold")
    fields = redis.hkeys("pyworkers:batch:b")
    assert not batches.hold("b", "late")
    batches.let_go("b", "late", late=True)
    assert redis.hkeys("pyworkers:batch:b") == fields
