"""Pushes of unique jobs that the Redis server refuses: no job is pushed, and no lock stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis as redis_py
from access_rules import COMMANDS, PASSWORD, PATTERNS
from apps import job, own_broker
from servers import RedisServer

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerFull, BrokerRefused
from goworkers_py.core.holder import Conflict
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import LockClaim

LATER = 4_000_000_000.0  # in 2096


def unique(jid: str, at: float | None = None) -> Push:
    return Push("q", job(jid=jid), at, ties=(LockClaim(f"Job:{jid}", jid, 60),))


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


@pytest.mark.parametrize(("key", "at"), [("queue:q", None), ("schedule", LATER)])
def test_no_lock_stays_where_the_place_is_of_another_type(
    broker: RedisBroker, redis: redis_py.Redis, key: str, at: float | None
) -> None:
    redis.set(key, "no list and no set")
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        broker.transport.publish([unique("a", at), unique("b", at)])
    assert list(broker.require_part(Locks).entries()) == []
    redis.delete(key)
    broker.transport.publish([unique("a", at), unique("b", at)])
    assert {one.holder.jid for one in broker.require_part(Locks).entries()} == {"a", "b"}


def test_no_job_is_pushed_where_a_lock_is_of_another_type(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set("pyworkers:lock:Job:b", "no hash")
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        broker.transport.publish([unique("a"), unique("b")])
    assert redis.llen("queue:q") == 0
    assert redis.keys("pyworkers:lock:*") == [b"pyworkers:lock:Job:b"]


def test_a_full_server_pushes_nothing(own_redis: RedisServer) -> None:
    redis = own_redis.client()
    with own_broker(own_redis.url) as broker:
        broker.transport.publish([unique("before")])
        redis.config_set("maxmemory", 1)
        with pytest.raises(BrokerFull):
            broker.transport.publish([unique("a"), unique("b")])
        redis.config_set("maxmemory", 0)
        assert [one.holder.jid for one in broker.require_part(Locks).entries()] == ["before"]
        assert redis.llen("queue:q") == 1


def test_a_lock_is_met_where_exists_is_not_allowed(own_redis: RedisServer) -> None:
    redis = own_redis.client()
    redis.execute_command("ACL", "SETUSER", "walled", "on", f">{PASSWORD}", *PATTERNS, *COMMANDS, "-exists")
    with own_broker(own_redis.url.replace("//", f"//walled:{PASSWORD}@")) as broker:
        broker.transport.publish([unique("a")])
        [met] = broker.transport.publish([unique("a")])
    assert isinstance(met, Conflict)
    assert redis.llen("queue:q") == 1


@pytest.mark.parametrize("denied", ["-lpush", "-expire", "-hset"])
def test_no_lock_stays_where_a_command_is_not_allowed(own_redis: RedisServer, denied: str) -> None:
    redis = own_redis.client()
    redis.execute_command("ACL", "SETUSER", "walled", "on", f">{PASSWORD}", *PATTERNS, *COMMANDS, denied)
    url = own_redis.url.replace("//", f"//walled:{PASSWORD}@")
    with own_broker(url) as broker, pytest.raises(BrokerRefused, match=f"(?i){denied[1:]}"):
        broker.transport.publish([unique("a"), unique("b")])
    assert redis.keys("pyworkers:lock:*") == []
    assert redis.llen("queue:q") == 0
