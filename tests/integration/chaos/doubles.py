"""Runs of jobs that are noted by the jobs themselves, and why one of them was run again.

For the chaos of brokers without the ledger of `run`: `cluster`, `rabbitmq`. A job that is run again in the
same attempt is a double. A double is forgiven where a disturbance of a forgiven kind touches its first run: it began
before the end of that run was settled, and it was not over when the run began. It concerns the process of one of the
two runs, or all of them. A retry may also be doubled by what touches the run that asked for it. Where any daemon may
have moved the retry while it waited, so may what happened to any daemon in this time: kinds of `moving` windows.

The end of a run is settled soon, but not while a disturbance of a holding kind lasts: when the server is away, the end
of a run waits in its process, and is lost with it. When the server is back, its process may pause before it tries.

A disturbance that lasts for long, or strikes often, would forgive everything. So the account also tells how many of all
runs were touched by one.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from chaos.monkeys import Window
from chaos.notes import whole_lines

# The begin of a module of jobs. A line is one write(): the kernel has it then, however the process ends.
NOTES = """
import contextlib, itertools, os, time
import goworkers_py as workers

_notes = os.open("notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_runs = itertools.count(1)

def _note(word, run):
    os.write(_notes, f"{word} {time.monotonic():.6f} {run}\\n".encode())

@contextlib.contextmanager
def noted(number):
    retries = workers.current_message().retry_count
    attempt = 0 if retries is None else retries + 1
    run = f"{number} {attempt} {os.getpid()} {next(_runs)}"
    _note("began", run)
    try:
        yield attempt
    except BaseException:
        _note("failed", run)
        raise
    _note("ended", run)
"""
# How long the end of a run can go unsettled, and how long after a disturbance a job of before it can begin.
SETTLE_S = BACK_S = 1.0


@dataclass
class Run:
    number: int  # of the job
    attempt: int
    pid: int
    began: float
    ended: float = math.inf
    well: bool = False


@dataclass
class Doubles:
    reasons: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    touched: int = 0  # runs
    runs: int = 0

    def __str__(self) -> str:
        reasons = "".join(f"; {reason} {count}" for reason, count in self.reasons.most_common())
        known = sum(self.reasons.values())
        return (
            f"{self.runs} runs, {known + len(self.complaints)} of them doubles{reasons}; unexplained "
            f"{len(self.complaints)}; disturbances that may double a job touched {self.touched} of all runs"
        )


def read_runs(folder: Path) -> list[Run]:
    """By their begins."""
    runs: dict[tuple[str, str], Run] = {}
    for line in whole_lines(folder / "notes"):
        word, at, number, attempt, pid, run = line.split()
        if word == "began":
            runs[pid, run] = Run(int(number), int(attempt), int(pid), float(at))
        else:
            runs[pid, run].ended, runs[pid, run].well = float(at), word == "ended"
    return sorted(runs.values(), key=lambda run: run.began)


def ran_well(folder: Path) -> set[int]:
    return {run.number for run in read_runs(folder) if run.well}


def await_runs(wanted: AbstractSet[int], folder: Path, stalled_s: float = 90.0) -> set[int]:
    """Waits until all of these jobs have run well. Returns those that have not, when none did for so long: a job may
    wait for the lease of a process that was killed."""
    left, since = set(wanted), time.monotonic()
    while (now := wanted - ran_well(folder)) and time.monotonic() < since + stalled_s:
        if now < left:
            left, since = now, time.monotonic()
        time.sleep(1)
    return now


def keep(windows: Iterable[Window], folder: Path) -> None:
    """For people who look for the cause of a complaint."""
    (folder / "chronicle").write_text("\n".join(map(str, sorted(windows, key=lambda window: window.began))))


def account_for_doubles(
    runs: Sequence[Run],
    windows: Iterable[Window],
    forgiven: Sequence[str],
    holding: Collection[str] = (),
    reconnect_s: float = 0.0,
    moving: Collection[str] = (),
) -> Doubles:
    """`forgiven` and `holding` are kinds of windows. The first one of `forgiven` that explains a double is named. A
    process notices within `reconnect_s` that a window of `holding` is over."""
    judge = _Judge(windows, forgiven, holding, reconnect_s, moving)
    told = Doubles(runs=len(runs), touched=sum(judge.reason(run, run, math.inf) is not None for run in runs))
    attempts: dict[int, dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        attempts[run.number][run.attempt].append(run)
    for number, by_attempt in attempts.items():
        for attempt, same in by_attempt.items():
            for first, second in pairwise(same):
                former = by_attempt.get(attempt - 1, [])
                reason = judge.explain(first, second, former)
                if reason is None:
                    told.complaints.append(
                        f"job {number} ran again: {first}, {second}, {judge.nearest(first)}, of {by_attempt}"
                    )
                else:
                    told.reasons[reason] += 1
    return told


class _Judge:
    def __init__(
        self, windows: Iterable[Window], forgiven: Sequence[str], holding: Collection[str], reconnect_s: float,
        moving: Collection[str],
    ) -> None:  # fmt: skip
        self._reconnect_s = reconnect_s
        self._all = sorted(windows, key=lambda window: window.began)
        self._moving = [window for window in self._all if window.kind in moving]
        self._holding = [window for window in self._all if window.kind in holding]
        self._forgiven = {kind: [window for window in self._all if window.kind == kind] for kind in forgiven}

    def explain(self, first: Run, second: Run, former: Iterable[Run]) -> str | None:
        reason = self.reason(first, second, second.began)
        if reason is None and any(self.reason(run, run, first.began) for run in former):
            return "its retry was pushed twice"
        if reason is None and any(self._is_moved_twice(run, first) for run in former):
            return "its retry was moved twice while it waited"
        return reason

    def _is_moved_twice(self, asked: Run, retry: Run) -> bool:
        return any(asked.ended <= window.ended and window.began <= retry.began for window in self._moving)

    def reason(self, first: Run, second: Run, before: float) -> str | None:
        """The kind of a window that began before then and touches the first run."""
        concerned, settled_by = ("", str(first.pid), str(second.pid)), self._settled_by(first)
        for kind, windows in self._forgiven.items():
            for window in windows:
                if (
                    window.node in concerned
                    and window.began <= min(settled_by, before)
                    and first.began <= window.ended + BACK_S
                ):
                    return kind
        return None

    def _settled_by(self, run: Run) -> float:
        by = run.ended + SETTLE_S
        for window in self._holding:
            if window.node in ("", str(run.pid)) and window.began <= by and run.ended <= window.ended + BACK_S:
                by = max(by, window.ended + self._reconnect_s + SETTLE_S)
        return by

    def nearest(self, run: Run) -> Window | None:
        """Of any kind, for people who look for the cause."""
        return min(self._all, key=lambda window: abs(window.began - run.began), default=None)
