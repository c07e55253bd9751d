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

# Kinds.
ONE, TWO, LINED, TICK = "one", "two", "lined", "tick"
GATHERED, PART, CALLBACK, LINK = "gathered", "part", "callback", "link"
CLASSES = {"One", "Two", "Lined", "Tick", "Gathered", "Part", "Callback", "Link"}
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
    two: Job[[str, float], None]
    lined: Job[[str, float, bool], None]
    link: Job[[str, int, bool, Any], list[int]]
    part: Job[[str, int, bool], None]
    callback: Job[[str, str], None]
    gathered: Job[[list[int]], None]


def numbers_in(result: Any) -> set[int]:
    return {result} if isinstance(result, int) else {number for one in result or () for number in numbers_in(one)}


def declare(app: App, noted: NoteRun) -> ShapedJobs:
    _declare_tick(app, noted)
    return ShapedJobs(*_limited(app, noted), *_parts(app, noted), gathered=_gathered(app, noted))


def _limited(app: App, noted: NoteRun) -> Any:
    job: Any = app.job

    @job("One", queue="mixed", unique_for=UNIQUE_FOR_S, unique_by=lambda key, *_: key)
    def one(key: str, seconds: float) -> None:
        """No two jobs of a key at once."""
        with noted(ONE, key):
            time.sleep(seconds)

    @job("Two", queue="mixed", limits=[app.limit("two", concurrent=2, by=lambda key, *_: key)])
    def two(key: str, seconds: float) -> None:
        """Two jobs of a key at once at most."""
        with noted(TWO, key):
            time.sleep(seconds)

    @job(
        "Lined",
        queue="mixed",
        retry_in=RETRY_AFTER_S,
        limits=[app.limit("line", concurrent=1, by=lambda key, *_: key)],
    )
    def lined(key: str, seconds: float, fails: bool) -> None:
        """One after the other, also when one is retried."""
        with noted(LINED, key) as attempt:
            time.sleep(seconds)
            if fails and attempt == 0:
                raise Mishap

    return one, two, lined


def _declare_tick(app: App, noted: NoteRun) -> None:
    job: Any = app.job

    @app.periodic(every=TICKS_S, args=lambda slot: [int(slot.timestamp())], catch_up="all")
    @job("Tick", queue="short")
    def tick(slot: int) -> None:
        """Fires once for each slot."""
        with noted(TICK, slot):
            pass


def _gathered(app: App, noted: NoteRun) -> Any:
    job: Any = app.job

    @job("Gathered", queue="mixed", group_grace=0.5, group_max_delay=2, group_max_size=8)
    def gathered(numbers: list[int]) -> None:
        """Each number is in one job only."""
        with noted(GATHERED, "-", *numbers):
            pass

    @gathered.aggregate
    def gather(members: list[list[list[int]]]) -> list[list[int]]:
        return [[number for [numbers] in members for number in numbers]]

    return gathered


def _parts(app: App, noted: NoteRun) -> Any:
    job: Any = app.job

    @job("Link", queue="mixed", retry_in=RETRY_AFTER_S)
    def link(chain: str, number: int, fails: bool, before: Any) -> list[int]:
        """A link of a chain. `before` are the numbers of the links before, of each part of a parallel one."""
        with noted(LINK, chain, number, *sorted(numbers_in(before))) as attempt:
            if fails and attempt == 0:
                raise Mishap
            return [*numbers_in(before), number]

    @job("Part", queue="mixed", retry_in=RETRY_AFTER_S)
    def part(batch: str, number: int, fails: bool) -> None:
        with noted(PART, batch, number) as attempt:
            if fails and attempt == 0:
                raise Mishap

    @job("Callback", queue="short")
    def callback(batch: str, event: str) -> None:
        with noted(CALLBACK, batch, event):
            pass

    return link, part, callback
