"""One run of a tracked job, between the worker that runs it and the thread that writes its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goworkers_py.features.tracking.effects import Tracked


class TrackedRun:
    """Made by the worker's thread. Each field is set in one step and may be read by any thread."""

    __slots__ = "changed", "failure", "job", "progress", "retain_s", "said", "shown"

    def __init__(
        self, job: Tracked, retain_s: int, said: bool, changed: Callable[[], None], shown: bool = False
    ) -> None:
        self.job = job
        self.retain_s = retain_s  # 0: the result is not kept
        self.said = said  # the payload itself says that the job is tracked
        self.shown = shown  # also where the gem sidekiq-status looks for it
        # Class and text of the error of the failed run; set by the link `retry`. The error would keep its frames.
        self.failure: tuple[str, str] | None = None
        self.progress: str | None = None  # as JSON, see `features.tracking.record`
        self.changed = changed  # called when `progress` was set
