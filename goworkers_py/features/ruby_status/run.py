"""The runs of jobs that sidekiq-status shows. Each of them is tracked, and the step that writes its record writes what
the gem shows, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.outcome import NOT_SETTLED, REQUEUE, Outcome
from goworkers_py.features.in_process import InProcess
from goworkers_py.features.ruby_status.effects import ShowStatus
from goworkers_py.features.ruby_status.status import word_of
from goworkers_py.features.tracking.run import TrackedRuns
from goworkers_py.features.tracking.tracked_run import TrackedRun, run_of
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running.rungs import Rung
from goworkers_py.wire.message import Message
from goworkers_py.wire.payload import jid_of

NAME = "ruby_status"


class ShownRuns(InProcess):
    def __init__(self, tracked: TrackedRuns) -> None:
        self._tracked = tracked

    def rungs(self) -> Mapping[str, Rung]:
        return {"ruby status": Rung(self._run, marks=frozenset((NAME,)))}

    def _run(self, run: Run, message: Message) -> Outcome:
        delivery = message.delivery
        # Before the tracker's thread sees the run.
        delivery.of_features = {**delivery.of_features, NAME: True}
        message.shown = bool(jid_of(message.fields))
        self._tracked.begin(message, delivery, also=_working)
        return run(message)

    def ended(self, message: Message, outcome: Outcome) -> Outcome:
        effects = () if isinstance(outcome, NOT_SETTLED) else _ended(message.delivery, outcome)
        return dataclasses.replace(outcome, effects=(*outcome.effects, *effects)) if effects else outcome

    def given_back(self, delivery: Delivery) -> tuple[Effect, ...]:
        return _ended(delivery, REQUEUE)


def _working(run: TrackedRun, first: bool) -> tuple[Effect, ...]:
    """Of the step that writes into the record that the job runs, and how far it has got."""
    return (ShowStatus(run.job.jid, "working" if first else None, run.progress or ""),)


def _ended(delivery: Delivery, outcome: Outcome) -> tuple[Effect, ...]:
    run = run_of(delivery) if NAME in delivery.of_features else None
    return () if run is None else (ShowStatus(run.job.jid, word_of(outcome), run.progress or ""),)
