"""Judges how many jobs and blocks of code of one limit, or of one lock, ran at once.

A run holds its place from its first note to its last one, or to the end of its process. It may have lost the place
before only for a reason that lies with its own process; an outage of the server for all is none:

    lease lost                it was stopped or cut off by itself for longer than a lease, and says that it was declared
                              dead. (A program with blocks need not say so.)
    given back at a stop      its process was told to stop, and could not wait for it
    run again elsewhere       another run of the same job has begun. Whether that was right is judged by itself
    begun after a pause       its process was stopped between its last look at the lease and the first line of the job
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaos.judge import Judge
from chaos.notes import Run

BLOCK = "block-"  # what the names of blocks begin with


@dataclass
class ShapedRun(Run):
    kind: str = ""
    key: str = ""
    words: tuple[str, ...] = ()


class Bound(NamedTuple):
    kind: str
    by_key: bool
    most: int


class Hold(NamedTuple):
    """A run, and until when it surely has its place; `why` it may have lost it before its end."""

    run: ShapedRun
    until: float
    why: str


Excuse = Callable[[Iterable[Hold]], "str | None"]  # gets all that are there


class AtOnce:
    def __init__(self, judge: Judge, runs: Sequence[ShapedRun]) -> None:
        self.most: Counter[str] = Counter()  # of each bound: how many there were
        self.explained: Counter[str] = Counter()
        self._judge, self._runs = judge, runs
        self._of: dict[str, list[ShapedRun]] = defaultdict(list)
        for run in runs:
            self._of[run.jid].append(run)

    def too_many(self, bound: Bound, excuse: Excuse = lambda active: None) -> Iterator[str]:
        """A second run of a job is no second holder."""
        of_key: dict[str, list[ShapedRun]] = defaultdict(list)
        for run in self._runs:
            if run.kind == bound.kind:
                of_key[run.key if bound.by_key else ""].append(run)
        for runs in of_key.values():
            active: list[Hold] = []
            for run in sorted(runs, key=lambda run: run.began):
                active = [hold for hold in active if self._end(hold.run) > run.began]
                active.append(self.hold(run))
                yield from self._judge_moment(bound, run.began, active, excuse)

    def _judge_moment(self, bound: Bound, at: float, active: Sequence[Hold], excuse: Excuse) -> Iterator[str]:
        holding = [hold.run for hold in active if hold.until > at]
        there, count = len({hold.run.jid for hold in active}), len({run.jid for run in holding})
        name = f"{bound.kind}{' by key' if bound.by_key else ''}, of {bound.most}"
        self.most[name] = max(self.most[name], count)
        if there <= bound.most:
            return
        if count <= bound.most:
            self.explained.update({f"{bound.kind}: {hold.why}" for hold in active if hold.until <= at})
        elif why := excuse(active):
            self.explained[f"{bound.kind}: {why}"] += 1
        else:
            yield f"{count} of {name}, ran at {at:.2f}: " + "; ".join(map(str, holding))

    def hold(self, run: ShapedRun) -> Hold:
        losses = [(self._end(run), "ended"), *self._judge.losses(run, of_block=run.jid.startswith(BLOCK))]
        for other in self._of[run.jid]:
            if other is run:
                continue
            if other.began >= run.began:
                losses.append((other.began, "run again elsewhere"))
            elif ended_well(other) and other.attempt == run.attempt and self._judge.is_begun_after_a_long_pause(run):
                losses.append((run.began, "begun after a pause"))
        return Hold(run, *min(losses))

    def _end(self, run: ShapedRun) -> float:
        return min(run.ended, self._judge.end_of(run))


def ended_well(run: ShapedRun) -> bool:
    return run.ended < math.inf and not run.failed
