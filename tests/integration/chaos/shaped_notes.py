"""Notes of the runs of `shaped_jobs`. It uses nothing that is newer than the former release, see `upgrade`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import goworkers_py as workers
from chaos.work import attempt_of, new_run, notes_of_this_process

_notes = notes_of_this_process("shaped")


@contextmanager
def noted(kind: str, key: str, *words: object) -> Iterator[int]:
    message = workers.current_message()
    assert message is not None
    with note_run(message.jid, attempt_of(message), kind, key, *words) as attempt:
        yield attempt


@contextmanager
def note_run(jid: str, attempt: int, kind: str, key: str, *words: object) -> Iterator[int]:
    run = new_run(jid, attempt)
    _note("began", run, kind, key, *words)
    try:
        yield attempt
    except BaseException:
        _note("failed", run)
        raise
    _note("ended", run)


def _note(word: str, run: str, *words: object) -> None:
    os.write(_notes, " ".join([word, f"{time.monotonic():.6f}", run, *map(str, words)]).encode() + b"\n")
