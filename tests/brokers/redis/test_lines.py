"""Lines and outboxes in Redis: entries that nobody can read, keys of another type, a server without memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import own_broker, queue
from servers import RedisServer
from verbs import KEYS, OWNER, batch_of, job, publish

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import PARKED
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.queues.lines import parking
from goworkers_py.core.effect import PostJobs, Push
from goworkers_py.core.outcome import Done, Park

LINE = KEYS.line("line")


@pytest.fixture
def own(own_redis: RedisServer) -> Iterator[RedisBroker]:
    with own_broker(own_redis.url) as broker:
        yield broker


def park(broker: RedisBroker, *payloads: bytes) -> None:
    publish(broker, *payloads)
    parked = broker.transport.consume(OWNER, [("q", len(payloads))], len(payloads))
    assert set(broker.transport.settle(batch_of(*((one, Park("line")) for one in parked)))) == {True}


def test_an_entry_is_a_header_and_the_payload(broker: RedisBroker, redis: redis_py.Redis) -> None:
    park(broker, job(1))
    header, payload = redis.lindex(LINE, 0).split(b"\n")
    told = json.loads(header)
    assert (told["v"], told["queue"], payload) == (1, "q", job(1))
    assert redis.smembers(KEYS.lines) == {b"line"}


UNREADABLE = [
    b'{"v":2,"queue":"q","at":1}\n{}', b"no header", b"[]\n{}", b'{"v":1,"queue":["q"],"at":1}\n{}', b"\xff\n{}",
]  # fmt: skip


@pytest.mark.parametrize("odd", [*UNREADABLE, b'{"v":1,"queue":"\\ud800","at":1}\n{}', b"[" * 100_000])
def test_an_entry_that_this_release_cannot_read_stays_and_holds_up_no_other(
    broker: RedisBroker, redis: redis_py.Redis, odd: bytes
) -> None:
    park(broker, job(1))
    redis.rpush(LINE, odd)  # it is the first of the line
    assert broker.store.release("line", 5) == 1
    assert (queue(redis), redis.lrange(LINE, 0, -1)) == ([job(1)], [odd])
    assert broker.store.release("line", 1) == 0
    inspector = Inspector(lambda: broker)
    assert [one.payload for one in inspector.first(PARKED, 5)] == [odd]
    assert sum(changed.done for _, changed in inspector.delete(PARKED, Filter())) == 1
    assert not redis.exists(LINE, KEYS.lines)


def test_pushes_behind_entries_that_nobody_can_read_are_relayed(broker: RedisBroker, redis: redis_py.Redis) -> None:
    outbox = KEYS.outbox("far")
    redis.sadd(KEYS.outboxes, "far")
    redis.rpush(outbox, line_entry.written(job(1), "q", 1.0, id="x"), *UNREADABLE * 50)
    [posted] = broker.store.posted("far", 100)
    assert posted.push == Push("q", job(1), id="x")
    broker.store.sent("far", [posted])
    assert (broker.store.posted("far", 100), redis.llen(outbox)) == ([], 250)


def test_a_job_whose_queue_is_damaged_stays_in_its_line_and_the_others_are_released(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    park(broker, *(job(number) for number in range(3)))
    redis.rpush(LINE, line_entry.written(job(9), "broken", 1.0))  # it is the first of the line
    redis.set("queue:broken", "no list")
    assert broker.store.release("line", 1) == 1
    assert "not released from line line: " in caplog.text
    assert "queue:broken" in caplog.text
    assert broker.store.release("line", 5) == 2
    assert (len(queue(redis)), redis.llen(LINE)) == (3, 1)
    redis.delete("queue:broken")
    assert broker.store.release("line", 5) == 1


def test_without_memory_jobs_are_released_and_pushes_leave_the_outbox(own: RedisBroker, own_redis: RedisServer) -> None:
    client = own_redis.client()
    park(own, job(1))
    publish(own, job(2))
    [parent] = own.transport.consume(OWNER, [("q", 1)], 1)
    own.transport.settle(batch_of((parent, Done(effects=(PostJobs("2", "far", (Push("q", job(3), id="x"),)),)))))
    client.config_set("maxmemory", "1")
    assert own.store.release("line", 1) == 1
    own.store.sent("far", own.store.posted("far", 1))
    assert (queue(client), client.llen(LINE), own.admin.outboxes()) == ([job(1)], 0, [])


@pytest.mark.parametrize("registry", [KEYS.lines, KEYS.outboxes])
def test_where_the_registry_is_damaged_nothing_is_parked_or_posted(
    broker: RedisBroker, redis: redis_py.Redis, registry: str
) -> None:
    redis.set(registry, "no set")
    publish(broker, job(1))
    [one] = broker.transport.consume(OWNER, [("q", 1)], 1)
    posts = Done(effects=(PostJobs("1", "far", (Push("q", job(2), id="x"),)),))
    outcome = Park("line") if registry == KEYS.lines else posts
    [told] = broker.transport.settle(batch_of((one, outcome)))
    assert "WRONGTYPE" in str(told)
    assert redis.exists(LINE, KEYS.outbox("far")) == 0
    redis.delete(registry)
    assert broker.transport.settle(batch_of((one, outcome))) == [True]
    assert redis.scard(registry) == 1


def test_an_outbox_that_comes_while_all_are_cleared_stays_registered(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    park(broker, job(1))
    lines = parking(broker.connections, KEYS, (1, 1.0))
    names = lines.names

    def late() -> list[str]:
        found = names()
        redis.sadd(KEYS.lines, "late")
        redis.lpush(KEYS.line("late"), line_entry.written(job(2), "q", 1.0))
        return found

    lines.names = late  # type: ignore[method-assign]
    assert lines.clear() == 1
    assert [line.name for line in broker.admin.lines()] == ["late"]
