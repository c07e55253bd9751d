"""The parents, in the processes under chaos: atomic jobs that push children, which are tasks.

A run notes its children with its begin, before it pushes any. It notes also how it ended. A limit of its time can
strike after that note: then a run that is noted as ended has failed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import goworkers_py as workers
from chaos import CHILD
from chaos.work import RETRY_AFTER_S, attempt_of, new_run, note, task

Plan = Sequence[tuple[str, float, int, float]]  # of each child: queue, seconds, failures, delay in seconds
Mishaps = Sequence[int | None]

# The process's number in the account.
_LIFE = Path(os.environ["CHAOS_RUNS"].format(pid=os.getpid())).name.partition("-")[2]


class Mishap(Exception):
    """An attempt fails, as it was told to."""


@workers.job("Whole", queue="short", atomic=True, retry_in=RETRY_AFTER_S)
def whole(plan: Plan, mishaps: Mishaps, seconds: float) -> None:
    with _noted_run(plan, mishaps) as parent:
        for pause_s in parent.push_children(seconds):
            time.sleep(pause_s)


@workers.job("AsyncWhole", queue="short", atomic=True, retry_in=RETRY_AFTER_S)
async def async_whole(plan: Plan, mishaps: Mishaps, seconds: float) -> None:
    with _noted_run(plan, mishaps) as parent:
        for pause_s in parent.push_children(seconds):
            await asyncio.sleep(pause_s)


@workers.job("Block", queue="short", retry_in=RETRY_AFTER_S)
def block(plan: Plan, mishaps: Mishaps, seconds: float) -> None:
    with _noted_run(plan, mishaps) as parent:
        with workers.atomic():
            for pause_s in parent.push_children(seconds):
                time.sleep(pause_s)
            with suppress(Mishap):
                parent.push_dropped_child()
        with suppress(Mishap):
            parent.push_dropped_child()


@workers.job("KillerParent", queue="mixed", atomic=True)
def killer_parent(plan: Plan) -> None:
    with _noted_run(plan, ()) as parent:
        for _ in parent.push_children(0):
            pass
        os.kill(os.getpid(), signal.SIGKILL)


class Parent:
    """One run."""

    def __init__(self, plan: Plan, mishaps: Mishaps) -> None:
        message = workers.current_message()
        assert message is not None
        attempt = attempt_of(message)
        self.run = new_run(message.jid, attempt)
        run_number = self.run.rpartition(" ")[2]
        # The digits of its jid, which are unique among all kinds of jobs.
        self._family = f"{CHILD}{message.jid[-7:]}-{_LIFE}-{run_number}"
        self._children = {f"{self._family}-{number}": child for number, child in enumerate(plan, 1)}
        self._fails = attempt < len(mishaps)
        self._mishap = mishaps[attempt] if self._fails else None

    @property
    def children(self) -> str:
        """For the note: their jids, and how often each fails before it succeeds."""
        return "".join(f" {jid}:{failures}" for jid, (_, _, failures, _) in self._children.items())

    def push_children(self, seconds: float) -> Iterator[float]:
        """Yields how long to wait before the next step."""
        for number, (jid, (queue, child_s, failures, delay_s)) in enumerate(self._children.items()):
            if number == self._mishap:
                raise Mishap(f"after {number} children")
            yield seconds / len(self._children)
            child = task.set(jid=jid, queue=queue)
            child.enqueue_in(delay_s, child_s, failures) if delay_s else child.enqueue(child_s, failures)
        while self._fails and self._mishap is None:
            yield 0.01  # until its time is over

    def push_dropped_child(self) -> None:
        with workers.atomic():
            task.set(jid=f"{self._family}-0").enqueue(0, 0)
            raise Mishap("its block drops it")

    def end(self) -> None:
        if self._fails:
            raise Mishap("after all children")


@contextmanager
def _noted_run(plan: Plan, mishaps: Mishaps) -> Iterator[Parent]:
    parent = Parent(plan, mishaps)
    note("began", parent.run + parent.children)
    try:
        yield parent
        parent.end()
        note("ended", parent.run)
    except BaseException:
        note("failed", parent.run)
        raise
