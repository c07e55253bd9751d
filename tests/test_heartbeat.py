from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import redis as redis_py
from apps import own_broker
from servers import RedisServer
from waiting import eventually

from goworkers_py import heartbeat as module
from goworkers_py.brokers.redis import RedisBroker
from goworkers_py.clock import Deadline
from goworkers_py.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.heartbeat import BEAT_EVERY_S, Heartbeat
from goworkers_py.identity import Lease
from goworkers_py.keys import Keys
from goworkers_py.outage import Outage

KEYS = Keys()


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def heartbeat(broker: RedisBroker, lease: Lease, process: str = "") -> Heartbeat:
    return Heartbeat(broker, lease, ["q"], process, Outage())


def test_a_beat_renews_the_lease_on_both_sides(broker: RedisBroker, redis: redis_py.Redis) -> None:
    lease = Lease(50)
    assert not lease.fresh
    assert heartbeat(broker, lease).run_once() == BEAT_EVERY_S
    assert lease.fresh
    assert 55 <= redis.ttl(KEYS.lease(lease.identity)) <= 60
    assert redis.hkeys(KEYS.owners) == [lease.identity.encode()]


def test_a_lease_that_vanished_but_whose_jobs_nobody_took_is_made_again(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    lease = Lease(50)
    it = heartbeat(broker, lease)
    it.beat()
    identity = lease.identity
    redis.delete(KEYS.lease(identity))
    it.beat()
    assert lease.identity == identity
    assert redis.exists(KEYS.lease(identity))


def test_a_process_that_was_declared_dead_goes_on_under_another_identity(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    lease = Lease(50)
    it = heartbeat(broker, lease)
    it.beat()
    dead = lease.identity
    redis.delete(KEYS.lease(dead))
    broker.recover("another", by_lease=True)
    it.beat()
    assert lease.identity != dead
    assert lease.fresh
    assert redis.exists(KEYS.lease(lease.identity))
    assert not redis.exists(KEYS.lease(dead))
    assert caplog.messages == [
        f"{dead} was not heard of for so long that its jobs were given to others; going on as {lease.identity}"
    ]


def test_a_process_name_that_a_live_process_has_is_refused(broker: RedisBroker) -> None:
    first = Lease(50)
    heartbeat(broker, first, "one").beat()
    with pytest.raises(BrokerRefused, match=f"the process name 'one' is in use by {first.identity}"):
        heartbeat(broker, Lease(50), "one").beat()
    heartbeat(broker, Lease(50), "two").beat()


def test_only_a_beat_that_got_through_makes_it_steady(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    with own_broker(own_redis.url) as broker:
        lease = Lease(0)
        it = heartbeat(broker, lease)
        assert it.steady_for() == 0
        it.beat()
        now = 107.0
        it.beat()
        assert it.steady_for() == 7
        own_redis.kill()
        with pytest.raises(BrokerUnavailable):
            it.beat()
        assert it.steady_for() == 0
        own_redis.start()
        it.beat()
        now = 108.0
        assert it.steady_for() == 1


def test_it_beats_on_its_own_until_stopped(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_EVERY_S", 0.01)
    lease = Lease(50)
    it = heartbeat(broker, lease)
    it.start()
    assert eventually(lambda: redis.exists(KEYS.lease(lease.identity)))
    redis.delete(KEYS.lease(lease.identity))
    assert eventually(lambda: redis.exists(KEYS.lease(lease.identity)))
    it.stop()
    assert it.join(Deadline(20))
