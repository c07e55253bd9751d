"""The scripts that free and take locks of sidekiq-unique-jobs. With the gem itself: test_interop_locks.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_broker

from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.admin import Change
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.effect import Effect, Push
from goworkers_py.core.outcome import Done
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock
from goworkers_py.features.for_ruby.lock import RubyLock
from goworkers_py.features.for_ruby.options import EchoConfig

ME, D = "me:1:aaaaaaaaaaaa", "uniquejobs:d"


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url, sections=(EchoConfig(locks="native"),)) as broker:
        yield broker


@pytest.fixture
def settle(broker: RedisBroker) -> Callable[..., object]:
    """Settles a job with these effects."""
    broker.recoverable.beat(Presence(ME, {"q": 0}))

    def settle(*effects: Effect) -> object:
        broker.transport.publish([Push("q", b'{"class":"A","jid":"j","args":[]}')])
        [delivery] = broker.transport.consume(ME, [("q", 1)], 1)
        settle.number += 1  # type: ignore[attr-defined]
        return broker.transport.settle(SettlementBatch("settler", settle.number, [(delivery, Done(effects=effects))]))  # type: ignore[attr-defined]

    settle.number = 0  # type: ignore[attr-defined]
    return settle


def held(redis: redis_py.Redis, *jids: str) -> None:
    """As the gem does, for a lock without an end."""
    redis.hset(f"{D}:LOCKED", mapping=dict.fromkeys(jids, "1"))
    redis.set(D, jids[-1])
    redis.zadd("uniquejobs:digests", {D: 1})


def holders(redis: redis_py.Redis) -> set[bytes]:
    return set(redis.hkeys(f"{D}:LOCKED"))


def test_a_lock_is_freed_by_the_job_that_holds_it_and_its_waiters_are_woken(
    settle: Callable[..., object], redis: redis_py.Redis
) -> None:
    held(redis, "j")
    redis.zadd("uniquejobs:expiring_digests", {D: 1})
    for way in ("QUEUED", "PRIMED"):
        redis.rpush(f"{D}:{way}", "j", "other")
    assert settle(FreeRubyLock("j", D)) == [True]
    assert redis.exists(D, f"{D}:LOCKED", "uniquejobs:digests", "uniquejobs:expiring_digests") == 0
    assert redis.lrange(f"{D}:QUEUED", 0, -1) == [b"1", b"other"]
    assert redis.lrange(f"{D}:PRIMED", 0, -1) == [b"other"]
    assert 0 < redis.ttl(f"{D}:QUEUED") <= 5


def test_no_job_frees_the_lock_of_another(settle: Callable[..., object], redis: redis_py.Redis) -> None:
    held(redis, "other")
    assert settle(FreeRubyLock("j", D)) == [True]
    assert (holders(redis), redis.get(D)) == ({b"other"}, b"other")
    held(redis, "j")
    assert settle(FreeRubyLock("j", D)) == [True]
    assert holders(redis) == {b"other"}
    assert redis.zcard("uniquejobs:digests") == 1


def test_a_lock_is_taken_within_its_limit_and_lives_as_long_as_ruby_says(
    settle: Callable[..., object], redis: redis_py.Redis
) -> None:
    held(redis, "other")
    settle(TakeRubyLock("j", D, 1, 60))
    assert holders(redis) == {b"other"}
    redis.delete("uniquejobs:digests")
    settle(TakeRubyLock("j", D, 2, 60))
    assert holders(redis) == {b"other", b"j"}
    assert (redis.get(D), redis.zrange("uniquejobs:digests", 0, -1)) == (b"j", [D.encode()])
    assert all(0 < redis.ttl(key) <= 60 for key in (D, f"{D}:LOCKED"))


def test_a_job_is_settled_where_its_lock_cannot_be_written(
    settle: Callable[..., object], redis: redis_py.Redis
) -> None:
    redis.set(f"{D}:LOCKED", "no hash")
    assert settle(FreeRubyLock("j", D), TakeRubyLock("j", D, 1, 0)) == [True]


def test_a_job_that_begins_again_has_its_lock(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """Its worker was killed while it ran."""
    lock = RubyLock(D, "j", "while_executing")
    assert broker.neighbours is not None
    assert broker.require_part(RubyLocks).begin(lock)
    assert broker.require_part(RubyLocks).begin(lock)
    assert not broker.require_part(RubyLocks).begin(RubyLock(D, "other", "while_executing"))
    assert redis.hkeys(f"{D}:RUN:LOCKED") == [b"j"]


def test_a_job_takes_the_lock_that_it_lost_and_does_not_begin_where_another_has_it(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    assert broker.neighbours is not None
    assert broker.require_part(RubyLocks).begin(RubyLock(D, "j", "until_executed", ttl_s=60))
    assert (holders(redis), 0 < redis.ttl(f"{D}:LOCKED") <= 60) == ({b"j"}, True)
    assert not broker.require_part(RubyLocks).begin(RubyLock(D, "other", "until_executed"))
    assert broker.require_part(RubyLocks).begin(RubyLock(D, "j", "until_executed"))


def test_a_lock_that_is_already_that_of_the_run_is_not_freed_as_the_job_begins(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    assert broker.neighbours is not None
    assert broker.require_part(RubyLocks).begin(RubyLock(f"{D}:RUN", "j", "until_and_while_executing"))
    assert redis.hkeys(f"{D}:RUN:LOCKED") == [b"j"]


def test_a_job_that_people_delete_frees_its_lock(broker: RedisBroker, redis: redis_py.Redis) -> None:
    fields: dict[str, Any] = {"class": "A", "jid": "j", "args": [], "lock": "until_executed", "lock_digest": D}
    held(redis, "j")
    redis.lpush("queue:q", json.dumps(fields))
    list(broker.admin.jobs_in(waiting_in("q")).change(lambda page: [Change(job, None) for job in page]))
    assert (redis.llen("queue:q"), holders(redis)) == (0, set())
