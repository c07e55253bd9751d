"""One run of a tracked job, between the worker that runs it and the thread that writes its record."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.core.delivery import Delivery
from goworkers_py.features.tracking.effects import TrackedJob

NAME = "tracking"


class TrackedRun:
    """Made by the worker's thread. Each field is set in one step and may be read by any thread."""

    __slots__ = "changed", "job", "progress", "retain_s", "said", "shown"

    def __init__(
        self, job: TrackedJob, retain_s: int, said: bool, changed: Callable[[], None], shown: bool = False
    ) -> None:
        self.job = job
        self.retain_s = retain_s  # 0: the result is not kept
        self.said = said  # the payload itself says that the job is tracked
        self.shown = shown  # also where the gem sidekiq-status looks for it
        self.progress: str | None = None  # as JSON, see `features.tracking.record`
        self.changed = changed  # called when `progress` was set

    def tell_progress(self, progress: str) -> None:
        self.progress = progress
        self.changed()


def run_of(delivery: Delivery) -> TrackedRun | None:
    run: TrackedRun | None = delivery.of_features.get(NAME)
    return run
