"""Accounts for every job: that it ran, why it ran again if it did, and where it is if it did not."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from chaos import ODD
from chaos.bound_judge import Verdict as BoundVerdict
from chaos.families import Families
from chaos.judge import Judge
from chaos.notes import Pushes, Run
from chaos.shape_judge import Verdict as ShapeVerdict
from chaos.state_judge import Verdict

POISON = "goworkers_py.PoisonPill"
UNREADABLE = "goworkers_py.UnreadablePayload"


@dataclass
class Left:
    """The jobs that the server still has at the end."""

    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)  # key: jids; all but the dead set
    buried: Mapping[str, str] = field(default_factory=dict)  # jid: class of its error
    convicting: Mapping[str, int] = field(default_factory=dict)  # jid of poison: the process whose death convicted it
    effects: Mapping[str, int] = field(default_factory=dict)  # jid:attempt: how often


@dataclass
class Account:
    pushed: int
    unsure: int
    unsure_that_ran: int
    runs: int
    finished: int
    repeated: Counter[str]
    left: Counter[str]
    buried: Counter[str]
    convicted: Counter[str]  # of the poison: "killer", or why another job was taken for one
    buried_and_finished: int  # unsettled, when their last process died
    families: Counter[str]
    lost: list[str]
    complaints: list[str]
    processes: Counter[str] = field(default_factory=Counter)  # how the queues share their threads
    states: Verdict = field(default_factory=Verdict)
    shapes: ShapeVerdict = field(default_factory=ShapeVerdict)
    bounds: BoundVerdict = field(default_factory=BoundVerdict)
    keys: Counter[str] = field(default_factory=Counter)  # at the end, by their kinds

    @property
    def fine(self) -> bool:
        return not (self.lost or self.wrong)

    @property
    def wrong(self) -> list[str]:
        parts = self.states.complaints, self.shapes.complaints, self.bounds.complaints
        return [*self.complaints, *itertools.chain(*parts)]

    def __add__(self, other: Account) -> Account:
        return Account(*(getattr(self, of.name) + getattr(other, of.name) for of in fields(self)))

    def __str__(self) -> str:
        explained = self.shapes.explained + self.bounds.explained
        rows: list[tuple[str, int | str]] = [
            ("enqueued", self.pushed),
            ("  and unsure whether it was", self.unsure),
            ("    of which ran", self.unsure_that_ran),
            ("runs", self.runs),
            ("finished", self.finished),
            ("run again", sum(self.repeated.values())),
            *((f"  {why}", count) for why, count in self.repeated.most_common()),
            ("left in a list", sum(self.left.values())),
            *((f"  {key}", count) for key, count in self.left.items()),
            ("left in the dead set", sum(self.buried.values())),
            *((f"  {error}", count) for error, count in self.buried.items()),
            ("  of which had finished", self.buried_and_finished),
            ("taken for poison", sum(self.convicted.values())),
            *((f"  {why}", count) for why, count in self.convicted.most_common()),
            *((name, self.families[name]) for name in Families.ROWS),
            ("processes", sum(self.processes.values())),
            *((f"  {pools}", count) for pools, count in sorted(self.processes.items())),
            ("jobs whose states are judged", self.states.states.total()),
            *((f"  {state}", count) for state, count in self.states.states.most_common()),
            ("  runs", self.states.runs),
            ("  steps done again", self.states.repeated_steps),
            ("  run again", self.states.repeated.total()),
            *((f"    {why}", count) for why, count in self.states.repeated.most_common()),
            *((f"  answered {answer}", count) for answer, count in self.states.answers.most_common()),
            ("jobs of a shape", self.shapes.count.total()),
            *((f"  {kind}", count) for kind, count in self.shapes.count.most_common()),
            ("  run again", self.shapes.repeated.total()),
            *((f"    {why}", count) for why, count in self.shapes.repeated.most_common()),
            ("jobs with limits, locks and levels", self.bounds.count.total()),
            *((f"  {kind}", count) for kind, count in self.bounds.count.most_common()),
            *((f"  ran through the outage: {kind}", count) for kind, count in sorted(self.bounds.outlasted.items())),
            *((f"  most at once of {name}", count) for name, count in sorted(self.bounds.most.items())),
            *((f"  more at once, {why}", count) for why, count in sorted(explained.items())),
            ("keys at the end", self.keys.total()),
            ("lost", len(self.lost)),
        ]
        lines = [f"{name:<42} {value:>10,}" for name, value in rows]
        return "\n".join(
            [
                *lines,
                *(f"LOST: {jid}" for jid in self.lost),
                *(f"WRONG: {text}" for text in self.wrong),
            ]
        )


def account(pushes: Pushes, runs: Sequence[Run], left: Left, judge: Judge) -> Account:
    families = Families(runs)
    failures = {**pushes.pushed, **pushes.unsure, **families.failures}
    of_attempt: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:
        of_attempt[run.jid, run.attempt].append(run)
    ran = {jid for jid, _ in of_attempt}
    # A parent fails more often than it was told to, if a disturbance makes it run into its time limit.
    finished = {
        run.jid for run in runs if run.attempt >= failures.get(run.jid, 0) and _has_ended(run) and not run.failed
    }
    waiting = {jid for jids in left.lists.values() for jid in jids}
    families.judge(finished, present=waiting | left.buried.keys(), ran=ran)
    repeated, unexplained = _repeated(of_attempt, judge)
    convicted, wrongly_buried = _burials(left, runs, judge)
    return Account(
        pushed=len(pushes.pushed),
        unsure=len(pushes.unsure),
        unsure_that_ran=len(pushes.unsure.keys() & ran),
        runs=len(runs),
        finished=len(finished),
        repeated=repeated,
        left=Counter({key: len(jids) for key, jids in left.lists.items()}),
        buried=Counter(left.buried.values()),
        convicted=convicted,
        buried_and_finished=len(left.buried.keys() & finished),
        families=families.count,
        lost=[*sorted((pushes.pushed.keys() | ran) - finished - waiting - left.buried.keys()), *families.lost],
        complaints=[
            *families.complaints,
            *unexplained,
            *wrongly_buried,
            *_wrong_effects(of_attempt, left.effects),
            *judge.lives_declared_dead_without_a_reason(),
        ],
    )


def _has_ended(run: Run) -> bool:
    return run.ended < math.inf


def _repeated(of_attempt: Mapping[tuple[str, int], Sequence[Run]], judge: Judge) -> tuple[Counter[str], list[str]]:
    repeated: Counter[str] = Counter()
    unexplained = []
    for same in of_attempt.values():
        for first, second in itertools.pairwise(same):
            why = judge.explain(first, second)
            repeated[why or "UNEXPLAINED"] += 1
            if why is None:
                unexplained.append(f"run again, and nothing explains it: {first}, then {second}")
    return repeated, unexplained


def _burials(left: Left, runs: Sequence[Run], judge: Judge) -> tuple[Counter[str], list[str]]:
    convicted: Counter[str] = Counter()
    wrong = []
    for jid, error in left.buried.items():
        if error == POISON:
            why = judge.why_convicted(jid, left.convicting.get(jid, 0), runs)
            convicted[why or "WITHOUT A REASON"] += 1
            if why is None:
                wrong.append(f"{jid} was taken for poison by the end of process {left.convicting.get(jid)}")
        elif not (jid.startswith(ODD) and error == UNREADABLE):
            wrong.append(f"{jid} is dead of {error}")
    return convicted, wrong


def _wrong_effects(of_attempt: Mapping[tuple[str, int], Sequence[Run]], effects: Mapping[str, int]) -> list[str]:
    """The ledger in Redis must agree with the files: neither may know of a run that the other one cannot."""
    wrong = []
    for (jid, attempt), same in of_attempt.items():
        least, most = sum(run.effected for run in same), sum(map(_has_ended, same))
        told = effects.get(f"{jid}:{attempt}", 0)
        if not least <= told <= most:
            wrong.append(f"{jid}:{attempt} took effect {told} times in Redis, {least} to {most} in the files")
    known = {f"{jid}:{attempt}" for jid, attempt in of_attempt}
    return [*wrong, *(f"{name} took effect in Redis only" for name in effects.keys() - known)]
