"""The jobs, in the processes under chaos. What happens is noted in a file before anything comes of it.

A line is one write() to a file that is opened for appending: the kernel has it then, however the process ends.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import goworkers_py as workers
from chaos import EFFECTS

RETRY_AFTER_S = 1.0


def notes_of_this_process(kind: str) -> int:
    """The descriptor of a file. A process may be one of several children of its parent, each with a file of its own."""
    path = Path(os.environ["CHAOS_RUNS"].format(pid=os.getpid()))
    return os.open(path.with_name(path.name.replace("runs", kind)), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


_notes = notes_of_this_process("runs")
_numbers = itertools.count(1)
_server = redis.Redis.from_url(os.environ["CHAOS_SERVER"], socket_timeout=1, retry=Retry(NoBackoff(), 0))


@workers.job("Task", queue="short")
def task(seconds: float, failures: int) -> None:
    """Takes so long, and fails so often before it succeeds."""
    message = workers.current_message()
    assert message is not None
    attempt = attempt_of(message)
    run = new_run(message.jid, attempt)
    note("began", run)
    try:
        _take(seconds, run)
    except workers.LeaseLost:
        note("interrupted", run)
        raise
    if attempt < failures:
        raise workers.RetryJob(delay=RETRY_AFTER_S)


def _take(seconds: float, run: str) -> None:
    time.sleep(seconds)
    note("ended", run)
    jid, attempt, _ = run.split()
    try:
        _server.hincrby(EFFECTS, f"{jid}:{attempt}", 1)
        note("effected", run)
    except redis.RedisError:
        pass  # there is no server just now, but the job has run


@workers.job("Killer", queue="mixed")
def killer() -> None:
    message = workers.current_message()
    assert message is not None
    note("began", new_run(message.jid, 0))
    os.kill(os.getpid(), signal.SIGKILL)


def attempt_of(message: workers.Message) -> int:
    return 0 if message.retry_count is None else message.retry_count + 1


def new_run(jid: str, attempt: int) -> str:
    """The words that name a run. The last one is its number in this process."""
    return f"{jid} {attempt} {next(_numbers)}"


def note(word: str, run: str) -> None:
    os.write(_notes, f"{word} {time.monotonic():.6f} {run}\n".encode())
