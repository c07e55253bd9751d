"""Runs a job whose code is a generator: from its last cursor on, until it ends or is to go on later.

Each `yield VALUE` says that all work up to VALUE is done. VALUE is the cursor from which a run can go on: it is stored
now and then, and in the step that settles the run. A bare `yield` is only a place where a cancelled job ends.

A run ends early when its process stops, and after its time slice. Then the job goes back into its queue without
spending a retry.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any

import simplejson

from goworkers_py.core import machine
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.errors import ArgumentError, BrokerError, BrokerRefused, BrokerUnavailable, JobCancelled, KillJob
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.home import RunHome
from goworkers_py.core.outcome import (
    NOT_SETTLED,
    REQUEUE,
    REQUEUE_LAST,
    Cancelled,
    Discard,
    Done,
    Outcome,
    Requeue,
    Reschedule,
)
from goworkers_py.core.push_blocks import holding
from goworkers_py.features import FEATURES
from goworkers_py.features.in_process import InProcess, WorkerProcess
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.cursor import Cursor
from goworkers_py.features.iteration.effects import StoreCursor
from goworkers_py.features.iteration.iterable import CURSOR, is_generator
from goworkers_py.links.perform import CalledJob
from goworkers_py.policy import poison
from goworkers_py.policy.registry import JobSpec
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

CHECKPOINT_S = 5.0
NULL = "null"

# A job may be in its queue twice, because a client sent a push again whose reply was lost. Each run of one copy ends
# the run of the other copy, perhaps before that run has stored a cursor: then both copies begin at the same cursor for
# ever. So a run that another run has followed waits for so many times `checkpoint`, while the other run gets on.
BEHIND_ANOTHER = 12
LONGEST_BEHIND_S = 3_600.0
# A longer time in a payload is none: it may be too large for a float.
LONGEST_S = 1_000_000_000

# Fields that a job loses when it goes on later: it was begun in time, and its process has survived the run.
_OF_THE_BEGIN = (*(field for feature in FEATURES for field in feature.fields_until_begun), poison.FIELD)

_FOREIGN = (
    "Sidekiq or a newer release of pyworkers has begun this iterable job, and this release cannot read its cursor: "
    "retry the job there, or delete the key it-{jid} and retry it here, from its start"
)
_OPEN_BLOCK = (
    "a `yield` inside of `with workers.atomic():` in an iterable job: a run may end there, and its pushes would be "
    "lost; end the block before the yield"
)
_NO_CURSORS = "{name} keeps no cursor of an iterable job: push such jobs to a partition on Redis"


class IterableRun:
    """One run. The worker's thread uses it; for an asynchronous generator in the loop of that thread."""

    def __init__(
        self,
        spec: JobSpec,
        message: Message,
        iterations: Iterations,
        is_stopping: Callable[[], bool],
        wall: Callable[[], float],
    ) -> None:
        """Raises as `Iterations.begin`."""
        self._spec, self._message, self._iterations = spec, message, iterations
        self._is_stopping, self._wall = is_stopping, wall
        self._forks = FORKS.count
        self._iteration = iterations.begin(message.jid, _name_of(message))
        self._began = now = machine.monotonic()
        self._slice_ends = now + self._seconds("time_slice", math.inf)
        self._checkpoint_s = self._seconds("checkpoint", CHECKPOINT_S)
        self._checkpoint_at = now + self._checkpoint_s
        # As JSON: of the last yield; of the last one at which no pushes were held back; of the last checkpoint. Pushes
        # that are held back happen at the end of the run: until then, the work before them is not done.
        self._last = self._safe = self._stored = self.cursor
        self._goes_on_later = self._is_followed = False

    @property
    def cursor(self) -> str:
        """The cursor of the runs before, as JSON; null at the first run."""
        return self._iteration.cursor.value

    @property
    def id(self) -> str:
        """Of the effects of this run."""
        return f"{self._message.jid}:{self._iteration.cursor.run}"

    def check(self) -> None:
        """Raises for a job that is not to be run here."""
        if self._iteration.cancelled:
            self._message.cancel = CancelRequest(retry=False)
            raise JobCancelled
        if self._iteration.foreign:
            raise KillJob(_FOREIGN.format(jid=self._message.jid))

    def loop(self, generator: Generator[Any, Any, Any]) -> Any:
        """Returns what the generator returns."""
        try:
            while True:
                try:
                    value = next(generator)
                except StopIteration as end:
                    return end.value
                if self._is_to_end(value):
                    return None
        finally:
            generator.close()

    async def async_loop(self, generator: AsyncGenerator[Any, Any]) -> None:
        async with aclosing(generator):
            async for value in generator:
                if self._is_to_end(value):
                    return

    def _is_to_end(self, value: Any) -> bool:
        """After each yield."""
        if FORKS.count != self._forks:
            return True  # the job forked, and this is the child: `perform` ends it
        if value is not None:
            self._take(value)
        if self._message.cancel is not None:  # after the cursor: an interrupted job that is retried goes on from here
            raise self._message.cancel.error
        if value is None:
            return False
        now = machine.monotonic()
        if now >= self._checkpoint_at:
            self._checkpoint(now)
        self._goes_on_later = self._goes_on_later or self._is_stopping() or now >= self._slice_ends
        return self._goes_on_later

    def _take(self, cursor: Any) -> None:
        self._last = self._written(cursor)
        held = self._message.held
        if held is None or isinstance(held, RunHome):
            self._safe = self._last
            return
        if holding() is not None:
            raise ArgumentError(_OPEN_BLOCK)
        if held.empty:
            self._safe = self._last

    def _written(self, value: Any) -> str:
        arguments = self._spec.arguments
        if type(value) is int and arguments.plain:
            return str(value)
        _, written = arguments.dump((), {CURSOR: value})
        plain = list(written[CURSOR]) if isinstance(written[CURSOR], tuple) else written[CURSOR]
        payload.check_plain(plain, "the cursor")
        return payload.encode(plain)

    def _checkpoint(self, now: float) -> None:
        self._checkpoint_at = now + self._checkpoint_s
        if self._safe == self._stored:
            return
        try:
            is_ours = self._iterations.checkpoint(self._message.jid, self._now_at(self._safe))
        except BrokerError as error:
            log.warning("the cursor was not stored; next try at a yield in %g s: %s", self._checkpoint_s, error)
            return
        self._stored = self._safe
        if not is_ours:  # settling this run finds out whether the job was given to others
            log.warning("this run ends: another one has begun, or the cursor of the job was deleted")
            self._goes_on_later = self._is_followed = True

    # --- after the loop

    def ended_well(self, done: Done) -> Outcome:
        """The outcome after the loop. `done` has the pushes that were held back."""
        fields = self._message.fields
        if not self._goes_on_later:
            return dataclasses.replace(done, effects=(*done.effects, self._store_cursor(self._last, has_ended=True)))
        effects = (*done.effects, self._store_cursor(self._last, has_ended=False))
        if self._is_followed:
            raw = payload.splice(self._message.raw, {"queue": self._message.queue}, ("at", *_OF_THE_BEGIN))
            pause_s = min(BEHIND_ANOTHER * self._checkpoint_s, LONGEST_BEHIND_S)
            return Reschedule(self._wall() + pause_s, raw, effects=effects)
        rewritten = any(name in fields for name in _OF_THE_BEGIN)
        changed = payload.splice(self._message.raw, {}, _OF_THE_BEGIN) if rewritten else None
        return Requeue(changed, last=not self._is_stopping(), effects=effects)

    def failed(self, outcome: Outcome) -> Outcome:
        """The outcome of a run that raised: the next run goes on from its cursor."""
        if isinstance(outcome, NOT_SETTLED) or self._iteration.foreign:
            return outcome
        has_ended = isinstance(outcome, Done | Discard | Cancelled)
        effects = (*outcome.effects, self._store_cursor(self._safe, has_ended))
        return dataclasses.replace(outcome, effects=effects)

    def _store_cursor(self, cursor: str, has_ended: bool) -> StoreCursor:
        return StoreCursor(self._message.jid, self._now_at(cursor), has_ended)

    def _now_at(self, cursor: str) -> Cursor:
        before = self._iteration.cursor
        return Cursor(before.run, cursor, before.runtime_s + machine.monotonic() - self._began, before.of)

    def _seconds(self, option: str, default: float) -> float:
        """The option in the payload, else the one in the job's code."""
        for value in (self._message.get(option), self._spec.options.get(option)):
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST_S:
                return float(value)
        return default


def _name_of(message: Message) -> str:
    """Tells a job from a later one with the same jid. As a number: go-workers writes a time without its fraction."""
    return "" if message.created_at is None else repr(message.created_at)


class IterableRuns(InProcess):
    def __init__(self, process: WorkerProcess) -> None:
        self._process = process
        self._iterations = process.of_code.part(Iterations)

    def resume(self, job: CalledJob) -> Outcome:
        """Runs the generator. It has not begun, so it is replaced by one that goes on from the cursor, if there is
        one."""
        generator = job.returned
        if not is_generator(generator):
            return job.done(job.message.jid, generator)
        try:
            run = self._begin(job.spec, job.message)
        except BrokerUnavailable as error:
            log.warning("the job goes back to its queue, because its cursor cannot be read now: %s", error)
            return REQUEUE_LAST
        if run is None:
            return REQUEUE
        run.check()
        if run.cursor != NULL:
            generator = job.call_again({CURSOR: simplejson.loads(run.cursor)})
        if inspect.isasyncgen(generator):
            result = job.in_own_loop(run.async_loop(generator))
        else:
            result = run.loop(generator)
        return run.ended_well(job.done(run.id, result))

    def _begin(self, spec: JobSpec, message: Message) -> IterableRun | None:
        """Raises as `Iterations.begin`. No run begins in a process that stops, and the answer is None: its fetcher may
        get the job again that has just gone back, and its next step may be longer than the stop."""
        process = self._process
        if process.shared.state.quiet:
            return None
        if not message.jid:
            raise ArgumentError("an iterable job needs a jid, under which its cursor is stored, and this one has none")
        if self._iterations is None:
            raise BrokerRefused(_NO_CURSORS.format(name=process.broker.name))
        run = IterableRun(spec, message, self._iterations, process.is_stopping, process.shared.clock.wall)
        message.on_raised = run.failed
        return run
