"""The outcome of a job that is cancelled. With daemons: api/test_cancel.py."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from apps import special_runs

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import MeetTombstone
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import (
    DONE,
    EXPIRED,
    KEEP,
    LOST,
    REQUEUE,
    REQUEUE_LAST,
    Cancelled,
    Dead,
    Done,
    Expired,
    Outcome,
    Park,
    Reschedule,
    Retry,
)  # fmt: skip
from goworkers_py.features.cancelling.memory import MemoryCancels
from goworkers_py.features.cancelling.service import Canceller
from goworkers_py.features.cancelling.tombstone import CLOCKS_APART_S, CancelRequest, Tombstone
from goworkers_py.links.handlers import Handlers
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.recovering.lost_jobs import lost_jobs
from goworkers_py.wire.message import Message

CANCELLED_BEFORE = Cancelled(effects=(MeetTombstone("1", "cancelled"),))
RAW = b'{"class":"J","args":[],"jid":"1"}'


def ended(outcome: Outcome, retry: bool) -> Outcome:
    broker = MemoryBroker(State(), DeadLimits())
    canceller = Canceller(broker.cancels, Registry(), Handlers(), tuple, Outage("memory"))
    message = Message(RAW, "q")
    message.cancel = CancelRequest(retry)
    return canceller.ended(message, outcome)


@pytest.mark.parametrize(
    "outcome", [REQUEUE, REQUEUE_LAST, Reschedule(1.0, RAW), Park("line"), Retry(1.0, RAW), Dead(RAW)]
)
def test_a_cancelled_job_that_would_go_on_or_has_failed_ends_as_cancelled(outcome: Outcome) -> None:
    """A suspect that waits to run alone, say: it is put back without a run."""
    assert ended(outcome, retry=False) == Cancelled(effects=(MeetTombstone("1", "cancelled"),))


@pytest.mark.parametrize("outcome", [REQUEUE, Reschedule(1.0, RAW), Park("line")])
def test_where_only_a_run_is_to_be_interrupted_a_job_without_a_run_keeps_its_tombstone(outcome: Outcome) -> None:
    assert ended(outcome, retry=True) == outcome


def test_a_job_that_ended_in_another_way_tells_how() -> None:
    assert ended(DONE, retry=False) == Done(effects=(MeetTombstone("1", "completed"),))
    assert ended(Retry(1.0, RAW), retry=True) == Retry(1.0, RAW, effects=(MeetTombstone("1", "retry"),))
    assert ended(EXPIRED, retry=False) == Expired(effects=(MeetTombstone("1", "expired"),))
    assert ended(KEEP, retry=False) is KEEP


# --- jobs that have not begun


def never_run(created_at: float | None) -> Outcome | None:
    """Of a job that was cancelled at 1000."""
    state = State(lambda: 1_000.0)
    broker = MemoryBroker(state, DeadLimits())
    broker.cancels.ask("1", retry=False)
    canceller = Canceller(broker.cancels, Registry(), Handlers(), tuple, Outage("memory"))
    canceller.run_once()
    return canceller.never_run(Message(created(created_at), "q"))


def created(at: float | None) -> bytes:
    return RAW if at is None else RAW.replace(b"}", b',"created_at":%f}' % at)


@pytest.mark.parametrize("created_at", [None, 999.0, 1_001.0])
def test_a_job_that_was_cancelled_before_it_begins_is_not_run(created_at: float | None) -> None:
    """The clock of who has pushed it may go before that of who has cancelled it."""
    assert never_run(created_at) == Cancelled(effects=(MeetTombstone("1", "cancelled"),))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(BrokerUnavailable("cut off"), REQUEUE_LAST, id="not dropped on doubt"),
        pytest.param(BrokerRefused("NOPERM"), CANCELLED_BEFORE, id="it will not answer later either"),
    ],
)
def test_a_job_whose_tombstone_cannot_be_asked_for(
    error: BrokerError, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stands(cancels: MemoryCancels, jid: str) -> bool:
        raise error

    monkeypatch.setattr(MemoryCancels, "stands", stands)
    assert never_run(None) == outcome


def test_a_job_is_run_that_was_pushed_long_after_another_one_of_its_jid_was_cancelled() -> None:
    """A worker of an older release or of another language may have run that one, and has left the tombstone."""
    assert never_run(1_000.0 + CLOCKS_APART_S + 1) is None


def test_a_running_job_is_not_interrupted_by_the_cancel_of_an_earlier_one_of_its_jid() -> None:
    broker = MemoryBroker(State(lambda: 1_000.0), DeadLimits())
    broker.cancels.ask("1", retry=False)
    earlier, later = Message(created(999.0), "q"), Message(created(1_000.0 + CLOCKS_APART_S + 1), "q")
    deliveries = [Delivery(b"", "q", "me"), Delivery(b"", "q", "me")]
    deliveries[0].message, deliveries[1].message = earlier, later
    Canceller(broker.cancels, Registry(), Handlers(), lambda: deliveries, Outage("memory")).run_once()
    assert (earlier.cancel is not None, later.cancel) == (True, None)


# --- jobs that were given to others


def lost_run(outcome: Outcome) -> tuple[Outcome, list[str]]:
    broker, told = MemoryBroker(State(), DeadLimits()), []
    handlers = Handlers(cancel=[lambda message: told.append(message.jid)])
    message = Message(RAW, "q")
    message.cancel = CancelRequest(retry=False, lost=True)
    return Canceller(broker.cancels, Registry(), handlers, tuple, Outage("memory")).ended(message, outcome), told


@pytest.mark.parametrize("outcome", [DONE, Cancelled(), Retry(1.0, RAW), REQUEUE])
def test_a_job_that_was_given_away_is_not_cancelled(outcome: Outcome) -> None:
    assert lost_run(outcome) == (outcome, [])


def test_a_job_that_was_given_away_and_interrupted_is_not_kept() -> None:
    """A kept job would be put back at the stop of this process."""
    assert lost_run(KEEP) == (LOST, [])


def test_running_jobs_that_were_given_away_are_told_and_no_others() -> None:
    broker = MemoryBroker(State(), DeadLimits())
    lost, kept, ended = (Delivery(RAW, "q", "me") for _ in range(3))
    lost.message, kept.message = Message(RAW, "q"), Message(RAW, "q")
    running = [lost, kept, ended]
    canceller = Canceller(
        broker.cancels, Registry(), Handlers(), lambda: running, Outage("memory"), lambda running: [lost, ended]
    )
    canceller._look_elsewhere_at = math.inf  # told of a new identity, it does not wait for the next look
    canceller.run_once()
    assert (lost.message.lease_lost, lost.message.cancelled, kept.message.lease_lost) == (True, True, False)


def test_only_jobs_of_an_earlier_identity_can_be_lost() -> None:
    asked: list[Delivery] = []
    lease = Lease(60.0)
    old, new = Delivery(RAW, "q", lease.identity), Delivery(RAW, "q", "later")
    recoverable = SimpleNamespace(lost=lambda deliveries: asked.extend(deliveries) or [old])
    broker: Any = SimpleNamespace(recoverable=recoverable, capabilities=[Capability.LEASES])
    assert list(lost_jobs(broker, lease, [old])) == []
    assert asked == []
    lease.replace("later")
    assert list(lost_jobs(broker, lease, [old, new])) == [old]
    assert asked == [old]


def test_the_tombstone_of_a_batch_sends_no_other_job_on_the_longer_way() -> None:
    runs = special_runs()
    canceller = runs.canceller
    canceller.tombstones = {"batch": Tombstone(retry=False, at=1.0, many=True)}
    canceller.on_look()
    assert not runs.alert
    canceller.tombstones = {"jid": Tombstone(retry=False, at=1.0)}
    canceller.on_look()
    assert runs.alert
