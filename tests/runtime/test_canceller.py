"""The outcome of a job that is cancelled. With daemons: api/test_cancel.py."""

from __future__ import annotations

import pytest

from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.cancel import CancelRequest
from goworkers_py.core.effect import MeetTombstone
from goworkers_py.core.outcome import (
    DONE,
    KEEP,
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
