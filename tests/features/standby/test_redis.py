"""The election on a real server: leases that must expire, records of a later release, a server that hangs."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest
import redis as redis_py
from servers import RedisServer

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Standing
from goworkers_py.features.standby.redis import RedisLeadership
from goworkers_py.features.standby.redis_part import election_key

NOBODY = Standing(None, 0, "")


def test_a_win_whose_lease_cannot_expire_is_refused_and_leaves_no_lease(own_redis: RedisServer) -> None:
    """Else a process that is killed would lock the election for ever, as SETNX without EXPIRE does."""
    redis = own_redis.client()
    redis.acl_setuser("one", enabled=True, nopass=True, keys=["*"], channels=["*"], commands=["+@all", "-pexpire"])
    url = own_redis.url.replace("redis://", "redis://one@")
    with closing(RedisBroker(url, Config())) as broker, pytest.raises(BrokerRefused):
        broker.require_part(Leadership).win("billing", Bid("me", "token", False, NOBODY), 5)
    assert redis.keys("*") == []


def test_a_record_of_a_later_release_is_left_alone(redis_url: str, redis: redis_py.Redis) -> None:
    redis.hset(election_key(Keys(), "billing"), mapping={"v": 2, "epoch": 5, "more": "x"})
    with closing(RedisBroker(redis_url, Config())) as broker, pytest.raises(BrokerRefused, match="later release"):
        broker.require_part(Leadership).win("billing", Bid("me", "token", False, NOBODY), 5)
    assert redis.hgetall(election_key(Keys(), "billing")) == {b"v": b"2", b"epoch": b"5", b"more": b"x"}


def test_a_leader_learns_soon_that_a_renewal_fails(own_redis: RedisServer) -> None:
    def fails_soon() -> bool:
        began = awake_and_asleep()
        with pytest.raises(BrokerUnavailable):
            broker.require_part(Leadership).look("billing")
        return awake_and_asleep() - began < 4  # a plain exchange waits for five seconds

    with closing(RedisBroker(own_redis.url, Config(leader_lease=0.5))) as broker:
        assert isinstance(broker.require_part(Leadership), RedisLeadership)
        with suppress(BrokerUnavailable):  # on a busy machine, already this one may be too late
            broker.require_part(Leadership).look("billing")
        own_redis.pause()
        assert any(fails_soon() for _ in range(3)), "the machine may stand still during one of them"
        own_redis.resume()
