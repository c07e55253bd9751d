"""Jobs that wait for a time in Redis: due jobs are moved, each once, step by step."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import redis as redis_py
from verbs import (
    FAR,
    KEYS,
    RETRY,
    SCHEDULED,
    Make,
    consume_all,
    forward,
    freeze_clock,
    job,
    promote,
    promote_all,
    promoted,
    put_waiting,
    seconds,
)

from goworkers_py.brokers.contracts.store import TIMED
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.clock import Clock
from goworkers_py.core.job_state import JobState
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.runtime.scheduling.scheduler import Scheduler
from goworkers_py.wire import enclosure, payload


@pytest.mark.parametrize("state", TIMED)
def test_due_jobs_are_promoted_oldest_first_and_others_stay(broker: RedisBroker, state: JobState) -> None:
    now = time.time()
    entries = {job("b"): now - 1, job("a"): now - 2, job("c"): now + 60, job("mail", "mail"): 5.0}
    put_waiting(broker, state, entries)
    assert promote(broker, state) == (3, [pytest.approx(60, abs=30)])
    assert consume_all(broker) == [promoted(job("a")), promoted(job("b"))]
    assert consume_all(broker, queue="mail") == [promoted(job("mail", "mail"))]


def test_a_promotion_of_an_empty_set_says_that_no_job_waits(broker: RedisBroker) -> None:
    assert promote(broker) == (0, [None])


def steps(broker: RedisBroker, redis: redis_py.Redis, at_once: int) -> list[int]:
    """How many entries have left the schedule after each step of one promotion."""
    promotion = broker.store.promote(SCHEDULED, forward, at_once)
    left = [redis.zcard(KEYS.schedule), *(redis.zcard(KEYS.schedule) for _ in promotion)]
    return [before - after for before, after in pairwise(left)]


def test_promotion_goes_step_by_step(broker: RedisBroker, redis: redis_py.Redis) -> None:
    put_waiting(broker, SCHEDULED, {job(n): float(n) for n in range(5)})
    assert steps(broker, redis, at_once=2) == [2, 2, 1]


def test_promotion_that_is_broken_off_leaves_the_rest_where_it_is(broker: RedisBroker, redis: redis_py.Redis) -> None:
    put_waiting(broker, SCHEDULED, {job(n): float(n) for n in range(5)})
    promotion = broker.store.promote(SCHEDULED, forward, 2)
    assert redis.zcard(KEYS.schedule) == 5
    next(promotion)
    promotion.close()
    assert redis.zrange(KEYS.schedule, 0, -1) == [job(2), job(3), job(4)]
    assert consume_all(broker) == [promoted(job(0)), promoted(job(1))]


def test_promotion_takes_few_large_entries_at_a_time(broker: RedisBroker, redis: redis_py.Redis) -> None:
    large = [payload.splice(job(n), {"args": [n, "x" * 100_000]}) for n in range(35)]
    put_waiting(broker, SCHEDULED, {raw: float(n) for n, raw in enumerate(large)})
    assert steps(broker, redis, at_once=500) == [10, 10, 10, 5]
    assert consume_all(broker) == [promoted(raw) for raw in large]


def test_promotion_skips_entries_that_cannot_be_moved(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set(KEYS.queue("broken"), "no list")
    entries = [job(0), *(job(n, "broken") for n in range(1, 6)), *(job(n) for n in range(6, 9))]
    put_waiting(broker, SCHEDULED, {entry: float(n) for n, entry in enumerate(entries)})
    assert steps(broker, redis, at_once=2) == [1, 0, 0, 2, 1]
    assert consume_all(broker) == [promoted(job(n)) for n in (0, 6, 7, 8)]
    assert redis.zrange(KEYS.schedule, 0, -1) == [job(n, "broken") for n in range(1, 6)]


def test_promotion_follows_the_servers_clock(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    put_waiting(broker, SCHEDULED, {job("due"): now - 1, job("not yet"): now + 600})
    given: list[float] = []
    for wrong in (now + 86_400, now - 86_400):
        freeze_clock(monkeypatch, wrong)
        list(broker.store.promote(SCHEDULED, lambda entry, at: given.append(at) or ("q", entry), 10))
    assert given == [pytest.approx(now, abs=30)]
    assert consume_all(broker) == [job("due")]


def test_an_unreadable_entry_does_not_stop_the_promotion_of_others(broker: RedisBroker) -> None:
    put_waiting(broker, SCHEDULED, {b"no job": 1.0, job("a"): 2.0})
    assert promote(broker) == (2, [None])
    assert consume_all(broker) == [promoted(job("a"))]
    assert promote_all(broker) == 0


def test_two_promotions_at_the_same_time_move_each_entry_once(make: Make) -> None:
    count = 2_000
    brokers = [make(), make()]
    for start in range(0, count, 500):
        put_waiting(brokers[0], SCHEDULED, {job(n): 1.0 + n for n in range(start, start + 500)})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(promote_all, brokers, [50, 70]))
    assert sorted(consume_all(brokers[0])) == sorted(promoted(job(n)) for n in range(count))


def test_a_job_that_gets_a_later_time_during_its_promotion_is_not_promoted(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    put_waiting(broker, SCHEDULED, {job(1): 1.0, job(2): 2.0})

    def forward_and_postpone(entry: bytes, now: float) -> tuple[str | None, bytes]:
        if entry == job(1):
            redis.zadd(KEYS.schedule, {entry: FAR})
        return forward(entry, now)

    list(broker.store.promote(SCHEDULED, forward_and_postpone, 10))
    assert redis.zrange(KEYS.schedule, 0, -1, withscores=True) == [(job(1), FAR)]
    assert consume_all(broker) == [promoted(job(2))]


def test_only_the_time_of_enqueueing_changes_on_the_way_into_the_queue(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    entry = '{"class":"Böse::Job", "args":[1.0e+16,12345678901234567890.10],"enqueued_at":1,"x":{"b":[],"a":{}}'
    entry += ',"queue":"q"}'
    redis.zadd(KEYS.schedule, {entry: 1})
    before = redis.time()
    Scheduler(broker.store, Config(), DueHints(), Clock(), Outage("Redis")).run_once()
    [raw] = redis.lrange(KEYS.queue("q"), 0, -1)
    enqueued_at = json.loads(raw)["enqueued_at"]
    assert raw.decode() == entry.replace('"enqueued_at":1', f'"enqueued_at":{enqueued_at!r}').replace(", ", ",")
    assert seconds(before) <= enqueued_at <= seconds(redis.time())
    assert redis.smembers(KEYS.queues) == {b"q"}


@pytest.mark.parametrize("entry", [b'{"class":"J","args":[1.0e+16],"jid":"j1"}', b"\xff{not json"])
def test_a_due_entry_that_has_no_queue_goes_to_the_dead_set_in_a_form_that_ruby_reads(
    broker: RedisBroker, redis: redis_py.Redis, entry: bytes
) -> None:
    redis.zadd(KEYS.retry, {entry: 1})
    before = redis.time()
    promote(broker, RETRY)
    [(dead, died_at)] = redis.zrange(KEYS.dead, 0, -1, withscores=True)
    kept = enclosure.original(payload.read(dead))
    assert entry == (dead if kept is None else kept)
    assert seconds(before) <= died_at <= seconds(redis.time())
    assert redis.zcard(KEYS.retry) == 0


def test_an_entry_that_cannot_be_moved_stays_and_the_others_go_on(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.set(KEYS.queue("broken"), "no list")
    redis.set(KEYS.dead, "no set")
    redis.zadd(KEYS.schedule, {job(1, "broken"): 1, "no job": 2, job(2): 3, job(3, "broken"): 4, job(4): 5})
    assert promote(broker) == (5, [None])
    assert redis.zrange(KEYS.schedule, 0, -1) == [job(1, "broken"), b"no job", job(3, "broken")]
    assert consume_all(broker) == [promoted(job(2)), promoted(job(4))]
    first, second = caplog.messages  # one line a key, though there are three entries
    assert "WRONGTYPE" in first
    assert "(key dead)" in first
    assert "(key queue:broken)" in second


def test_an_entry_that_was_taken_meanwhile_is_not_moved(broker: RedisBroker, redis: redis_py.Redis) -> None:
    def forward_slowly(entry: bytes, now: float) -> tuple[str, bytes]:
        redis.zrem(KEYS.schedule, entry)
        return "q", entry

    redis.zadd(KEYS.schedule, {job(1): 1})
    assert list(broker.store.promote(SCHEDULED, forward_slowly, 10)) == [None]
    assert not redis.exists(KEYS.schedule)
    assert consume_all(broker) == []


@pytest.mark.parametrize(
    ("namespace", "named", "queue"), [("ns", "ns:mail", "mail"), ("ns", "mail", "mail"), ("", "ns:mail", "ns:mail")]
)
def test_a_queue_name_into_which_go_workers_leaked_its_namespace_is_found(
    make: Make, redis: redis_py.Redis, namespace: str, named: str, queue: str
) -> None:
    keys = Keys(namespace)
    broker = make(namespace=namespace)
    redis.zadd(keys.retry, {job(1, named): 1})
    promote(broker, RETRY)
    assert redis.smembers(keys.queues) == {queue.encode()}
    assert consume_all(broker, queue=queue) == [promoted(job(1, named))]
