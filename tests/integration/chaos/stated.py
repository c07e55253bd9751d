"""Jobs whose states are judged, in the processes under chaos: tracked, cancelled, expiring and iterable ones.

Each run notes how it ended: `ended`, or the class of the exception that ended it. The result of a job names its run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import goworkers_py as workers
from chaos.work import RETRY_AFTER_S, attempt_of, new_run, notes_of_this_process

_notes = notes_of_this_process("states")


class Mishap(Exception):
    """A run fails, as it was told to."""


def _note(word: str, run: str) -> None:
    os.write(_notes, f"{word} {time.monotonic():.6f} {run}\n".encode())


@contextmanager
def _noted_run() -> Iterator[tuple[int, str]]:
    """The number of the attempt, and the run."""
    message = workers.current_message()
    assert message is not None
    attempt = attempt_of(message)
    run = new_run(message.jid, attempt)
    _note("began", run)
    try:
        yield attempt, run
    except BaseException as error:
        _note(type(error).__name__, run)
        raise


def result_of(run: str) -> str:
    """Names the run among those of all processes."""
    return f"{run} {os.getpid()}"


@workers.job("Stated", queue="mixed", retry_in=RETRY_AFTER_S)
def stated(seconds: float, failures: int, dies: bool) -> str:
    """Takes so long, and fails so often before it succeeds, or dies."""
    with _noted_run() as (attempt, run):
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:  # JobCancelled is raised between two lines of Python
            time.sleep(0.01)
        if attempt < failures:
            raise Mishap
        if dies:
            raise workers.KillJob("as it was told to")
        _note("ended", run)
        return result_of(run)


@workers.job("Steps", queue="mixed")
def steps(count: int, seconds: float, *, cursor: int | None = None) -> Generator[int, None, str]:
    """A run that is to go on later ends with GeneratorExit."""
    with _noted_run() as (_, run):
        for step in range(0 if cursor is None else cursor + 1, count):
            time.sleep(seconds)
            _note(f"step{step}", run)
            yield step
        _note("ended", run)
        return result_of(run)
