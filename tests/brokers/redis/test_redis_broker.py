"""The whole broker on Redis: with a server that cannot serve, with lost replies, in a namespace, when it closes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis as redis_py
from proxy import Proxy
from servers import RedisServer
from verbs import (
    FAR,
    KEYS,
    OTHER,
    OWNER,
    RETRY,
    SCHEDULED,
    THIRD,
    Make,
    back,
    batch,
    beat,
    consume,
    consume_all,
    contents,
    held,
    hold,
    job,
    leave,
    promote,
    promote_all,
    publish,
    put_waiting,
    recover,
    strand,
)
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerFull, BrokerUnavailable
from goworkers_py.core.outcome import DISCARD, DONE, REQUEUE, Dead, Retry

Trouble = Callable[[redis_py.Redis, int], object]
TROUBLES: dict[str, Trouble] = {
    "READONLY": lambda client, port: client.replicaof("127.0.0.1", port),
    "NOREPLICAS": lambda client, port: client.config_set("min-replicas-to-write", 1),
}
VERBS: list[Callable[[RedisBroker], object]] = [
    lambda broker: publish(broker, job(2)),
    lambda broker: consume(broker, OWNER, "q", 5),
    lambda broker: broker.transport.settle(batch((job(1), DONE))),
    promote,
    lambda broker: beat(broker, OWNER, process="name"),
    lambda broker: recover(broker, by_lease=True, owner=THIRD),
    leave,
]


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_every_verb_raises_when_the_server_cannot_write_now(
    own_broker: RedisBroker, own_redis: RedisServer, trouble: Trouble
) -> None:
    client = own_redis.client()
    strand(own_broker, job(1), owner=OWNER)
    publish(own_broker, job(3))
    put_waiting(own_broker, SCHEDULED, {job(4): 1.0})
    client.delete(KEYS.lease(OWNER))
    before = contents(client)
    trouble(client, own_redis.port)
    for verb in VERBS:
        with pytest.raises(BrokerUnavailable):
            verb(own_broker)
    assert contents(client) == before


def test_a_full_server_takes_no_push_and_is_emptied_by_its_workers(
    own_broker: RedisBroker, own_redis: RedisServer
) -> None:
    client = own_redis.client()
    publish(own_broker, *map(job, range(8)))
    put_waiting(own_broker, SCHEDULED, {job("later"): 1.0})
    client.config_set("maxmemory", 1)
    with pytest.raises(BrokerFull):
        publish(own_broker, job("more"))
    beat(own_broker, OWNER, process="name")
    fetched = consume(own_broker, OWNER, "q", 6)
    assert fetched == [job(n) for n in range(6)]
    ends = [DONE, DISCARD, Dead(job("buried")), REQUEUE, Retry(1.0, job("again"))]
    settled = batch(*zip(fetched, ends, strict=False))
    assert own_broker.transport.settle(settled) == own_broker.transport.settle(settled) == [True] * 5
    assert promote_all(own_broker) == 2
    assert [len(leave(own_broker)), client.llen(KEYS.queue("q"))] == [1, 6]


def test_an_empty_queue_of_a_full_server_is_an_outage_that_ends_with_the_next_job(
    own_broker: RedisBroker, own_redis: RedisServer
) -> None:
    publish(own_broker, job(1))
    beat(own_broker, OWNER)
    own_redis.client().rename(KEYS.queue("q"), "aside")
    own_redis.client().config_set("maxmemory", 1)
    for _ in range(3):
        with pytest.raises(BrokerFull):
            consume(own_broker, OWNER, "q", 5)
    own_redis.client().rename("aside", KEYS.queue("q"))
    assert consume(own_broker, OWNER, "q", 5) == [job(1)]


def test_the_verbs_work_after_the_server_has_forgotten_the_scripts(broker: RedisBroker, redis: redis_py.Redis) -> None:
    for _ in range(2):
        redis.script_flush()
        publish(broker, job(1))
        assert consume(broker, OWNER, "q", 2) == [job(1)]
        redis.script_flush()
        assert broker.transport.settle(batch((job(1), DONE))) == [True]


def test_a_push_whose_reply_was_lost_is_not_made_again(
    proxied: tuple[Proxy, RedisBroker], own_redis: RedisServer
) -> None:
    proxy, broker = proxied
    proxy.drop_reply_of(b"LPUSH")
    with pytest.raises(BrokerUnavailable):
        publish(broker, job(1), job(2))
    assert own_redis.client().lrange(KEYS.queue("q"), 0, -1) == [job(2), job(1)]
    assert proxy.commands[b"LPUSH"] == 1


@pytest.mark.parametrize("waits", [False, True])
def test_a_fetch_whose_reply_was_lost_is_not_made_again_and_can_be_found(
    proxied: tuple[Proxy, RedisBroker], waits: bool
) -> None:
    proxy, broker = proxied
    consume(broker, OWNER, "q", 3)
    publish(broker, *map(job, range(5)))
    if not waits:
        consume(broker, OTHER, "q", 1)  # finds one by waiting; the next one looks for more at once
    name = b"BRPOPLPUSH" if waits else b"EVALSHA"
    sent = proxy.commands[name]
    proxy.drop_reply_of(name)
    with pytest.raises(BrokerUnavailable):
        consume(broker, OWNER, "q", 3)
    taken = [job(0)] if waits else [job(1), job(2), job(3)]
    assert held(broker) == taken
    assert proxy.commands[name] == sent + 1
    assert consume_all(broker, OTHER) == [job(n) for n in range(1 if waits else 4, 5)]


def test_a_settle_whose_reply_was_lost_can_be_called_again(
    proxied: tuple[Proxy, RedisBroker], own_redis: RedisServer
) -> None:
    proxy, broker = proxied
    hold(broker, job(1), job(1))
    ends = batch((job(1), Retry(1.0, job("again"))))
    proxy.drop_reply_of(b"EVALSHA", times=2)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            broker.transport.settle(ends)
    assert broker.transport.settle(ends) == [True]
    assert held(broker) == [job(1)]
    assert own_redis.client().get(KEYS.processed) == b"1"


def test_a_namespace_is_a_prefix_of_every_key_and_of_nothing_else(make: Make, redis: redis_py.Redis) -> None:
    broker = make(namespace="ns")
    publish(broker, *map(job, range(4)))
    broker.transport.publish([Push("q", job("later"), at=1.0), Push("q", job("much later"), at=FAR)])
    beat(broker, OWNER, process="name")
    consume(broker, OWNER, "q", 3)
    broker.transport.settle(batch((job(0), Dead(job("buried"))), (job(1), Retry(FAR, job("again")))))
    promote(broker)
    redis.zadd("ns:retry", {b"no job": 1})
    promote(broker, RETRY)
    recover(broker, by_lease=True, owner=OTHER)
    assert {key.decode().partition(":")[0] for key in redis.scan_iter()} == {"ns"}
    assert redis.smembers("ns:queues") == {b"q"}
    assert [redis.zcard(f"ns:{name}") for name in ("schedule", "retry", "dead")] == [1, 1, 2]
    assert leave(broker) == [back("q", OWNER, job(2))]
    assert {key.decode().partition(":")[0] for key in redis.scan_iter()} == {"ns"}


def test_closing_ends_every_connection(redis_url: str, redis: redis_py.Redis) -> None:
    def ours() -> set[str]:
        return {client["id"] for client in redis.client_list() if client["name"] == "pyworkers"}

    before = ours()  # left by tests before this one, until Python collects them
    broker = RedisBroker(redis_url, Config())
    beat(broker, OWNER)
    publish(broker, job(1), job(2))
    consume(broker, OWNER, "q", 1)
    broker.transport.wake("q")
    assert ours() - before
    broker.close()
    assert eventually(lambda: not ours() - before)
