"""Settling deliveries: each job reaches its new place in one step, once, or stays in progress."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable

import pytest
import redis as redis_py
from apps import own_broker
from servers import RedisServer
from verbs import (
    KEYS,
    OTHER,
    OWNER,
    RETRY,
    Make,
    batch,
    batch_of,
    consume,
    consume_all,
    held,
    hold,
    job,
    promote,
    promote_all,
    publish,
    seconds,
)

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues.settlement import RECEIPT_LIFE_S
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect, Push
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.outcome import (
    DISCARD,
    DONE,
    REQUEUE,
    REQUEUE_LAST,
    Dead,
    Done,
    Outcome,
    Reschedule,
    Retry,
)
from goworkers_py.features.batches.batch import BatchTie, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.ruby_status.effects import ShowStatus
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.redis_part import record_key
from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.features.unique.lock import LockClaim

NOT_KEPT = [DONE, DISCARD, Dead(job("buried")), REQUEUE, REQUEUE_LAST, Retry(1.0, job("again"))]


def test_a_retry_is_due_at_its_time(broker: RedisBroker) -> None:
    hold(broker, job(1))
    broker.transport.settle(batch((job(1), Retry(time.time() + 100, job("again")))))
    assert promote(broker, RETRY) == (0, [pytest.approx(100, abs=30)])


@pytest.mark.parametrize(
    ("effect", "command"),
    [
        (lambda jid: EndInBatch(jid, Membership("b"), "succeeded"), "hincrby"),
        (lambda jid: FreeLock(jid, f"l{jid}"), "del"),
        (lambda jid: NoteState(TrackedJob(jid, "Job"), "completed", "", 60), "hset"),
    ],
    ids=["batch", "lock", "record"],
)
def test_jobs_with_one_effect_are_removed_together(
    own_redis: RedisServer, effect: Callable[[str], Effect], command: str
) -> None:
    """An LREM for each would be the cost of jobs with several effects."""
    redis, jids = own_redis.client(), [str(number) for number in range(50)]
    with own_broker(own_redis.url) as broker:
        broker.require_part(Batches).open(NewBatch(Membership("b"), "", "hold"))
        locks = [Push("q", job(jid), ties=(LockClaim(f"l{jid}", jid, 60), BatchTie("b"))) for jid in jids]
        broker.transport.publish(locks)
        redis.set(KEYS.lease(OWNER), 1)
        deliveries = broker.transport.consume(OWNER, [("q", 50)], 50)
        finished = [(one, Done(effects=(effect(jid),))) for one, jid in zip(deliveries, jids, strict=True)]
        redis.config_resetstat()
        assert all(broker.transport.settle(SettlementBatch("settler", 1, finished, deliveries)))
    told = redis.info("commandstats")
    assert told["cmdstat_evalsha"]["calls"] + told.get("cmdstat_eval", {"calls": 0})["calls"] <= 2
    assert told.get("cmdstat_lrem", {"calls": 0})["calls"] == 0
    assert told["cmdstat_ltrim"]["calls"] == 1
    assert told[f"cmdstat_{command}"]["calls"] == {"hincrby": 2, "del": 50, "hset": 50}[command]
    assert redis.llen("queue:q:" + OWNER + ":inprogress") == 0


@pytest.mark.parametrize("outcome", NOT_KEPT)
def test_a_delivery_that_is_no_longer_in_progress_is_left_alone(broker: RedisBroker, outcome: Outcome) -> None:
    publish(broker, job("mine"), job("another's"))
    consume(broker, OWNER, "q", 1)
    consume(broker, OTHER, "q", 1)
    ends = batch((job("never"), outcome), (job("mine"), DONE), (job("another's"), outcome), (job("mine"), outcome))
    assert broker.transport.settle(ends) == [False, True, False, False]
    assert held(broker, OTHER) == [job("another's")]
    assert promote_all(broker) == 0
    assert consume_all(broker) == []


def test_one_batch_may_hold_deliveries_of_several_owners(broker: RedisBroker) -> None:
    publish(broker, job(1), job(2), job(1))
    for owner in (OWNER, OTHER, "third:3:c"):
        consume(broker, owner, "q", 1)
    finished = [(Delivery(job(n), "q", owner), DONE) for n, owner in ((1, OWNER), (2, OWNER), (2, OTHER))]
    assert broker.transport.settle(batch_of(*finished)) == [True, False, True]
    assert held(broker, "third:3:c") == [job(1)]


@pytest.mark.parametrize(
    ("outcome", "processed", "failed"),
    [
        (DONE, 1, 0),
        (Retry(1.0, b"{}"), 1, 1),
        (Dead(b"{}"), 1, 1),
        (DISCARD, 1, 1),
        (REQUEUE, 0, 0),
        (REQUEUE_LAST, 0, 0),
    ],
)
def test_a_delivery_is_counted_when_it_ends(
    broker: RedisBroker, redis: redis_py.Redis, outcome: Outcome, processed: int, failed: int
) -> None:
    publish(broker, job(1), job(2))
    consume(broker, OWNER, "q", 2)
    broker.transport.settle(batch((job(1), outcome), (job(2), outcome), (job("not ours"), outcome)))
    for name, count in (("processed", processed), ("failed", failed)):
        days = redis.keys(f"stat:{name}:????-??-??")
        assert len(days) == bool(count)
        for key in (f"stat:{name}", *days):
            assert int(redis.get(key) or 0) == 2 * count
        for day in days:
            assert 5 * 365 * 86_400 - 60 < redis.ttl(day) <= 5 * 365 * 86_400
        assert redis.ttl(f"stat:{name}") < 0


def test_days_are_those_of_utc(broker: RedisBroker, redis: redis_py.Redis) -> None:
    hold(broker, job(1))
    days = [datetime.datetime.now(datetime.timezone.utc).date()]
    broker.transport.settle(batch((job(1), DONE)))
    days.append(datetime.datetime.now(datetime.timezone.utc).date())
    assert any(redis.get(f"stat:processed:{day:%Y-%m-%d}") == b"1" for day in days)


def test_a_counter_that_cannot_be_written_does_not_stop_a_settle(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set(KEYS.processed, "many")
    hold(broker, job(1))
    assert broker.transport.settle(batch((job(1), Dead(job("buried"))))) == [True]
    assert (redis.get(KEYS.failed), redis.zrange(KEYS.dead, 0, -1)) == (b"1", [job("buried")])


def test_retries_and_dead_jobs_are_in_the_keys_that_sidekiq_reads(broker: RedisBroker, redis: redis_py.Redis) -> None:
    hold(broker, job(1), job(2))
    at = 1_700_000_000.1234567
    before = redis.time()
    broker.transport.settle(batch((job(1), Retry(at, job("again"))), (job(2), Dead(job("buried")))))
    assert redis.zrange(KEYS.retry, 0, -1, withscores=True) == [(job("again"), at)]
    [(entry, died_at)] = redis.zrange(KEYS.dead, 0, -1, withscores=True)
    assert entry == job("buried")
    assert seconds(before) <= died_at <= seconds(redis.time())


def test_rescheduled_jobs_wait_in_the_schedule_and_count_neither_as_processed_nor_as_failed(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    hold(broker, job(1))
    assert broker.transport.settle(batch((job(1), Reschedule(1_700_000_000.5, job("later"))))) == [True]
    assert redis.zrange(KEYS.schedule, 0, -1, withscores=True) == [(job("later"), 1_700_000_000.5)]
    assert redis.keys("stat:*") == []
    assert redis.llen(KEYS.inprogress("q", OWNER)) == 0


def test_a_payload_that_ruby_cannot_read_does_not_wait_in_the_schedule(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    raw = b'{"class":"J","args":["\\ud800"],"jid":"j1"}'
    [fetched] = hold(broker, raw)
    assert broker.transport.settle(batch((fetched, Reschedule(2.0**40, raw)))) == [True]
    assert not redis.exists(KEYS.schedule, KEYS.dead, KEYS.processed)
    assert redis.lrange(KEYS.queue("q"), 0, -1) == [raw]


def test_a_tracked_job_that_ruby_cannot_read_is_known_as_dead(make: Make, redis: redis_py.Redis) -> None:
    """It is shown for as long as it is dead, although its retry would have been sooner."""
    broker, raw, tracked = (
        make(dead_timeout=1_000),
        b'{"class":"J","args":["\\ud800"],"jid":"j1"}',
        TrackedJob("j1", "J"),
    )
    [fetched] = hold(broker, raw)
    fails = NoteState(tracked, "retry", "failed", 60, (("due", "1.0"),)), ShowStatus("j1", "retrying")
    assert broker.transport.settle(batch((fetched, Retry(1.0, raw, effects=fails)))) == [True]
    assert redis.zcard(KEYS.dead) == 1
    record = record_key(KEYS, "j1")
    assert redis.hget(record, "state") == b"dead"
    assert redis.ttl(record) > 900
    assert redis.hget("sidekiq:status:j1", "status") == b"failed"


def test_burying_deletes_dead_jobs_that_are_too_old(make: Make, redis: redis_py.Redis) -> None:
    broker = make(dead_timeout=1_000)
    now = seconds(redis.time())
    redis.zadd(KEYS.dead, {"too old": now - 1_010, "old": now - 900})
    hold(broker, job(1), job(2), job(3))
    broker.transport.settle(batch((job(1), DONE), (job(2), Retry(1.0, b"{}"))))
    assert redis.zcard(KEYS.dead) == 2  # nothing was buried, so nothing is looked at
    broker.transport.settle(batch((job(3), Dead(job("new")))))
    assert redis.zrange(KEYS.dead, 0, -1) == [b"old", job("new")]


def test_burying_deletes_the_oldest_dead_jobs_beyond_the_limit(make: Make, redis: redis_py.Redis) -> None:
    broker = make(dead_max_jobs=3)
    now = seconds(redis.time())
    redis.zadd(KEYS.dead, {"oldest": now - 3, "old": now - 2})
    for name, kept in (("a", [b"oldest", b"old", job("a")]), ("b", [b"old", job("a"), job("b")])):
        hold(broker, job(name))
        broker.transport.settle(batch((job(name), Dead(job(name)))))
        assert redis.zrange(KEYS.dead, 0, -1) == kept
    hold(broker, *map(job, range(5)))
    broker.transport.settle(batch(*((job(n), Dead(job(n))) for n in range(5))))
    assert redis.zrange(KEYS.dead, 0, -1) == [job(2), job(3), job(4)]  # of equal age, by their bytes


@pytest.mark.parametrize(
    ("key", "outcome"),
    [
        (KEYS.retry, Retry(1.0, job("again"))),
        (KEYS.dead, Dead(job("buried"))),
        (KEYS.queue("q"), REQUEUE),
        (KEYS.inprogress("q", OTHER), DONE),
    ],
)
def test_a_job_that_cannot_be_moved_stays_in_progress_and_the_others_are_settled(
    broker: RedisBroker, redis: redis_py.Redis, key: str, outcome: Outcome
) -> None:
    hold(broker, *map(job, range(4)))
    redis.set(key, "no list and no set")
    owner = OTHER if outcome is DONE else OWNER
    finished = [(Delivery(job(1), "q", OWNER), DONE), (Delivery(job(2), "q", owner), outcome)]
    finished.append((Delivery(job(3), "q", OWNER), DISCARD))
    first, second, third = broker.transport.settle(batch_of(*finished))
    assert (first, third) == (True, True)
    assert isinstance(second, str)
    assert "WRONGTYPE" in second
    assert f"(key {key})" in second
    assert sorted(held(broker)) == [job(0), job(2)]
    assert redis.get(KEYS.processed) == b"2"
    redis.delete(key)
    if outcome is not DONE:
        assert broker.transport.settle(batch((job(2), outcome))) == [True]


def test_a_score_that_is_no_number_leaves_the_job_in_progress(broker: RedisBroker) -> None:
    hold(broker, job(1))
    [settled] = broker.transport.settle(batch((job(1), Retry(float("nan"), job("again")))))
    assert "not a valid float" in str(settled)
    assert held(broker) == [job(1)]


def test_a_receipt_expires(broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.transport.settle(batch((job(1), DONE)))
    assert 0 < redis.ttl(KEYS.receipt("settler")) <= RECEIPT_LIFE_S


def test_nothing_is_settled_on_a_server_that_has_become_a_replica(
    own_redis: RedisServer, own_broker: RedisBroker
) -> None:
    """Its connection must not be kept."""
    hold(own_broker, job(1))
    own_redis.client().replicaof("127.0.0.1", own_redis.port)
    with pytest.raises(BrokerUnavailable):
        own_broker.transport.settle(batch((job(1), DONE)))


def test_a_requeue_names_its_queue_again(broker: RedisBroker, redis: redis_py.Redis) -> None:
    hold(broker, job(1))
    redis.delete(KEYS.queues)
    broker.transport.settle(batch((job(1), REQUEUE)))
    assert redis.smembers(KEYS.queues) == {b"q"}
