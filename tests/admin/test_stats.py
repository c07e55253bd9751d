"""The figures of `Inspector.stats`, from a real server."""

from __future__ import annotations

import json
import time

import pytest
import redis as redis_py
from apps import own_app

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.fleet import QueueStats, Stats
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server import damage
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.wire import payload

FAR = 4_000_000_000.0


def job(**fields: object) -> bytes:
    return payload.write({"class": "Job", "args": [], **fields})


def test_a_counter_without_a_number_counts_as_0_and_is_logged_once(
    inspector: Inspector, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "_reported", set())
    redis.set("stat:processed", "abc")
    redis.set("stat:failed", 3)
    for _ in range(2):
        stats = inspector.stats()
        assert (stats.processed, stats.failed) == (0, 3)
    assert caplog.messages == [
        "key stat:processed holds no number, and is shown as 0: delete it, or set it to a number"
    ]


def test_every_figure_of_an_empty_server_is_0(inspector: Inspector) -> None:
    assert inspector.stats() == Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, [])


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_jobs_are_counted_in_each_place(redis_url: str, redis: redis_py.Redis, namespace: str) -> None:
    keys = Keys(namespace)
    with own_app(redis_url, namespace=namespace) as app:
        transport, leases = app.broker.transport, app.broker.recoverable
        transport.publish([Push("mail", job(n=n)) for n in range(5)] + [Push("b", job()), Push("a", job())])
        transport.publish([Push("mail", job(n=n), at=FAR + n) for n in range(3)])
        leases.beat(Presence("here:1:aaaa", {"mail": 10, "b": 1}))
        leases.beat(Presence("here:2:bbbb", {"mail": 10}))
        transport.consume("here:1:aaaa", [("mail", 2)], 2)
        transport.consume("here:1:aaaa", [("b", 1)], 1)
        transport.consume("here:2:bbbb", [("mail", 1)], 1)
        redis.delete(keys.lease("here:2:bbbb"))  # it has died, and its job is still in progress
        redis.mset({keys.processed: 12, keys.failed: 3})
        redis.zadd(keys.retry, {"a": 1, "b": 2})
        redis.zadd(keys.dead, {"a": 1})
        stats = app.inspector.stats()
    assert (stats.processed, stats.failed, stats.scheduled, stats.retries, stats.dead) == (12, 3, 3, 2, 1)
    assert (stats.in_progress, stats.processes) == (4, 1)
    assert stats.queues == [QueueStats("a", 1, 0.0), QueueStats("b", 0, 0.0), QueueStats("mail", 2, 0.0)]


def test_jobs_of_another_namespace_are_not_counted(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.sadd("ns:queues", "q")
    redis.set("ns:stat:processed", 5)
    assert inspector.stats() == Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, [])


@pytest.mark.parametrize(
    ("oldest", "waited"),
    [
        (lambda now: job(enqueued_at=now - 60, created_at=now - 600), 60),
        (lambda now: job(created_at=now - 600), 600),
        (lambda now: job(enqueued_at=int(now * 1_000) - 60_000), 60),
        (lambda now: job(enqueued_at=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now - 60))), 60),
        (lambda now: job(enqueued_at=now + 600), 0),
        (lambda now: job(enqueued_at="soon"), 0),
        (lambda now: job(), 0),
        (lambda now: b"\xffno job", 0),
    ],
    ids=["float", "created", "ms", "go", "future", "text", "none", "unreadable"],
)
def test_the_latency_of_a_queue_is_how_long_its_next_job_has_waited(
    inspector: Inspector, redis: redis_py.Redis, oldest: object, waited: float
) -> None:
    now = time.time()
    redis.sadd("queues", "q")
    redis.lpush("queue:q", oldest(now), job(enqueued_at=now))
    [queue] = inspector.stats().queues
    assert (queue.name, queue.size) == ("q", 2)
    assert queue.latency_s == pytest.approx(waited, abs=30 if waited else 0)


def test_a_paused_queue_is_listed_before_its_first_push(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.sadd("queues", "q")
    redis.sadd("paused", "mail")
    assert [(queue.name, queue.paused) for queue in inspector.stats().queues] == [("mail", True), ("q", False)]


def test_a_key_of_another_type_hides_none_of_the_queues(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.sadd("queues", "broken", "q")
    redis.set("queue:broken", "not a list")
    redis.lpush("queue:q", job())
    assert [queue.name for queue in inspector.stats().queues] == ["q"]


def test_stats_can_be_written_as_json(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.sadd("queues", "q")
    assert json.loads(json.dumps(inspector.stats().as_dict())) == {
        "processed": 0, "failed": 0, "scheduled": 0, "parked": 0, "outbox": 0, "retries": 0, "dead": 0,
        "in_progress": 0, "processes": 0, "groups": 0, "grouped": 0, "oldest_grouped_s": 0,
        "batches": 0, "batch_pending": 0, "oldest_batch_s": 0, "failed_batches": 0,
        "chains": 0, "oldest_link_s": 0, "stopped_chains": 0,
        "queues": [{"name": "q", "size": 0, "latency_s": 0.0, "paused": False}],
        "limits": {}, "partitions": {},
    }  # fmt: skip


def test_stats_without_a_server_raise_broker_unavailable() -> None:
    with own_app("redis://127.0.0.1:1/0") as app, pytest.raises(BrokerUnavailable):
        app.inspector.stats()
