"""Accounts for the children of atomic jobs: those of one run of a parent exist all or none, and of one run only.

A child exists if it ran, or lies anywhere on the server. Of the runs of a parent, as many as there may be, exactly one
has its children: the run whose end the server has taken. Neither a crash nor a lost lease excuses a second one: the
same step that pushes the children removes the parent from the list of its process. The server must not lose what it
has acknowledged: else the parent may end twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from chaos import CHILD, PARENT
from chaos.notes import Run

PARENTS, ENDED, RUNS, ENDED_RUNS = "atomic jobs", "  ended", "  runs with children", "    ended well"
WHOLE, HALF, SECOND, LOST = "  whole child sets", "  half child sets", "  second child sets", "  lost child sets"


class Families:
    ROWS = (PARENTS, ENDED, RUNS, ENDED_RUNS, WHOLE, HALF, SECOND, LOST)

    def __init__(self, runs: Sequence[Run]) -> None:
        self.count: Counter[str] = Counter()
        self.lost: list[str] = []
        self.complaints: list[str] = []
        self._runs = [run for run in runs if run.children]
        self._parents = {run.jid for run in runs if run.jid.startswith(PARENT)}
        self.failures = {jid: failures for run in self._runs for jid, failures in run.children.items()}

    def judge(self, finished: AbstractSet[str], present: AbstractSet[str], ran: AbstractSet[str]) -> None:
        """`finished` have ended well, `present` are still on the server, `ran` have begun at least once."""
        exist = present | ran
        self.count[PARENTS] = len(self._parents)
        self.count[ENDED] = len(self._parents & finished)
        self.count[RUNS] = len(self._runs)
        self.count[ENDED_RUNS] = sum(map(_ended_well, self._runs))
        sets: dict[str, int] = defaultdict(int)
        for run in self._runs:
            sets[run.jid] += self._has_children(run, exist)
        for parent, count in sets.items():
            self._judge_parent(parent, count, has_ended=parent in finished and parent not in present)
        children = {jid for jid in exist if jid.startswith(CHILD)}
        self.complaints += [
            f"{jid} exists, but its block was dropped" for jid in sorted(children - self.failures.keys())
        ]

    def _has_children(self, run: Run, exist: AbstractSet[str]) -> bool:
        there = run.children.keys() & exist
        if not there:
            return False
        if not _ended_well(run):
            self.complaints.append(f"children of a run that did not end well: {run}")
        if len(there) == len(run.children):
            self.count[WHOLE] += 1
        else:
            self.count[HALF] += 1
            missing = ", ".join(sorted(run.children.keys() - there))
            self.complaints.append(f"half of the children, without {missing}: {run}")
        return True

    def _judge_parent(self, parent: str, sets: int, has_ended: bool) -> None:
        if has_ended and not sets:
            self.count[LOST] += 1
            self.lost.append(f"the children of {parent}")
        if sets and not has_ended:
            self.complaints.append(f"{parent} has children, and has not ended")
        if sets > 1:
            self.count[SECOND] += sets - 1
            self.complaints.append(f"{parent} has the children of {sets} runs")


def _ended_well(run: Run) -> bool:
    return run.ended < float("inf") and not run.failed
