"""Running jobs that were given to another process, because this one seemed dead for a while."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import DONE, LOST, REQUEUE, UNACKNOWLEDGED, Cancelled, Outcome, Retry
from goworkers_py.features.cancelling.api import handlers_of
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.run import CancellableRuns
from goworkers_py.features.cancelling.service import Canceller
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alarms import Alarms
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.recovering.lost_jobs import LostJobs
from goworkers_py.runtime.running.run_ends import RunEnds
from goworkers_py.wire.message import Message

RAW = b'{"class":"J","args":[],"jid":"1"}'


def lost_run(outcome: Outcome) -> tuple[Outcome, list[str]]:
    registry, told = Registry(), list[str]()
    handlers_of(registry).append(lambda message: told.append(message.jid))
    cancels = MemoryBroker(State(), DeadLimits()).require_part(Cancels)
    canceller = Canceller(cancels, registry, tuple, Outage("memory"), Alarms())
    message = Message(RAW, "q")
    message.cancel = CancelRequest(retry=False, lost=True)
    runs = CancellableRuns(cancels, registry, canceller)
    return RunEnds({"cancelling": runs}, time.time).interrupted(message, outcome), told


@pytest.mark.parametrize("outcome", [DONE, Cancelled(), Retry(1.0, RAW), REQUEUE])
def test_a_job_that_was_given_away_is_not_cancelled(outcome: Outcome) -> None:
    assert lost_run(outcome) == (outcome, [])


def test_a_job_that_was_given_away_and_interrupted_is_not_kept() -> None:
    """A kept job would be put back at the stop of this process."""
    assert lost_run(UNACKNOWLEDGED) == (LOST, [])


def test_running_jobs_that_were_given_away_are_told_and_no_others() -> None:
    lost, kept, ended = (Delivery(RAW, "q", "earlier") for _ in range(3))
    lost.message, kept.message = Message(RAW, "q"), Message(RAW, "q")
    recoverable = SimpleNamespace(lost=lambda deliveries: [lost, ended])
    broker: Any = SimpleNamespace(recoverable=recoverable, capabilities=[Capability.LEASES])
    LostJobs(broker, Lease(60.0), lambda: [lost, kept, ended], Registry()).look()
    assert (lost.message.lease_lost, lost.message.cancelled, kept.message.lease_lost) == (True, True, False)


def test_only_jobs_of_an_earlier_identity_can_be_lost() -> None:
    asked: list[Delivery] = []
    lease = Lease(60.0)
    old, new = Delivery(RAW, "q", lease.identity), Delivery(RAW, "q", "later")
    recoverable = SimpleNamespace(lost=lambda deliveries: asked.extend(deliveries) or [old])
    broker: Any = SimpleNamespace(recoverable=recoverable, capabilities=[Capability.LEASES])
    assert list(LostJobs(broker, lease, lambda: [old], Registry()).found()) == []
    assert asked == []
    lease.replace("later")
    assert list(LostJobs(broker, lease, lambda: [old, new], Registry()).found()) == [old]
    assert asked == [old]
