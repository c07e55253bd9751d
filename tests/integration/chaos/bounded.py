"""The jobs of `bounded_jobs`, and the bodies of a plain list, in the processes under chaos."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import goworkers_py as workers
from chaos.bounded_jobs import LISTED, declare
from chaos.shaped_jobs import Mishap
from chaos.shaped_notes import note_run, noted
from chaos.work import attempt_of

_blocks = itertools.count(1)


@contextmanager
def noted_block(kind: str, key: str) -> Iterator[int]:
    """A block has no jid: it gets one that no other has."""
    with note_run(f"block-{os.getpid()}-{next(_blocks)}", 0, kind, key) as attempt:
        yield attempt


JOBS = declare(workers.app, noted, noted_block)


def take_body(body: dict[str, object]) -> None:
    """The handler of the plain list. The number of a body tells it from others: each fetch gives it another jid."""
    message = workers.current_message()
    assert message is not None
    attempt = attempt_of(message)
    with note_run(str(body["name"]), attempt, LISTED, "-"):
        time.sleep(0.01)
        if body["fails"] and attempt == 0:
            raise Mishap
