"""Jobs with limits, locks and priorities. The processes run them, and the bounder pushes them: both declare them here.

A run notes its kind and its key, as those of `shaped_jobs` do. A block of code under a limit is noted as a run too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from chaos.shaped_jobs import Mishap, NoteRun
from goworkers_py import App, Job, LimitTimeout, RetryJob
from goworkers_py.core.errors import BrokerError
from goworkers_py.features.limits.api import Limit

# Kinds.
CROWD, ROOM, DOOR, PACED = "crowd", "room", "door", "paced"
SOLE, BRIEF, STARTED = "sole", "brief", "started"
RANKED, LISTED, GUEST = "ranked", "listed", "guest"
PLAIN_CLASS = "pyworkers.PlainMessage"  # of a body of a plain list that failed, or was recovered
CLASSES = {"Crowd", "Room", "Door", "Paced", "Sole", "Brief", "Started", "Ranked", "Guest", PLAIN_CLASS}

LONG_QUEUE, RANKED_QUEUE, PLAIN_QUEUE = "lasting", "ranked", "listed"
PLAIN_LIST = "chaos.listed"
UNIQUE_FOR_S = 3_600.0
BRIEF_S = 20.0  # shorter than the outage
RATE_PER_S, BURST = 5, 3
AT_ONCE = {CROWD: 3, ROOM: 2, DOOR: 1}
RETRY_AFTER_S = 1.0
BLOCK_TIMEOUT_S = 2.0
RETRIES = 1_000  # a guest may find no room for long


@dataclass(frozen=True)
class BoundedJobs:
    crowd: Job[[str, float], None]
    room: Job[[float], None]
    door: Job[[float], None]
    paced: Job[[], None]
    sole: Job[[str, float, bool], None]
    brief: Job[[str, float], None]
    started: Job[[str, float], None]
    ranked: Job[[float], None]
    guest: Job[[str, float, float], None]


def last(seconds: float, until: float) -> None:
    """`until` is a time of the clock that all processes of the machine share: a second run is over sooner."""
    time.sleep(max(seconds, until - time.monotonic()))


def declare_limits(app: App) -> dict[str, Limit]:
    return {kind: app.limit(kind, concurrent=AT_ONCE[kind]) for kind in (ROOM, DOOR)}


def declare(app: App, noted: NoteRun, noted_block: NoteRun) -> BoundedJobs:
    limits = declare_limits(app)
    return BoundedJobs(*_limited(app, noted, limits), *_unique(app, noted), *_others(app, noted, noted_block, limits))


def _limited(app: App, noted: NoteRun, limits: dict[str, Limit]) -> Any:
    job: Any = app.job
    crowd_limit = app.limit("crowd", concurrent=AT_ONCE[CROWD])
    by_key = app.limit("crowd-key", concurrent=1, by=lambda key, *_: key)

    @job("Crowd", queue="mixed", limits=[crowd_limit, by_key])
    def crowd(key: str, seconds: float, until: float) -> None:
        """Three at once, and one of each key."""
        with noted(CROWD, key):
            last(seconds, until)

    @job("Room", queue="mixed", limits=[limits[ROOM]])
    def room(seconds: float, until: float) -> None:
        with noted(ROOM, "-"):
            last(seconds, until)

    @job("Door", queue="mixed", limits=[limits[DOOR]])
    def door(seconds: float, until: float) -> None:
        with noted(DOOR, "-"):
            last(seconds, until)

    @job("Paced", queue=RANKED_QUEUE, limits=[app.limit("paced", rate=f"{RATE_PER_S}/second", burst=BURST)])
    def paced() -> None:
        with noted(PACED, "-"):
            pass

    return crowd, room, door, paced


def _unique(app: App, noted: NoteRun) -> Any:
    job: Any = app.job

    @job("Sole", queue="mixed", unique_for=UNIQUE_FOR_S, unique_by=lambda key, *_: key, retry_in=RETRY_AFTER_S)
    def sole(key: str, seconds: float, fails: bool) -> None:
        """No two jobs of a key wait, run or are retried at once."""
        with noted(SOLE, key) as attempt:
            time.sleep(seconds)
            if fails and attempt == 0:
                raise Mishap

    @job("Brief", queue=LONG_QUEUE, unique_for=BRIEF_S, unique_by=lambda key, *_: key)
    def brief(key: str, until: float) -> None:
        """Its lock is shorter than its run."""
        with noted(BRIEF, key):
            last(0.0, until)

    @job("Started", queue="mixed", unique_for=UNIQUE_FOR_S, unique_by=lambda key, *_: key, unique_until="start")
    def started(key: str, seconds: float) -> None:
        """No two jobs of a key wait at once."""
        with noted(STARTED, key):
            time.sleep(seconds)

    return sole, brief, started


def _others(app: App, noted: NoteRun, noted_block: NoteRun, limits: dict[str, Limit]) -> Any:
    job: Any = app.job

    @job("Ranked", queue=RANKED_QUEUE, priority="normal")
    def ranked(seconds: float) -> None:
        with noted(RANKED, "-"):
            time.sleep(seconds)

    @job("Guest", queue=LONG_QUEUE, retry=RETRIES, retry_in=RETRY_AFTER_S)
    def guest(kind: str, seconds: float, until: float) -> None:
        """A block of code in a job."""
        try:
            with noted(GUEST, kind), limits[kind].acquire(timeout=BLOCK_TIMEOUT_S), noted_block(kind, "-"):
                last(seconds, until)
        except (LimitTimeout, BrokerError):
            raise RetryJob(delay=RETRY_AFTER_S) from None

    return ranked, guest
