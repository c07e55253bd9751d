"""Pushes jobs until the file `enough` is there, with the release that is imported; by its public names only.

A push is noted before and after, so that one that was cut short counts as unsure. Every second job is tracked; the jids
of these end with `TRACKED`.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import goworkers_py as workers

JOBS_PER_S = 15
LONGEST_JOB_S = 0.3
LONGEST_DELAY_S = 2.0
TRACKED = "-tracked"


def main(directory: Path, redis_url: str, name: str) -> None:
    workers.configure(redis=redis_url)
    notes = os.open(directory / "pushes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    dice, began, number = random.Random(name), time.monotonic(), 0
    while not (directory / "enough").exists():
        number += 1
        track = number % 2 == 1
        jid, failures = f"{name}-{number}{TRACKED if track else ''}", int(dice.random() < 0.08)
        at = time.time() + dice.uniform(0.1, LONGEST_DELAY_S) if dice.random() < 0.1 else None
        _note(notes, "pushes", jid, failures)
        workers.enqueue_with_options(
            "short",
            "Task",
            [dice.uniform(0, LONGEST_JOB_S), failures],
            workers.EnqueueOptions(jid=jid, at=at, track=track),
        )
        _note(notes, "pushed", jid, failures)
        time.sleep(max(0.0, began + number / JOBS_PER_S - time.monotonic()))


def _note(notes: int, word: str, jid: str, failures: int) -> None:
    os.write(notes, f"{word} {time.monotonic():.6f} {jid} {failures}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
