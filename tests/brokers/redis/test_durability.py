"""A job writes few bytes to the append-only file, and so to the stream of each replica."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis as redis_py
from servers import RedisServer
from verbs import KEYS, OWNER, job, leased_broker, publish

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import DONE

pytestmark = pytest.mark.server

JOBS = 1_000


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    server = RedisServer(appendonly="yes", appendfsync="always", auto_aof_rewrite_percentage="0")
    yield server
    server.close()


@pytest.fixture
def redis(server: RedisServer) -> Iterator[redis_py.Redis]:
    client = server.client()
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def broker(server: RedisServer, redis: redis_py.Redis) -> Iterator[RedisBroker]:
    broker = leased_broker(server.url)
    yield broker
    broker.close()


def written(redis: redis_py.Redis) -> int:
    return int(redis.info("persistence")["aof_current_size"])


def settle(broker: RedisBroker, number: int, deliveries: list[Delivery], held: list[Delivery]) -> None:
    ended = SettlementBatch("settler", number, [(one, DONE) for one in deliveries], held)
    assert broker.transport.settle(ended) == [True] * len(deliveries)


@pytest.mark.parametrize("size", [10, 5_000])
@pytest.mark.parametrize("behind", [0, 3], ids=["in order", "behind older ones that run on"])
def test_a_job_that_is_fetched_and_done_writes_no_payload(
    broker: RedisBroker, redis: redis_py.Redis, size: int, behind: int
) -> None:
    for start in range(0, JOBS, 100):
        publish(broker, *(job(number, text="x" * size) for number in range(start, start + 100)))
    before, number, held = written(redis), 0, []
    while taken := broker.transport.consume(OWNER, [("q", 50)], 50, wait_s=0):
        number, held = number + 1, [*held, *taken]
        leaving = held[behind:]
        settle(broker, number, leaving, held)
        held = held[:behind]
    assert len(held) == behind
    assert redis.lrange(KEYS.inprogress("q", OWNER), 0, -1) == [one.payload for one in held[::-1]]
    assert (written(redis) - before) / JOBS < 200


@pytest.mark.parametrize("size", [10, 5_000])
def test_one_job_alone_writes_no_payload(broker: RedisBroker, redis: redis_py.Redis, size: int) -> None:
    publish(broker, job(1, text="x" * size))
    before = written(redis)
    taken = broker.transport.consume(OWNER, [("q", 1)], 1)
    settle(broker, 1, taken, taken)
    assert redis.exists(KEYS.inprogress("q", OWNER)) == 0
    assert written(redis) - before < 800


def test_jobs_of_a_pool_write_no_payload_whatever_queues_lie_between_them(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    for queue in ("a", "b", "c"):
        publish(broker, *(job(number, queue=queue, text="x" * 2_000) for number in range(100)), queue=queue)
    before, number = written(redis), 0
    while taken := broker.transport.consume(OWNER, [("a", 20), ("b", 20), ("c", 40)], 80, wait_s=0):
        number += 1
        newest = [one for one in taken if one.queue == "c"]
        settle(broker, 2 * number, newest, taken)
        older = [one for one in taken if one.queue != "c"]
        settle(broker, 2 * number + 1, older, older)
    assert redis.keys("queue:*") == []
    assert (written(redis) - before) / 300 < 200
