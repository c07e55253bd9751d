"""Jobs whose states are judged, in the processes under chaos: tracked, cancelled, expiring and iterable ones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import goworkers_py as workers
from chaos.work import RETRY_AFTER_S, attempt_of, new_run

_runs = Path(os.environ["CHAOS_RUNS"])
_notes = os.open(_runs.with_name(_runs.name.replace("runs", "states")), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(word: str, run: str) -> None:
    os.write(_notes, f"{word} {time.time():.6f} {run}\n".encode())


def begin() -> tuple[workers.Message, str]:
    message = workers.current_message()
    assert message is not None
    run = new_run(message.jid, attempt_of(message))
    note("began", run)
    return message, run


@workers.job("Stated", queue="mixed")
def stated(seconds: float, failures: int, dies: bool) -> int:
    """Takes so long, and fails so often before it succeeds, or dies."""
    message, run = begin()
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:  # JobCancelled is raised between two lines of Python
        time.sleep(0.01)
    if attempt_of(message) < failures:
        raise workers.RetryJob(delay=RETRY_AFTER_S)
    if dies:
        note("died", run)
        raise workers.KillJob("as it was told to")
    note("ended", run)
    return 42


@workers.job("Steps", queue="mixed", checkpoint=0.2)
def steps(count: int, seconds: float, *, cursor: int | None = None) -> Iterator[int]:
    _, run = begin()
    for step in range(0 if cursor is None else cursor + 1, count):
        time.sleep(seconds)
        note(f"step{step}", run)
        yield step
    note("ended", run)
