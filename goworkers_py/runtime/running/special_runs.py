"""Runs a job that is tracked or tied to something, or while jobs are to be cancelled."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.core import machine
from goworkers_py.core.batch import Membership
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import DONE, Dead, Done, Outcome
from goworkers_py.core.tie_effect import EndInBatch
from goworkers_py.features.limits.run import LimitBegin
from goworkers_py.features.tracking.service import Tracker
from goworkers_py.features.unique.run import LockBegin
from goworkers_py.links.chain import Run
from goworkers_py.links.iterate import BeginIteration
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.consequences import consequences, moved
from goworkers_py.runtime.running.canceller import Canceller
from goworkers_py.runtime.running.group_members import GroupMembers
from goworkers_py.runtime.running.ruby_jobs import RubyJobs
from goworkers_py.wire.batch import buried
from goworkers_py.wire.chain import chain_of
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD

log = logging.getLogger("goworkers_py.job")


@dataclasses.dataclass(frozen=True)
class RunTies:
    """Looks after the things to which a job may be tied, before its run and after it."""

    locks: LockBegin
    groups: GroupMembers
    limits: LimitBegin
    ruby: RubyJobs | None = None  # None: nothing is done for Ruby


class SpecialRuns:
    """Shared by all workers of a process."""

    def __init__(
        self,
        tracker: Tracker,
        canceller: Canceller,
        iterate: BeginIteration,
        ties: RunTies,
        wall: Callable[[], float] = lambda: machine.time(),
    ) -> None:
        """`iterate` begins a run of an iterable job."""
        self.iterate = iterate
        self.ties = ties
        self._wall = wall
        self._tracker = tracker
        self._canceller = canceller
        self.ended = canceller.ended
        # `alert`: whether every job must come to `run`, because some class is tracked by its code, or single jobs were
        # cancelled. `alert_for_ties`: whether those of batches and chains must, because one of these was, or for the
        # same reasons. Set by the thread that starts the process, and by the canceller's; every worker reads them.
        self.alert = self.alert_for_ties = False
        self._look()
        canceller.on_look = self._look
        tracker.on_begun = canceller.look_elsewhere

    def _look(self) -> None:
        cancelled = any(not one.many for one in self._canceller.tombstones.values())
        self.alert = cancelled or self._tracker.tracking.of_any_class or self.ties.limits.of_any_class
        self.alert_for_ties = self.alert or bool(self._canceller.tombstones)

    def run(self, message: Message, delivery: Delivery, chain: Run, run_stats: RunStats) -> Outcome:
        self._tracker.begin(message, delivery)
        if FIELD in message.fields and (link := chain_of(message.fields)) is not None:
            message.gives = link.gives
        outcome = self._canceller.never_run(message) if self._canceller.tombstones else None
        if outcome is not None:
            run_stats.add_unrun(message.job_class, outcome)
        else:
            outcome = chain(message)
            if message.cancel is not None:
                outcome = _followed(self.ended, message, outcome)
        return self.with_ties(message, outcome)

    def run_member(self, message: Message, member: Membership, chain: Run) -> Outcome:
        """Runs a job whose only need is its batch: it has no lock, limit, group or record. The step that settles the
        job counts its end in the batch."""
        outcome = chain(message)
        if message.cancel is not None:
            outcome = _followed(self.ended, message, outcome)
        if outcome is DONE and (jid := message.jid):  # nearly every run
            return Done(effects=(EndInBatch(jid, member, "succeeded"),))
        return _followed(self._with_ties, message, outcome)

    def with_ties(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome with what it means for the record of the job, and for its ties."""
        if message.tracked is not None:
            outcome = _followed(self._noted, message, outcome)
        if FIELD in message.fields or self.ties.ruby is not None:
            outcome = _followed(self._with_ties, message, outcome)
        return outcome

    def _noted(self, message: Message, outcome: Outcome) -> Outcome:
        run = message.tracked
        return outcome if run is None else self._tracker.tracking.noted(message, run, outcome)

    def unreadable(self, raw: bytes, error: UnreadablePayload) -> Dead:
        """The outcome of a payload that is no job, for all that it is tied to."""
        return Dead(buried(raw), effects=moved(raw, "dead", now=self._wall(), error=f"unreadable payload: {error}"))

    def _with_ties(self, message: Message, outcome: Outcome) -> Outcome:
        more: tuple[Effect, ...] = ()
        if FIELD in message.fields:
            more = consequences(message.fields, outcome, self._wall())
            if isinstance(outcome, Dead):
                outcome = dataclasses.replace(outcome, payload=buried(outcome.payload))
        if self.ties.ruby is not None:
            more += self.ties.ruby.ended(message, outcome)
        if more:
            effects = (*outcome.effects, *more) if outcome.effects else more
            outcome = Done(effects=effects) if outcome is DONE else dataclasses.replace(outcome, effects=effects)
        return outcome


def _followed(step: Callable[[Message, Outcome], Outcome], message: Message, outcome: Outcome) -> Outcome:
    """The outcome with what the step adds to it. A fault of the step does not make the job run again."""
    try:
        return step(message, outcome)
    except Exception:
        with suppress(Exception):  # a log filter of the user's
            log.exception("the run has ended, but a consequence of its end failed, and is left out")
        return outcome
