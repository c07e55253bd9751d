"""One run of a tracked job, between the worker that runs it and the thread that writes its record."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.features.tracking.effects import TrackedJob

NAME = "tracking"
# Effects of another feature in the step that writes into the record that the job runs, and how far it has got. `first`:
# it has just begun.
Also = Callable[["TrackedRun", bool], "tuple[Effect, ...]"]


def nothing(run: TrackedRun, first: bool) -> tuple[Effect, ...]:
    return ()


class TrackedRun:
    """Made by the worker's thread. Each field is set in one step and may be read by any thread."""

    __slots__ = "also", "changed", "job", "progress", "retain_s", "said"

    def __init__(
        self, job: TrackedJob, retain_s: int, said: bool, changed: Callable[[], None], also: Also = nothing
    ) -> None:
        self.job = job
        self.retain_s = retain_s  # 0: the result is not kept
        self.said = said  # the payload itself says that the job is tracked
        self.also = also
        self.progress: str | None = None  # as JSON, see `features.tracking.record`
        self.changed = changed  # called when `progress` was set

    def tell_progress(self, progress: str) -> None:
        self.progress = progress
        self.changed()


def run_of(delivery: Delivery) -> TrackedRun | None:
    run: TrackedRun | None = delivery.of_features.get(NAME)
    return run
