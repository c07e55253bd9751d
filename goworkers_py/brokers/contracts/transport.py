"""Queues: a producer publishes a job, a process consumes it and settles it.

A process consumes a job under its identity. From that step on the job is in progress, and the broker knows the
identity. The process settles the delivery with an outcome: in one step the job leaves progress and goes where the
outcome says.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no
and would say no again. After BrokerUnavailable the caller does not know whether the step was done. BrokerRefused says
of `settle` that this call changed nothing; an earlier call of the same batch may have. So:

- `publish` is not called again with pushes that have no id: the producer gets the error.
- `consume` and `end_waits` may have taken jobs without a reply. The caller asks `lost_replies` for them.
- `settle` is called again with the same batch, and a batch that was done is not done twice. When it is refused
  again, the caller may settle the deliveries in other batches. The same holds for any other exception: an outcome
  that cannot be written may raise one, before anything of its batch was done.
- `paused`, `check` and `wake` may be called again.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push as Push  # brokers import it from here, too
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.holder import Conflict
from goworkers_py.core.outcome import Outcome
from goworkers_py.core.values import dataclass
from goworkers_py.policy.priorities import Ask


class Published(enum.Enum):
    PUSHED = "pushed"
    DUPLICATE = "duplicate"  # a push with the same id was published within the last day; or a tie says so
    REFUSED = "refused"  # a tie forbids it


# With a Conflict, another job holds that for which a tie of the push asks.
PublishResult = Published | Conflict


def places_pushed(results: Sequence[PublishResult]) -> frozenset[int]:
    """At which places of a call to `publish` the job was pushed."""
    return frozenset(
        at
        for at, result in enumerate(results)
        if result is Published.PUSHED or (isinstance(result, Conflict) and result.how == "rescheduled")
    )


Finished = tuple[Delivery, Outcome]  # one is made for every job, and a NamedTuple takes several times as long


@dataclass(frozen=True, slots=True)
class SettlementBatch:
    """Deliveries that are settled in one step. They may be of several queues and identities.

    `settler` and `number` name the batch. The broker remembers the number and the results of the last batch of each
    settler. When a reply was lost, the settler sends the same batch again, each field as it was, and the broker answers
    with these results. A settler has one batch at a time on its way, and its numbers only grow: a batch with a lower
    number than the last one comes late, and the broker refuses it.
    """

    settler: str
    number: int
    finished: Sequence[Finished]
    # A hint for speed: the oldest of all deliveries that the caller has consumed and not settled, each once, the oldest
    # first. So a broker can guess at which place in progress a delivery stands. The guess may be wrong.
    held: Sequence[Delivery] = ()


def refuse_late(number: int, last: int) -> None:
    """`last`: the number of the settler's last batch that was done. The delivery of an earlier one may be another by
    now."""
    if number < last:
        raise BrokerRefused("late: the settler has settled a later batch")


# The result of settling one delivery.
# True: settled.
# False: the job was no longer in progress under that identity (lost lease), and nothing was changed.
# A text: the error for which the delivery was not settled. It is still in progress and may be settled in a later batch.
# An Unwritable text: this outcome of the delivery can never be written, by any try.
Settled = bool | str


class Unwritable(str):
    """The error of a delivery whose outcome cannot be written: a text in it is no Unicode, say."""

    __slots__ = ()


def settled_with(error: Exception) -> str:
    """The result of a delivery whose outcome raises this error."""
    return str(error) if isinstance(error, BrokerRefused) else Unwritable(f"{type(error).__name__}: {error}")


class Transport(Protocol):
    """Threads share it. Only one thread at a time consumes from a queue, and always from the same queues together."""

    # Whether `consume` leaves waits running when it is called for a single queue, too.
    leaves_waits: bool = False

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        """Puts each payload at the back of its queue, or among the scheduled jobs: all of them or none. Returns one
        result for each push, in order.

        A push may have ties, see `core.effect.Tie`. They are asked in the step of the push, in their order. Each may
        keep the push from happening: then its result is DUPLICATE, REFUSED or a Conflict, and no tie of this push has
        written anything, unless the tie says so. Each may give the job another goal than its queue. If the push
        happens, each writes in the same step what it is to write. The table in docs/internals/writing-a-broker.md names
        the ties of each part.

        A push whose id was published within the last day, or earlier in the same call, is a duplicate: it publishes
        nothing. So a push with an id may be asked again when its reply was lost.

        A queue exists from the first job on that is put into it. A job with `at` makes no queue until it is promoted.
        Equal payloads are separate jobs, so a publish that is asked twice makes two jobs of each.

        The name of a queue is any text but the empty one. A broker that cannot store a name, a very long one say,
        raises BrokerRefused.

        Workers call this too, and the watchdog throws exceptions into their threads between any two instructions. Such
        an exception leaves no lock taken, and the jobs are published all or not at all.
        """

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        """Takes jobs from the fronts of the queues, ask by ask, until it has `limit`. From then on they are in progress
        under `identity`. An ask is a queue, and how many of its jobs at most. A queue may be asked twice.

        A call that finds no job waits for the first one, in any queue that was asked for more than 0. It waits for
        `wait_s` at most, and never longer than five seconds; it returns an empty list when none came or `wake` ended
        it. With a `wait_s` of 0 it returns at once, and an empty list may also mean that the broker did not look.

        The queues of a pool are consumed together: each call names all of them, with 0 for a queue from which nothing
        is wanted now. When one queue brings a job, the broker may leave its waits for the others running, also while
        they are asked for 0. Such a wait takes one job at most. The next call returns that job, beyond `limit` if need
        be. `end_waits` ends these waits.

        Raises LeaseGone when `identity` has no lease, and takes nothing. A broker without the capability LEASES knows
        no leases, and takes jobs for any identity.
        """

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        """Ends the waits for these queues that `consume` has left running. Returns the jobs that they took. These may
        be some queues of a pool. A broker that leaves no wait running returns an empty list.

        Only the thread that consumes from the queues calls this, or another thread after its end.
        """

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        """Returns the jobs of this queue that are in progress under `identity` and not in `known`, and changes nothing.
        A `consume` took these jobs and its reply was lost.

        Only the thread that consumes from the queue calls this. First it ends the waits of the queue: a job that a wait
        has just taken would look lost. Then it takes `known`: a snapshot of all deliveries that it has consumed and
        that are not settled. So a delivery that is settled during the call does not look lost. Without `thorough` a
        cheap look is enough and may miss lost jobs; after an error the caller asks for a thorough one. A broker whose
        replies cannot be lost returns an empty list.
        """

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        """Ends each delivery of the batch as its outcome says. Returns one result for each delivery, in order.

        Done        the job is gone; it counts as processed
        Discard     the job is gone; it counts as processed and as failed
        Retry       the job waits among the retries until `at`, with the payload of the outcome; counts as both
        Dead        the job is among the dead jobs from now on, with the payload of the outcome; counts as both. When
                    there are too many dead jobs, or they are too old, the oldest are deleted
        Requeue     the job is back in its queue: at the front, or with `last` at the back; counts as neither. The
                    deliveries of a batch go to the front one after another, so the last of them is consumed next
        Reschedule  the job waits among the scheduled jobs until `at`, with the payload of the outcome; counts as
                    neither
        Park        the job waits in its line, behind the others, until `Store.release`; counts as neither
        Joined      the job is gone from here, and one of its effects has put it elsewhere; counts as neither
        Expired     the job is gone; counts as neither
        Cancelled   the job is gone; counts as neither

        A delivery leaves progress and reaches its new place in one step, and only if it is still in progress under its
        identity. In the same step all its effects happen, see `core.effect`. Three are of the engine:

        PushJobs    the jobs are published. The ids of its pushes are not looked at
        PostJobs    the pushes are in the outbox, see `Store.posted`
        StoreValue  `Store.value` returns the value from now on, for `life_s` seconds

        All others are of features, and docs/internals/writing-a-broker.md names them. The docstring of an effect says
        what it writes, and whether it may fail: an effect that may fail does not keep the delivery from being settled.

        A delivery whose effects cannot happen (a queue is damaged, say) is not settled: its result is the error. That
        is Unwritable where the outcome itself is the reason. The other deliveries are settled in the same call. A
        batch that was done before returns its first results and changes nothing. A batch with a lower number than the
        last one raises BrokerRefused and changes nothing. Raises ValueError when an outcome is one of NOT_SETTLED,
        before anything is done.
        """

    def paused(self) -> set[str]:
        """Returns the queues that are paused. Processes ask for them; `consume` need not look at them."""

    def check(self) -> None:
        """Raises the error of a server that is away, or was since the last call, while the others of the broker serve:
        no other verb need raise it. It waits for nothing. The daemon calls it twice a second."""
        return

    def wake(self, queue: str) -> None:
        """Ends the `consume` that waits in this process for this queue, or for others of its pool; or the next one that
        would wait. The waits that `consume` leaves running go on.

        Any thread may call it. A worker may, so an exception may be thrown into it, as into `publish`.
        """


@runtime_checkable
class Pollable(Protocol):
    """A transport whose waits another broker polls together with those of another server, see `brokers.two_servers`. It
    finds a delivery again without its receipt."""

    def leave_waits(self) -> None:
        """From now on `consume` leaves waits running when it is called for a single queue, too. Called before the first
        `consume`."""

    def begin_waits(self, identity: str, asks: Sequence[Ask]) -> Sequence[int]:
        """Begins a wait for each queue that is asked for more than 0 and has none. Returns the file numbers of all
        waits that go on for these queues and the others of their pool: when one of them can be read, `consume` with a
        `wait_s` of 0 returns the job. Otherwise as `consume`."""
