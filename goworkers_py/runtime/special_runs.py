"""Runs a job, and what is special about some jobs: they are tracked, or cancelled."""

from __future__ import annotations

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import Outcome
from goworkers_py.links.chain import Run
from goworkers_py.runtime.canceller import Canceller
from goworkers_py.runtime.tracker import Tracker
from goworkers_py.wire.message import Message


class SpecialRuns:
    """Shared by all workers of a process."""

    def __init__(self, tracker: Tracker, canceller: Canceller) -> None:
        self._tracker = tracker
        self._may_be_tracked = tracker.tracking.may_be_tracked
        self._canceller = canceller

    def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        # First `message`, then `tombstones`: the canceller's thread changes `tombstones` first and looks for the
        # messages of running jobs then. So a job that is cancelled just now is found by one of the two.
        delivery.message = message
        if self._canceller.tombstones or self._may_be_tracked(message):
            return self._run_slowly(message, delivery, chain)
        outcome = chain(message)
        return outcome if message.cancel is None else self._canceller.ended(message, outcome)

    def _run_slowly(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        def run(message: Message) -> Outcome:
            never = self._canceller.never_run(message)
            return never or self._canceller.ended(message, chain(message))

        if self._may_be_tracked(message):
            return self._tracker.run_job(message, delivery, run)
        return run(message)
