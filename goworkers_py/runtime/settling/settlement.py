"""The settlement of the ended deliveries of a pool at the broker, many in one step. It has no thread of its own: a
`Settler` owns it, or in serial mode a `SerialSettler`.

A batch whose reply got lost is sent again under the same number, and the broker does it only once. No outcome is given
up before the process has deregistered: one that cannot be written is tried again, and its job stays in progress until
then. After that other processes recover the job.
"""

from __future__ import annotations

import logging
import queue
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, repeat, starmap

from goworkers_py.brokers.contracts.transport import Finished, Settled, SettlementBatch, Transport, Unwritable
from goworkers_py.core import machine
from goworkers_py.core.delivery import ENDED, Delivery
from goworkers_py.core.effect import Effect, PostJobs, PushJobs
from goworkers_py.core.errors import BrokenOff, BrokerError, BrokerRefused, Fenced, is_no_answer
from goworkers_py.core.levels import bare_list_of
from goworkers_py.core.outcome import (
    DONE,
    LOST,
    NOT_SETTLED,
    REQUEUE,
    Dead,
    Done,
    Lost,
    Outcome,
    Requeue,
    Reschedule,
    Retry,
    Unacknowledged,
)
from goworkers_py.features.in_process import InProcess
from goworkers_py.policy.consequences import buried, moved
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.shared import Shared
from goworkers_py.wire import payload
from goworkers_py.wire.failure import error_class, error_text, failure_fields
from goworkers_py.wire.message import Message, Timestamps, describe_job

log = logging.getLogger(__name__)

# More deliveries than a pool of short jobs has out at once, so that one exchange settles them all. A second exchange
# would wait for five more turns at the interpreter's lock, which all threads share.
LARGEST_BATCH = 250
# The broker does nothing else while it reads and does a batch.
LARGEST_BATCH_BYTES = 1_000_000
# How many of the oldest deliveries in progress the broker gets with a batch, see `SettlementBatch.held`.
OLDEST_HELD = 4 * LARGEST_BATCH
# Between two tries while stopping: the process deregisters only after them.
HURRIED_PAUSE_S = 0.2

IN_SECONDS = Timestamps()
# Wakes the thread that waits for an ended delivery. It is dropped, because its delivery is never unsettled.
_NOTHING: Finished = (Delivery(b"", "", ""), DONE)
_NOT_SETTLED = frozenset[type[Outcome]](NOT_SETTLED)


class Settlement:
    """Its owner says which thread settles. In the methods for that thread, `stopping` is the flag of the owner: once it
    is set, no pause is long, and what the broker refused is tried again at once."""

    refused_for_s = 2.0  # how soon an outcome that the broker refused is tried again

    def __init__(
        self,
        transport: Transport,
        pool: Pool,
        shared: Shared,
        on_later: Callable[[float], None],
        on_posted: Callable[[], None] = lambda: None,
        parts: Sequence[InProcess] = (),
        timestamps: Timestamps = IN_SECONDS,
    ) -> None:
        """`on_later` is called for each job that waits for a time from now on, with that time; `on_posted` when pushes
        were put into an outbox. `parts` are those of the features in this process: they are told of the effects of each
        settled run that has some. `timestamps` are those of a job that cannot be settled as it ended."""
        self.name = f"settler:{pool.label}"
        self.given_up = False
        self._transport = transport
        self._unsettled = pool.unsettled
        self._counters = shared.counters
        self._outage = shared.outage
        self._on_later = on_later
        self._on_posted = on_posted
        self._parts = parts
        self._wall, self._timestamps = shared.clock.wall, timestamps
        self._on_settled = [part.settled for part in parts if type(part).settled is not InProcess.settled]
        self._id = f"{pool.name}:{machine.token_hex(6)}"
        self._outcomes: machine.SimpleQueue[Finished] = machine.SimpleQueue()
        # From here on: changed by the thread that settles. `_batch` is kept until the broker has answered it.
        self._number = 0
        self._taken: list[Finished] = []  # taken out of `_outcomes`, for this batch and the next ones
        self._batch: dict[Delivery, Outcome] = {}
        self._most = LARGEST_BATCH  # deliveries of the next batch at most
        # What the broker was asked for `_batch`; it is asked for exactly this again.
        self._sent: SettlementBatch | None = None
        self._failed_before = False  # `_sent` as a whole, once
        self._faulty = False  # an error of our own code was told
        self._refused: dict[Delivery, Outcome] = {}
        self._refused_until = 0.0
        # The outcomes of deliveries which cannot be settled with them, and the simpler ones that are left to try.
        self._simpler: dict[Delivery, tuple[Outcome, Iterator[Outcome]]] = {}

    # --- from any thread

    def put(self, delivery: Delivery, outcome: Outcome) -> None:
        """Of two outcomes for the same delivery the first one counts."""
        if type(outcome) is Unacknowledged:
            self._unsettled.keep(delivery)
            job = describe_job(delivery.payload, delivery.queue)
            log.warning("not acknowledged, stays in progress until this process stops: %s", job)
            return
        if type(outcome) is Lost:
            job = describe_job(delivery.payload, delivery.queue)
            log.warning("lost lease: interrupted here after it was recovered elsewhere; it may run twice: %s", job)
        # First `_outcomes`, then `stage`: if an exception strikes the worker's thread in between, the worker puts a
        # second outcome, which does not count. In the other order the delivery would get no outcome.
        self._outcomes.put((delivery, outcome))
        delivery.stage = ENDED

    def forget(self, delivery: Delivery) -> None:
        """The delivery was recovered or given back before it began: it is not settled here."""
        self._outcomes.put((delivery, LOST))

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """The newest first, each to the front of its queue: so the oldest is the next to run again."""
        for delivery in reversed(deliveries):
            self.put(delivery, requeued(delivery, self._parts))

    def wake(self) -> None:
        """Ends `await_ended`."""
        self._outcomes.put(_NOTHING)

    def give_up(self) -> None:
        """The stop has ended, and the thread that settles may have outlasted it: nothing more is settled, and the jobs
        are others'."""
        self.given_up = True

    @property
    def has_ended(self) -> bool:
        """A delivery has ended, and can be settled now."""
        return not self.given_up and (bool(self._batch or self._taken) or not self._outcomes.empty())

    @property
    def is_idle(self) -> bool:
        """Nothing is to be settled, now or later."""
        return self.given_up or not (self._batch or self._taken or self._refused or not self._outcomes.empty())

    # --- in the thread that settles

    def await_ended(self, stopping: machine.Event) -> bool:
        """Waits for the first ended delivery of the next batch, or until it is time to try the refused ones again. True
        when one has come."""
        if self._batch or self._taken:
            return False
        if self._refused:
            until_due_s = HURRIED_PAUSE_S if stopping.is_set() else self._refused_until - machine.monotonic()
            timeout_s: float | None = max(0.01, until_due_s)
        else:
            timeout_s = 0.0 if stopping.is_set() else None
        try:
            self._taken.append(self._outcomes.get(timeout=timeout_s))
        except queue.Empty:
            return False
        return True

    def collect(self, stopping: machine.Event) -> bool:
        """Makes a batch of the deliveries that have ended, unless the last batch has no answer yet. False when there is
        none. Calls of C code move the deliveries: a loop in Python would take a third of this thread's time."""
        if self._batch or self.given_up:
            return not self.given_up
        self._number += 1  # first: the broker would take a new batch with the old number for a repeat
        ended = self._taken
        count = min(self._outcomes.qsize(), max(0, LARGEST_BATCH - len(ended)))
        ended.extend(starmap(self._outcomes.get_nowait, repeat((), count)))
        count = min(_fitting(ended), self._most)
        self._batch = self._first_outcomes(ended[:count])
        del ended[:count]
        if self._refused and (stopping.is_set() or machine.monotonic() >= self._refused_until):
            self._add_refused()
        return bool(self._batch)

    def _first_outcomes(self, ended: Sequence[Finished]) -> dict[Delivery, Outcome]:
        """A worker's thread and a stop may both put an outcome for one delivery. The second outcome is dropped here:
        its delivery is settled (not in `unsettled`), refused, or in the batch already."""
        unsettled, batch = self._unsettled.deliveries, dict(ended)
        if len(batch) < len(ended):
            first = dict(reversed(ended))
            batch = {delivery: first[delivery] for delivery in batch}
        if self._refused or not batch.keys() <= unsettled.keys():
            fresh = [pair for pair in batch.items() if pair[0] in unsettled and pair[0] not in self._refused]
            batch = dict(fresh)
        if not _NOT_SETTLED.isdisjoint(map(type, batch.values())):
            for delivery, outcome in [pair for pair in batch.items() if isinstance(pair[1], NOT_SETTLED)]:
                del batch[delivery]
                self._unsettled.remove([delivery])
                if type(outcome) is Lost:
                    self._counters.add("lost_leases")
        return batch

    def _add_refused(self) -> None:
        """To the batch, to be tried again."""
        again = list(self._refused.items())[: self._most]
        again = again[: _fitting(again)]
        self._batch.update(again)
        self._refused = dict(list(self._refused.items())[len(again) :])

    def settle(self, stopping: machine.Event) -> bool:
        """Tries the batch once. False when it failed, after a pause: its deliveries are to be tried again."""
        if self._sent is None:
            held = self._unsettled.oldest(OLDEST_HELD)
            self._sent = SettlementBatch(self._id, self._number, list(self._batch.items()), held)
        finished = self._sent.finished
        try:
            results: Sequence[Settled] = self._transport.settle(self._sent)
        except Fenced:  # another process leads by now, and has the jobs
            results = [False] * len(finished)
        except BrokerError as error:
            self._counters.add("settle_retries")
            if not isinstance(error, BrokerRefused) or is_no_answer(error):
                self._pause(self._outage.failed(self.name, error), stopping)
            elif self._retry_or_halve(str(error)):
                pause_s = self._outage.failed(self.name, error)
                self._pause(pause_s if self._most == LARGEST_BATCH else 0, stopping)
            return False
        except Exception as error:  # of our own code: a delivery that cannot be written, say
            self._counters.add("settle_retries")
            self._tell_of_fault(error)
            self._retry_or_halve(Unwritable(f"{error_class(error)}: {error_text(error)}"))
            return False
        self._batch, self._sent, self._failed_before = {}, None, False
        self._most = min(LARGEST_BATCH, 2 * self._most)
        self._note(finished, results)
        return True

    def _retry_or_halve(self, error: str) -> bool:
        """The batch has failed as a whole, for one of its deliveries perhaps. True at the first time: the broker may
        have done it, and is asked for the same again. At the second time the deliveries come into smaller batches, and
        `error` is the result of one that has failed alone."""
        if not self._failed_before:
            self._failed_before = True
            return True
        failed = list(self._batch.items())
        self._batch, self._sent, self._failed_before = {}, None, False
        if len(failed) > 1:
            self._most = len(failed) // 2
            self._taken[:0] = failed
        else:
            self._note(failed, [error])
        return False

    def _tell_of_fault(self, error: Exception) -> None:
        """Once, until everything can be settled again."""
        if not self._faulty:
            self._faulty = True
            with suppress(Exception):  # a log filter of the user's raises
                log.error("settling raised an error; tried again, down to the job that is to blame", exc_info=error)

    def _simplify(self, delivery: Delivery, outcome: Outcome, error: Unwritable) -> bool:
        """Takes the next simpler outcome for a delivery that can never be settled with this one. False when none is
        left: then it waits like one that is refused, and is tried again as it ended."""
        others = simpler_outcomes(delivery, outcome, error, self._wall(), self._timestamps)
        simpler = next(self._simpler.setdefault(delivery, (outcome, others))[1], None)
        if simpler is None:
            return False
        self._taken.append((delivery, simpler))
        with suppress(Exception):  # a log filter of the user's raises
            log.error(
                "a job cannot be settled as it ended, tries a simpler end, %s: %s: %s",
                type(simpler).__name__.lower(), describe_job(delivery.payload, delivery.queue), error,
            )  # fmt: skip
        return True

    def _note(self, batch: Sequence[Finished], results: Sequence[Settled]) -> None:
        errors = [result for result in dict.fromkeys(results) if isinstance(result, str)]
        simplified = self._note_errors(batch, results) if errors else set()
        if self._simpler:
            for (delivery, _), result in zip(batch, results, strict=True):
                if not isinstance(result, str):
                    self._simpler.pop(delivery, None)
        try:
            self._tell(batch, results, errors)
        finally:  # also when a log filter of the user's raises: the batch is settled and does not come back
            settled = [delivery for delivery, _ in batch]
            self._unsettled.remove(
                [delivery for delivery in settled if delivery not in self._refused and delivery not in simplified]
                if errors
                else settled
            )

    def _note_errors(self, batch: Sequence[Finished], results: Sequence[Settled]) -> set[Delivery]:
        """Returns the deliveries that are to be tried with a simpler outcome."""
        simplified = set[Delivery]()
        for (delivery, outcome), result in zip(batch, results, strict=True):
            if isinstance(result, Unwritable):
                if self._simplify(delivery, outcome, result):
                    simplified.add(delivery)
                else:  # in no way: the fault is not in how it ended
                    self._refused[delivery] = self._simpler[delivery][0]
            elif isinstance(result, str):
                self._refused[delivery] = outcome
        self._refused_until = machine.monotonic() + self.refused_for_s
        return simplified

    def _tell(self, batch: Sequence[Finished], results: Sequence[Settled], errors: Sequence[str]) -> None:
        """Tells counters, log and scheduler how a batch was settled."""
        if errors:
            self._counters.add("settle_retries")
            if self._refused:
                self._outage.failed(self.name, BrokerRefused(errors[0]))
        elif not self._refused and self._most == LARGEST_BATCH:
            self._outage.recovered(self.name)
            self._faulty = False
        for at, outcome in [(at, pair[1]) for at, pair in enumerate(batch) if pair[1] is not DONE]:
            if results[at] is True:
                self._tell_of_places(outcome)
        if False in results:
            self._tell_of_lost(
                [delivery for (delivery, _), result in zip(batch, results, strict=True) if result is False]
            )

    def _tell_of_places(self, outcome: Outcome) -> None:
        """Tells those who look at the places into which the outcome has put jobs."""
        for on_settled in self._on_settled if outcome.effects else ():
            on_settled(outcome.effects)
        for effect in outcome.effects:
            if type(effect) is PushJobs:
                for at in {push.at for push in effect.pushes if push.at is not None}:
                    self._on_later(at)
            elif type(effect) is PostJobs:
                self._on_posted()
        if type(outcome) is not Done and isinstance(outcome, Retry | Reschedule):
            self._on_later(outcome.at)

    def _tell_of_lost(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._counters.add("lost_leases")
            log.warning(
                "lost lease: finished here after it was recovered elsewhere; it may have run twice: %s",
                describe_job(delivery.payload, delivery.queue),
            )

    def _pause(self, seconds: float, stopping: machine.Event) -> None:
        if stopping.is_set():
            machine.Event().wait(HURRIED_PAUSE_S)
        else:
            stopping.wait(seconds)


def requeued(delivery: Delivery, parts: Iterable[InProcess]) -> Outcome:
    """The outcome of a delivery that is given back: its run did not begin, or did not end in time."""
    effects: list[Effect] = []
    for part in parts:
        try:
            effects += part.given_back(delivery)
        except Exception:  # the deliveries behind this one are to be given back, too
            log.exception("given back without an effect: %s", describe_job(delivery.payload, delivery.queue))
    return Requeue(effects=tuple(effects)) if effects else REQUEUE


def _fitting(ended: Sequence[Finished]) -> int:
    """How many of them are a batch of LARGEST_BATCH_BYTES, of which the last may go beyond it."""
    try:
        sizes = [
            len(delivery.payload) + (0 if outcome is DONE or not outcome.effects else _size(outcome.effects))
            for delivery, outcome in ended
        ]
    except Exception:  # an effect that cannot be written: `settle` finds whose it is
        return 1
    if sum(sizes) < LARGEST_BATCH_BYTES:
        return len(ended)
    return bisect_left(list(accumulate(sizes)), LARGEST_BATCH_BYTES) + 1


def simpler_outcomes(
    delivery: Delivery, outcome: Outcome, error: str, now: float, timestamps: Timestamps
) -> Iterator[Outcome]:
    """The outcomes to try for a delivery that cannot be settled with its own, one after the other: without one of the
    effects that may fail, and without all of them; then among the dead jobs, for what it is tied to. Its pushes are not
    made then: without them, to remove the job would lose theirs. A job that has ended well, and then has only to leave
    its list, is not at fault: it has no other ones."""
    # `getattr`: a link of the user may have put something among the effects that is none.
    may_fail = [effect for effect in outcome.effects if getattr(effect, "repeatable", False)]
    yield from _with_fewer(outcome, may_fail)
    if type(outcome) is Done and len(may_fail) == len(outcome.effects):
        return
    raw = _with_error(delivery, error, timestamps.write(now))
    tied = () if bare_list_of(delivery.queue) else moved(raw, "dead", now=now, error=error)
    dead = Dead(buried(raw), effects=tied)
    yield dead
    yield from _with_fewer(dead, dead.effects)
    yield Dead(raw)
    yield Dead(delivery.payload)


def _with_fewer(outcome: Outcome, left_out: Sequence[Effect]) -> Iterator[Outcome]:
    for effect in left_out:
        yield replace(outcome, effects=tuple(other for other in outcome.effects if other is not effect))
    if len(left_out) > 1:
        yield replace(
            outcome, effects=tuple(effect for effect in outcome.effects if not any(effect is o for o in left_out))
        )


def _with_error(delivery: Delivery, error: str, failed_at: float) -> bytes:
    try:
        changes = failure_fields(Message(delivery.payload, delivery.queue), BrokenOff(error), failed_at)
        return payload.splice(delivery.payload, changes, drop=("at",))
    except Exception:
        return delivery.payload


def _size(effects: Sequence[Effect]) -> int:
    return effects[0].size if len(effects) == 1 else sum([effect.size for effect in effects])
