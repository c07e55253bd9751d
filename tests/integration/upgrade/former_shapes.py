"""The classes of `chaos.shaped_jobs`, in processes of the former release: these may run the jobs that need no more.

Those are firings, callbacks, and what a group was aggregated to. `shapes` finds a run of another job by its note.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.shaped_jobs import CALLBACK, CLASSES, GATHERED, TICK
from chaos.shaped_notes import noted

import goworkers_py as workers

WRONG = "wrong"  # the kind of a run of a job that needs more


def _words(kind: str, args: list[Any]) -> list[Any]:
    return ["-", *args[0]] if kind == GATHERED else args if kind in (CALLBACK, TICK) else ["-"]


def _noting(kind: str) -> Callable[..., None]:
    def run(*args: Any) -> None:
        message = workers.current_message()
        assert message is not None
        with noted(WRONG if message.get("pyworkers") else kind, *_words(kind, list(args))):
            pass

    return run


for _job_class in CLASSES:
    workers.job(_job_class, queue="mixed")(_noting(_job_class.lower()))
