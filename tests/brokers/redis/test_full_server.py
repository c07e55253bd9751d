"""On a server that is out of memory, steps that free memory or keep a lease go on: each calls a command first that is
allowed there, and after it the server lets the script call all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from apps import job
from servers import RedisServer
from verbs import KEYS, OTHER, OWNER, as_it_was

from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.errors import BrokerFull
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.limit import Begins, LimitSettings, Slot

PRESENCE = Presence(OWNER, {"q": 1})


@pytest.fixture
def fill(own_redis: RedisServer) -> Callable[[], None]:
    client = own_redis.client()
    return lambda: client.config_set("maxmemory", "1")


def test_a_lease_is_kept_and_made_again(
    own_broker: RedisBroker, own_redis: RedisServer, fill: Callable[[], None]
) -> None:
    own_broker.recoverable.beat(PRESENCE)
    fill()
    own_broker.recoverable.beat(PRESENCE)
    own_redis.client().delete(KEYS.lease(OWNER))
    own_broker.recoverable.beat(PRESENCE)
    assert own_redis.client().exists(KEYS.lease(OWNER))


def test_jobs_are_fetched_and_those_of_a_dead_process_are_recovered(
    own_broker: RedisBroker, own_redis: RedisServer, fill: Callable[[], None]
) -> None:
    own_broker.transport.publish([Push("q", job(jid=one)) for one in "ab"])
    own_broker.recoverable.beat(PRESENCE)
    own_broker.recoverable.beat(Presence(OTHER, {"q": 1}))
    fill()
    assert len(own_broker.transport.consume(OTHER, [("q", 1)], 1)) == 1
    own_redis.client().delete(KEYS.lease(OTHER))
    assert [one.owner for one in own_broker.recoverable.recover(OWNER, as_it_was, "")] == [OTHER]
    assert len(own_broker.transport.consume(OWNER, [("q", 2)], 2)) == 2


def test_jobs_begin_and_blocks_wait_for_their_turn(own_broker: RedisBroker, fill: Callable[[], None]) -> None:
    own_broker.require_part(Limits).declare([LimitSettings("one", 1)])
    own_broker.transport.publish([Push("q", job())])
    own_broker.recoverable.beat(PRESENCE)
    [one] = own_broker.transport.consume(OWNER, [("q", 1)], 1)
    fill()
    assert own_broker.require_part(Iterations).begin("1", "1.0").cursor.run == 1
    wish = SlotWish([Slot("one")], "1", one, one.payload, ["q"])
    assert own_broker.require_part(Limits).begin(wish) == Begins()
    assert own_broker.require_part(Limits).take(Slot("one"), "block", OWNER) is False


def test_a_push_is_refused(own_broker: RedisBroker, fill: Callable[[], None]) -> None:
    fill()
    with pytest.raises(BrokerFull):
        own_broker.transport.publish([Push("q", job())])
