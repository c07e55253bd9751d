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

ONE, TICK, GATHERED, PART, CALLBACK = "one", "tick", "gathered", "part", "callback"  # kinds
CLASSES = {"One", "Tick", "Gathered", "Part", "Callback"}
UNIQUE_FOR_S = 3_600
TICKS_S = 2  # seconds between two slots
RETRY_AFTER_S = 1.0

# Called with the kind, the key, and further words. Gives the number of the attempt.
NoteRun = Callable[..., AbstractContextManager[int]]


class Mishap(Exception):
    """A run fails, as it was told to."""


@dataclass(frozen=True)
class ShapedJobs:
    one: Job[[str, float], None]
    gathered: Job[[list[int]], None]
    part: Job[[str, int, bool], None]
    callback: Job[[str, str], None]


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

    @job("Gathered", queue="mixed", group_grace=0.5, group_max_delay=2, group_max_size=8)
    def gathered(numbers: list[int]) -> None:
        """Each number is in one job only."""
        with noted(GATHERED, "-", *numbers):
            pass

    @gathered.aggregate
    def gather(members: list[list[list[int]]]) -> list[list[int]]:
        return [[number for [numbers] in members for number in numbers]]

    @job("Part", queue="mixed", retry_in=RETRY_AFTER_S)
    def part(batch: str, number: int, fails: bool) -> None:
        with noted(PART, batch, number) as attempt:
            if fails and attempt == 0:
                raise Mishap

    @job("Callback", queue="short")
    def callback(batch: str, event: str) -> None:
        with noted(CALLBACK, batch, event):
            pass

    return ShapedJobs(one, gathered, part, callback)
