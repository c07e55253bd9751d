"""Jobs that wait for a time (scheduled jobs and retries) or in a line, and the values that jobs store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch
from goworkers_py.core.effect import Push
from goworkers_py.core.job_state import JobState
from goworkers_py.core.values import dataclass

# The states whose jobs wait for a time.
TIMED = (JobState.SCHEDULED, JobState.RETRY)

# Called with the payload of a due job and the broker's time (epoch seconds). Returns the job's queue, or None for the
# dead jobs, and the payload that the job has there. It does not raise: if it does, that is a fault of the caller, and
# `promote` may raise the same. Hold no lock while you call it: it takes time, and may ask the broker.
Forward = Callable[[bytes, float], tuple[str | None, bytes]]


@dataclass(frozen=True, slots=True)
class Posted:
    """A push in an outbox."""

    push: Push
    receipt: Any  # by which the broker finds it again


class Store(Protocol):
    """Threads share it."""

    def promote(self, state: JobState, forward: Forward, at_once: int) -> Iterator[float | None]:
        """Moves every due job of a state of `TIMED` to where `forward` says. The broker's clock says which are due.

        The result is an iterator, and the work is done while the caller iterates. Each step moves up to `at_once` jobs,
        in the order in which they are due, and yields the seconds until the next job is due (None: no job waits).
        There is at least one step. Only the number of the last step takes all jobs into account, without due jobs that
        could not be moved: they are tried again by the next call. Dead jobs beyond the limits are deleted. A job that
        goes to the dead ones dies for its ties too, in the same step.

        A job is in one place at every instant, also when the caller stops iterating. Processes may promote at the same
        time: each job is moved once. A job that the broker cannot move (its queue is damaged, say) stays where it is,
        with an error in the log, and the other jobs are moved all the same. Raises BrokerUnavailable and BrokerRefused;
        the caller then promotes again.
        """

    def release(self, line: str, count: int) -> int:
        """Moves up to `count` jobs of a line to the fronts of the queues from which they were consumed, those that were
        parked first, and the first of them is consumed next. Returns how many. Each job is moved in one step, and once
        only when processes release at the same time. A job that the broker cannot move stays in its line, with an
        error in the log. Raises BrokerUnavailable and BrokerRefused: then some may have been moved.
        """

    def apply(self, batch: SettlementBatch) -> Sequence[Settled]:
        """Does what `Transport.settle` does for these deliveries, which are in progress on another server: each job
        goes where its outcome says, with its effects, and is counted. A requeued job stays where it is; only its
        effects happen. Returns True or an error for each delivery. `StoreFirst` calls this, and settles on
        the other server then.

        A batch that is asked again changes nothing. A delivery may also come again in another batch, because a process
        was killed between the two servers: an effect whose id (kind, jid) was applied within the last day does not
        happen again, and the job is put into its place once more.
        """

    def note_ends(self, messages: Sequence[str]) -> None:
        """Remembers for a day that these messages of a queue service have ended: it could not be told that, and will
        deliver them again. `StoreFirst` calls this. The names of the messages are its own."""
        return

    def known_ends(self, messages: Sequence[str]) -> set[str]:
        """Which of these messages `note_ends` was called for. A broker that is no store beside a queue service leaves
        both as they are."""
        return set()

    def posted(self, to: str, limit: int, passed: int = 0) -> list[Posted]:
        """Returns up to `limit` pushes of an outbox, those that were posted first, after the first `passed` ones.
        Changes nothing. An outbox has the name of the broker to which its pushes are to be relayed, see `PostJobs`."""

    def sent(self, to: str, posted: Sequence[Posted]) -> None:
        """Removes pushes from an outbox, because they were published. A push that has left it already is no error."""

    def value(self, kind: str, jid: str) -> bytes | None:
        """Returns the value that a StoreValue with this id has stored. None when there is none, or its life is over."""
