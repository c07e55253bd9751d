"""The runs of tracked jobs in one process: their records follow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.outcome import Outcome
from goworkers_py.features.in_process import InProcess
from goworkers_py.features.tracking.end import Tracking, given_back
from goworkers_py.features.tracking.record import RETAIN, TRACK
from goworkers_py.features.tracking.service import Tracker
from goworkers_py.features.tracking.tracked_run import NAME, Also, TrackedRun, run_of
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running.rungs import Rung
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.message import Message


class TrackedRuns(InProcess):
    def __init__(self, tracking: Tracking, tracker: Tracker) -> None:
        self._tracking = tracking
        self._tracker = tracker

    def rungs(self) -> Mapping[str, Rung]:
        return {"tracking": Rung(self._run, marks=frozenset((NAME,)), fields=frozenset((TRACK, RETAIN)))}

    def _run(self, run: Run, message: Message) -> Outcome:
        if run_of(message.delivery) is None:
            self.begin(message, message.delivery)
        return run(message)

    def begin(self, message: Message, delivery: Delivery, also: Also | None = None) -> TrackedRun | None:
        """None for a job that is not tracked. With `also` it is, if it has a jid."""
        tracked = self._tracking.begin(message, self._tracker.look_soon, also)
        if tracked is not None:
            message.keeps_result = tracked.retain_s > 0
            message.on_progress = tracked.tell_progress
            delivery.of_features = {**delivery.of_features, NAME: tracked}
            self._tracker.look_soon()
        return tracked

    def ended(self, message: Message, outcome: Outcome) -> Outcome:
        run = run_of(message.delivery)
        return outcome if run is None else self._tracking.noted(message, run, outcome)

    def given_back(self, delivery: Delivery) -> tuple[Effect, ...]:
        run = run_of(delivery)
        return () if run is None else given_back(run, delivery.queue)

    def services(self) -> Sequence[BrokerService]:
        return (self._tracker,)
