"""Jobs whose number and time are shaped. The processes run them, and the shaper pushes them: both declare them here.

Each run tells its kind, its key and the words that only its kind has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from goworkers_py import App, Job

ONE, TICK = "one", "tick"  # kinds
CLASSES = {"One", "Tick"}
UNIQUE_FOR_S = 3_600
TICKS_S = 2  # seconds between two slots

# Called with the kind, the key, and further words.
NoteRun = Callable[..., AbstractContextManager[None]]


@dataclass(frozen=True)
class ShapedJobs:
    one: Job[[str, float], None]


def declare(app: App, noted: NoteRun) -> ShapedJobs:
    job: Any = app.job

    @job("One", queue="mixed", unique_for=UNIQUE_FOR_S, unique_by=lambda key, *_: key)
    def one(key: str, seconds: float) -> None:
        """No two jobs of a key at once."""
        with noted(ONE, key):
            time.sleep(seconds)

    @app.periodic(every=TICKS_S, args=lambda slot: [int(slot.timestamp())], catch_up="all")
    @job("Tick", queue="short")
    def tick(slot: int) -> None:
        """Fires once for each slot."""
        with noted(TICK, slot):
            pass

    return ShapedJobs(one)
