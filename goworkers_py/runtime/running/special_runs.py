"""The runs of jobs that are more than their class and arguments, and the effects of their ends: for the features, and
for all that the job is tied to."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import DONE, LOST, Dead, Done, Outcome, Unacknowledged
from goworkers_py.features.in_process import GoodEnd, InProcess, ShortCut, StandIn
from goworkers_py.links.chain import Run
from goworkers_py.policy.consequences import buried, consequences, moved
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alarms import Alarms
from goworkers_py.runtime.running.rungs import Rung, Rungs
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD

log = logging.getLogger("goworkers_py.job")

Marker = Callable[[Message], Collection[str]]


class SpecialRuns:
    """Shared by all workers of a process."""

    def __init__(
        self,
        registry: Registry,
        by_feature: Mapping[str, InProcess],
        wall: Callable[[], float],
        alarms: Alarms,
    ) -> None:
        """`by_feature`: the parts of the features, by their names."""
        self.registry = registry
        self._wall = wall
        self._parts = parts = [*by_feature.values()]
        self.alarms = alarms
        self._interrupted = [part.interrupted for part in parts if type(part).interrupted is not InProcess.interrupted]
        # Each with the name of the feature, and the fields for which it has rungs.
        self._enders = [
            (name, frozenset[str]().union(*[rung.fields for rung in part.rungs().values()]), part.ended)
            for name, part in by_feature.items()
            if type(part).ended is not InProcess.ended
        ]
        self._markers: dict[str, Marker] = {}
        for part in parts:
            self._markers.update(part.markers())

    def rungs(self) -> Mapping[str, Rung]:
        """The rungs that are the same for all queues."""
        return {name: rung for part in self._parts for name, rung in part.rungs().items()}

    def stand_ins(self) -> Sequence[StandIn]:
        return [stand_in for part in self._parts if (stand_in := part.stand_in()) is not None]

    def marks_of(self, message: Message, rungs: Rungs) -> frozenset[str]:
        """The marks that are no ties."""
        marks = rungs.fields.intersection(message.fields)
        if self.registry.any_marks:
            marks |= self.registry.marks_of(message)
        if self.alarms.ties:
            marks |= self.alarms.ties
        return marks

    def marks_of_ties(self, message: Message) -> frozenset[str]:
        ties, marks = message.fields[FIELD], frozenset[str]()
        if isinstance(ties, dict):
            for word in ties:
                if (marker := self._markers.get(word)) is not None:
                    marks = marks.union(marker(message))
        return marks

    def short_cuts(self, speaks: Collection[str]) -> Mapping[str, ShortCut]:
        """Those of one queue."""
        return {word: short_cut for part in self._parts for word, short_cut in part.short_cuts(speaks).items()}

    def run_short(self, message: Message, good_end: GoodEnd, chain: Run) -> Outcome:
        """Runs a job for which there is no rung."""
        outcome = chain(message)
        if message.cancel is not None:
            outcome = followed(self.interrupted, message, outcome)
        if outcome is DONE and (jid := message.jid):  # nearly every run
            return Done(effects=(good_end(jid),))
        return followed(self._with_ties, message, outcome)

    def interrupted(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome of a run that was to end early: its job was cancelled, or given to another process."""
        request = message.cancel
        if request is not None and request.lost:
            # Any other outcome finds that the job is not in progress here, and changes nothing.
            return LOST if type(outcome) is Unacknowledged else outcome
        for interrupted in self._interrupted:
            outcome = interrupted(message, outcome)
        return outcome

    def with_ties(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome with what it means for the features, and for what the job is tied to."""
        of_features, fields = message.delivery.of_features, message.fields
        for name, its_fields, ended in self._enders:
            if name in of_features or not its_fields.isdisjoint(fields):
                outcome = followed(ended, message, outcome)
        if FIELD in fields:
            outcome = followed(self._with_ties, message, outcome)
        return outcome

    def unreadable(self, raw: bytes, error: UnreadablePayload) -> Dead:
        """The outcome of a payload that is no job, for all that it is tied to."""
        return Dead(buried(raw), effects=moved(raw, "dead", now=self._wall(), error=f"unreadable payload: {error}"))

    def _with_ties(self, message: Message, outcome: Outcome) -> Outcome:
        more = consequences(message.fields, outcome, self._wall())
        if isinstance(outcome, Dead):
            outcome = dataclasses.replace(outcome, payload=buried(outcome.payload))
        if more:
            effects = (*outcome.effects, *more) if outcome.effects else more
            outcome = Done(effects=effects) if outcome is DONE else dataclasses.replace(outcome, effects=effects)
        return outcome


def followed(step: Callable[[Message, Outcome], Outcome], message: Message, outcome: Outcome) -> Outcome:
    """The outcome with what the step adds to it. A fault of the step does not make the job run again."""
    try:
        return step(message, outcome)
    except Exception:
        with suppress(Exception):  # a log filter of the user's
            log.exception("the run has ended, but a consequence of its end failed, and is left out")
        return outcome
