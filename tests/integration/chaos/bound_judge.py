"""Judges limits, rates and locks by what jobs and blocks of code have noted, on the clock that all processes share.

    at once     at no moment run more jobs and blocks of a limit, or of a key, than it allows; of a lock, one job
    locks       no push gets a lock whose job certainly waits, runs or is retried at that time
    rate        not more jobs begin, in any time, than the rate allows, and SLACK more
    every kind  each job that was surely pushed has ended well

A lock lasts only so long while its job waits. So another job of a brief lock may have it then. See also `at_once`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from chaos.at_once import BLOCK, AtOnce, Bound, Hold, ShapedRun, ended_well
from chaos.bounded_jobs import (
    AT_ONCE,
    BRIEF,
    BURST,
    CROWD,
    DOOR,
    PACED,
    RATE_PER_S,
    ROOM,
    SOLE,
    STARTED,
)
from chaos.bounder import LOCK_S, Locked, Pushed
from chaos.judge import BEGIN_S, Judge

# Jobs of a rate that were let go some time ago, and begin only now: their process was killed, or all threads were busy.
SLACK = 12
LATE_S = 0.25  # that is made up for
# The end of a lock is noted by other clocks, and a job begins a moment after its lock was looked at.
LOCK_MARGIN_S = 1.0


BOUNDS = (
    Bound(CROWD, False, AT_ONCE[CROWD]), Bound(CROWD, True, 1), Bound(ROOM, False, AT_ONCE[ROOM]),
    Bound(DOOR, False, AT_ONCE[DOOR]), Bound(SOLE, True, 1), Bound(BRIEF, True, 1),
)  # fmt: skip


@dataclass
class Verdict:
    count: Counter[str] = field(default_factory=Counter)
    outlasted: Counter[str] = field(default_factory=Counter)  # jobs and blocks that ran through an outage
    most: Counter[str] = field(default_factory=Counter)  # of each bound: how many there were at once
    explained: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.count + other.count,
            self.outlasted + other.outlasted,
            self.most | other.most,
            self.explained + other.explained,
            self.complaints + other.complaints,
        )


class BoundJudge:
    def __init__(
        self, judge: Judge, runs: Sequence[ShapedRun], buried: Collection[str], given_back: Collection[str] = ()
    ) -> None:
        """`given_back`: jids that a process has told to be recovered, or given back."""
        self._judge, self._runs, self._buried, self._given_back = judge, runs, buried, given_back
        self._at_once = AtOnce(judge, runs)
        self._of: dict[str, list[ShapedRun]] = defaultdict(list)
        for run in runs:
            self._of[run.jid].append(run)

    def verdict(self, pushed: Pushed) -> Verdict:
        verdict = Verdict(Counter(pushed.sure.values()))
        verdict.count["refused"], verdict.count["unsure"] = pushed.refused, pushed.unsure
        verdict.count["blocks"] = sum(jid.startswith(BLOCK) for jid in self._of)
        verdict.outlasted.update(
            f"{run.kind}, a block" if run.jid.startswith(BLOCK) else run.kind
            for run in self._runs
            if self._judge.outlasted(run)
        )
        verdict.complaints += [f"lost: {jid}, of kind {kind}" for jid, kind in self._lost(pushed.sure)]
        for bound in BOUNDS:
            verdict.complaints += self._at_once.too_many(bound, partial(self._lapsed, bound, pushed))
        verdict.most, verdict.explained = self._at_once.most, self._at_once.explained
        verdict.complaints += self._locked_twice(pushed)
        verdict.complaints += self._waiting_twice(pushed.locked)
        verdict.complaints += self._too_fast(pushed)
        return verdict

    def _lost(self, sure: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for jid, kind in sure.items():
            if jid not in self._buried and not any(map(ended_well, self._of[jid])):
                yield jid, kind

    # --- at once

    def _lapsed(self, bound: Bound, pushed: Pushed, active: Iterable[Hold]) -> str | None:
        """The lock of a job may have ended while the job waited, so that another one has it."""
        lock_s = LOCK_S.get(bound.kind)
        if lock_s is None:
            return None
        for run in (hold.run for hold in active):
            runs = [other for other in self._of[run.jid] if other.began <= run.began]
            if self._has_lapsed(lock_s, pushed.began.get(run.jid, math.inf), runs):
                return "lock ended while it waited"
        return None

    def _has_lapsed(self, lock_s: float, pushed_at: float, runs: Iterable[ShapedRun]) -> bool:
        """Before one of these runs, so that the next ones have none either."""
        waits_since = pushed_at
        for run in runs:
            if run.began - waits_since > lock_s - LOCK_MARGIN_S:
                return True
            waits_since = max(waits_since, self._at_once.hold(run).until)
        return False

    # --- locks

    def _locked_twice(self, pushed: Pushed) -> Iterator[str]:
        of_key: dict[tuple[str, str], list[Locked]] = defaultdict(list)
        for push in pushed.locked:
            if push.kind != STARTED:
                of_key[push.kind, push.key].append(push)
        for pushes in of_key.values():
            for number, first in enumerate(pushes):
                for second in pushes[number + 1 :]:
                    if first.call == second.call:
                        yield f"two jobs of one key in one call: {first}, {second}"
                    elif second.began > first.ended and self._is_locked(first, second):
                        yield f"{second} got the lock that {first} had: {self._of[first.jid]}"

    def _is_locked(self, first: Locked, second: Locked) -> bool:
        """Whether the first job certainly had the lock during the second push."""
        runs, lock_s = self._of[first.jid], LOCK_S[first.kind]
        if first.jid in self._buried or min((run.ended for run in runs if ended_well(run)), default=0) <= second.ended:
            return False
        runs = [run for run in runs if run.began < second.began]
        if self._has_lapsed(lock_s, first.began, runs):
            return False
        free_since = max([first.began, *(self._at_once.hold(run).until for run in runs)])
        return second.ended - free_since < lock_s - LOCK_MARGIN_S

    def _waiting_twice(self, locked: Iterable[Locked]) -> Iterator[str]:
        """A lock that ends as its job begins: the first one has not begun when the second one is pushed. A job that was
        given to another process may have begun, and have no note of it."""
        of_key: dict[str, list[Locked]] = defaultdict(list)
        for push in locked:
            if push.kind == STARTED:
                of_key[push.key].append(push)
        for pushes in of_key.values():
            for number, first in enumerate(pushes):
                runs = self._of[first.jid]
                if not runs or first.jid in self._given_back or self._judge.is_begun_after_a_pause(runs[0]):
                    continue
                for second in pushes[number + 1 :]:
                    if first.ended < second.began and second.ended < runs[0].began - BEGIN_S:
                        yield f"{second} got the lock of {first}, which had not begun: {runs[0]}"

    # --- rates

    def _too_fast(self, pushed: Pushed) -> Iterator[str]:
        """A job counts when it is let go, and begins as soon as a thread is free. So while jobs wait and none begins,
        the rate goes on; but not while there is no server."""
        begun: dict[str, ShapedRun] = {}
        for run in self._runs:
            if run.kind == PACED:
                begun.setdefault(run.jid, run)
        runs = sorted(begun.values(), key=lambda run: run.began)
        waiting_since = [*accumulate((pushed.began.get(run.jid, -math.inf) for run in reversed(runs)), min)][::-1]
        interval_s, arrival = 1 / RATE_PER_S, -math.inf
        for run, since in zip(runs, waiting_since, strict=True):
            began = self._with_server(run.began)
            arrival = max(arrival, min(began, self._with_server(since)) - LATE_S) + interval_s
            if arrival - began > (BURST + SLACK) * interval_s:
                yield f"too many jobs of a rate had begun by {run.began:.2f}: {run}"
                return  # the next ones would be the same

    def _with_server(self, at: float) -> float:
        """On a clock that stands still while there is no server for anybody."""
        return at - self._judge.outage_s(0.0, at)
