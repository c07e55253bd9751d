"""How long the lock of a scheduled job lasts where this machine's clock is not that of the server, by which the job is
due."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import job, own_broker

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import SCHEDULED
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core import machine
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.outcome import Done, Retry
from goworkers_py.features.unique.effects import KeepLock
from goworkers_py.features.unique.lock import LockClaim
from goworkers_py.policy.consequences import consequences
from goworkers_py.wire import payload

HOUR_S, FOR_S = 3_600, 60
LOCK = "pyworkers:lock:Job:1"


@pytest.fixture(autouse=True, params=[600.0, -600.0], ids=["fast", "slow"])
def skew_s(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """This machine's clock is that much ahead of the server's."""
    real = time.time
    monkeypatch.setattr(machine, "time", lambda: real() + request.param)
    return request.param


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


@pytest.fixture
def due(redis: redis_py.Redis) -> float:
    """In an hour, by the server's clock."""
    return redis.time()[0] + HOUR_S


def unique(due: float | None, jid: str = "1", on_conflict: Any = "skip", **claim: Any) -> Push:
    fields = {"name": "Job:1", "for": FOR_S, "conflict": on_conflict}
    raw = job(jid=jid, pyworkers={"v": 1, "needs": ["unique"], "lock": fields})
    return Push("q", raw, due, ties=(LockClaim("Job:1", jid, FOR_S, on_conflict, **claim),))


def ends_behind_its_job(redis: redis_py.Redis, due: float) -> bool:
    left = redis.ttl(LOCK)
    assert isinstance(left, int)
    return due + FOR_S - 30 < redis.time()[0] + left <= due + FOR_S + 1


PLAIN = Push("q", job(jid="plain"))


@pytest.mark.parametrize("others", [[], ["2"], ["plain"]], ids=["alone", "several", "with others"])
def test_the_lock_of_a_scheduled_job_ends_behind_its_time(
    broker: RedisBroker, redis: redis_py.Redis, due: float, others: list[str]
) -> None:
    beside = [
        PLAIN if jid == "plain" else Push("q", job(jid=jid), due, ties=(LockClaim(f"Job:{jid}", jid, FOR_S),))
        for jid in others
    ]
    broker.transport.publish([unique(due), *beside])
    assert ends_behind_its_job(redis, due)


def test_the_lock_of_a_job_that_is_rescheduled_by_a_conflict_is_that_of_its_push(
    broker: RedisBroker, redis: redis_py.Redis, due: float
) -> None:
    broker.transport.publish([unique(due, on_conflict="reschedule")])
    assert ends_behind_its_job(redis, due)


@pytest.mark.parametrize("others", [[], [PLAIN]], ids=["alone", "with others"])
def test_a_later_push_that_replaces_a_job_moves_the_end_of_the_lock(
    broker: RedisBroker, redis: redis_py.Redis, due: float, others: list[Push]
) -> None:
    broker.transport.publish([unique(due, on_conflict="replace")])
    later = due + 200 * 86_400  # longer than the newest fields live anyway
    broker.transport.publish([unique(later, "2", "replace", fields=b"{}"), *others])
    assert ends_behind_its_job(redis, later)


def test_a_push_at_the_end_of_a_run_takes_its_lock_for_as_long(
    broker: RedisBroker, redis: redis_py.Redis, due: float
) -> None:
    settle_one(broker, lambda raw: Done(effects=(PushJobs("plain", (unique(due),)),)), PLAIN)
    assert ends_behind_its_job(redis, due)


def test_the_lock_of_a_job_that_waits_for_its_retry_ends_behind_that(
    broker: RedisBroker, redis: redis_py.Redis, due: float
) -> None:
    def retry(raw: bytes) -> Retry:
        outcome = Retry(due, raw)
        return Retry(due, raw, effects=consequences(payload.read(raw), outcome, machine.time()))

    settle_one(broker, retry, unique(None))
    assert ends_behind_its_job(redis, due)


def test_another_time_by_hand_moves_the_end_of_the_lock(broker: RedisBroker, redis: redis_py.Redis, due: float) -> None:
    broker.transport.publish([unique(due - HOUR_S / 2)])
    [_] = Inspector(lambda: broker).reschedule(SCHEDULED, Filter(), due)
    assert ends_behind_its_job(redis, due)


def test_several_locks_are_kept_in_one_step(broker: RedisBroker, redis: redis_py.Redis, due: float) -> None:
    kept = tuple(KeepLock("1", "Job:1", FOR_S, at) for at in (None, due - 100, due))
    settle_one(broker, lambda raw: Retry(due, raw, effects=kept), unique(None))
    assert ends_behind_its_job(redis, due)


def settle_one(broker: RedisBroker, outcome_of: Any, push: Push) -> None:
    broker.recoverable.beat(Presence("me", {"q": 1}))
    broker.transport.publish([push])
    [delivery] = broker.transport.consume("me", [("q", 1)], 1)
    batch = SettlementBatch("settler", 1, [(delivery, outcome_of(delivery.payload))], ())
    assert list(broker.transport.settle(batch)) == [True]
