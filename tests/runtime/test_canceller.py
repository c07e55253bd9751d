"""The outcome of a job that is cancelled. With daemons: api/test_cancel.py."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.cancel import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import MeetTombstone
from goworkers_py.core.outcome import (
    DONE,
    KEEP,
    LOST,
    REQUEUE,
    REQUEUE_LAST,
    Cancelled,
    Dead,
    Done,
    Outcome,
    Park,
    Reschedule,
    Retry,
)  # fmt: skip
from goworkers_py.links.retry import Handlers
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.canceller import Canceller
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.lost_jobs import lost_jobs
from goworkers_py.runtime.outage import Outage
from goworkers_py.wire.message import Message

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
    assert ended(KEEP, retry=False) is KEEP


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
