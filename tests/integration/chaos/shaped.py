"""The jobs of `shaped_jobs`, in the processes under chaos."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import goworkers_py as workers
from chaos.shaped_jobs import declare
from chaos.work import attempt_of, new_run, notes_of_this_process

_notes = notes_of_this_process("shaped")


@contextmanager
def _noted(kind: str, key: str, *words: object) -> Iterator[int]:
    message = workers.current_message()
    assert message is not None
    attempt = attempt_of(message)
    run = new_run(message.jid, attempt)
    _note("began", run, kind, key, *words)
    try:
        yield attempt
    except BaseException:
        _note("failed", run)
        raise
    _note("ended", run)


def _note(word: str, run: str, *words: object) -> None:
    os.write(_notes, " ".join([word, f"{time.monotonic():.6f}", run, *map(str, words)]).encode() + b"\n")


JOBS = declare(workers.app, _noted)
