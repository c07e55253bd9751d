"""The outcome of a job that is cancelled. With daemons: test_daemons.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import (
    DONE,
    EXPIRED,
    REQUEUE,
    REQUEUE_LAST,
    UNACKNOWLEDGED,
    Cancelled,
    Dead,
    Done,
    Expired,
    Outcome,
    Park,
    Reschedule,
    Retry,
)  # fmt: skip
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.effects import MeetTombstone
from goworkers_py.features.cancelling.memory import MemoryCancels, TombstoneTable
from goworkers_py.features.cancelling.run import CancellableRuns
from goworkers_py.features.cancelling.service import MARK, Canceller
from goworkers_py.features.cancelling.tombstone import CLOCKS_APART_S
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alarms import Alarms
from goworkers_py.runtime.outage import Outage
from goworkers_py.wire.message import Message

CANCELLED_BEFORE = Cancelled(effects=(MeetTombstone("1", "cancelled"),))
RAW = b'{"class":"J","args":[],"jid":"1"}'


def runs_of(
    state: State | None = None, running: Callable[[], Iterable[Delivery]] = tuple
) -> tuple[Cancels, Canceller, CancellableRuns]:
    cancels = MemoryBroker(state or State(), DeadLimits()).require_part(Cancels)
    canceller = Canceller(cancels, Registry(), running, Outage("memory"), Alarms())
    return cancels, canceller, CancellableRuns(cancels, Registry(), canceller)


def ended(outcome: Outcome, retry: bool) -> Outcome:
    _, _, runs = runs_of()
    message = Message(RAW, "q")
    message.cancel = CancelRequest(retry)
    return runs.interrupted(message, outcome)


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
    assert ended(UNACKNOWLEDGED, retry=False) is UNACKNOWLEDGED


# --- jobs that have not begun


def never_run(created_at: float | None) -> Outcome | None:
    """Of a job that was cancelled at 1000."""
    cancels, canceller, runs = runs_of(State(lambda: 1_000.0))
    cancels.ask("1", retry=False)
    canceller.run_once()
    return runs.never_run(Message(created(created_at), "q"))


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
    deliveries: list[Delivery] = []
    cancels, canceller, _ = runs_of(State(lambda: 1_000.0), lambda: deliveries)
    cancels.ask("1", retry=False)
    earlier, later = Message(created(999.0), "q"), Message(created(1_000.0 + CLOCKS_APART_S + 1), "q")
    deliveries += [Delivery(b"", "q", "me"), Delivery(b"", "q", "me")]
    deliveries[0].message, deliveries[1].message = earlier, later
    canceller.run_once()
    assert (earlier.cancel is not None, later.cancel) == (True, None)


def test_the_tombstone_of_a_batch_sends_no_other_job_on_the_longer_way() -> None:
    state = State()
    cancels = MemoryBroker(state, DeadLimits()).require_part(Cancels)
    alarms = Alarms()
    canceller = Canceller(cancels, Registry(), tuple, Outage("memory"), alarms)
    state.part(TombstoneTable).lay("batch", retry=False, many=True)
    canceller.look()
    assert (alarms.jobs, alarms.ties) == (set(), {MARK})
    cancels.ask("jid", retry=False)
    canceller.look()
    assert (alarms.jobs, alarms.ties) == ({MARK}, {MARK})
    state.part(TombstoneTable).remove("jid")
    state.part(TombstoneTable).remove("batch")
    canceller.look()
    assert (alarms.jobs, alarms.ties) == (set(), set())
