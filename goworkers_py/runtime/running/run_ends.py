"""What follows from the end of a run: for the features, and for all that the job is tied to."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import DONE, LOST, Dead, Done, Outcome, Unacknowledged
from goworkers_py.features.in_process import InProcess
from goworkers_py.policy.consequences import buried, consequences, moved
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD

log = logging.getLogger("goworkers_py.job")


class RunEnds:
    """Shared by all workers of a process. A fault of a feature leaves out what follows for that feature: it does not
    make the job run again."""

    def __init__(self, by_feature: Mapping[str, InProcess], wall: Callable[[], float]) -> None:
        """`by_feature`: the parts of the features, by their names."""
        self._wall = wall
        parts = by_feature.values()
        self._interrupted = [part.interrupted for part in parts if type(part).interrupted is not InProcess.interrupted]
        # Each with the name of the feature, and the fields for which it has rungs.
        self._enders = [
            (name, frozenset[str]().union(*[rung.fields for rung in part.rungs().values()]), part.ended)
            for name, part in by_feature.items()
            if type(part).ended is not InProcess.ended
        ]

    def interrupted(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome of a run that was to end early: its job was cancelled, or given to another process."""
        request = message.cancel
        if request is not None and request.lost:
            # Any other outcome finds that the job is not in progress here, and changes nothing.
            return LOST if type(outcome) is Unacknowledged else outcome
        for interrupted in self._interrupted:
            outcome = _followed(interrupted, message, outcome)
        return outcome

    def finished(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome with what it means for the features, and for what the job is tied to."""
        of_features, fields = message.delivery.of_features, message.fields
        for name, its_fields, ended in self._enders:
            if name in of_features or not its_fields.isdisjoint(fields):
                outcome = _followed(ended, message, outcome)
        if FIELD in fields:
            outcome = _followed(self._with_ties, message, outcome)
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


def _followed(step: Callable[[Message, Outcome], Outcome], message: Message, outcome: Outcome) -> Outcome:
    try:
        return step(message, outcome)
    except Exception:
        with suppress(Exception):  # a log filter of the user's
            log.exception("the run has ended, but a consequence of its end failed, and is left out")
        return outcome
