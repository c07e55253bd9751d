"""Judges what `status` tells of each job at the end, by the notes of its runs.

    completed   the run that the result names has ended well; without a result, some run has
    dead        its last run has failed as it was told to; or it was taken for poison, for a reason
    cancelled   somebody asked for it, and no run had been settled before that
    expired     its time is over, and no run had been settled

A job has ended as its last run did, if the server has certainly learned of that. No run begins after the answer
`cancelled`, nor when the time of the job is over, but in a process that was stopped between its last look and the first
line of the job. A job is run again only where the `judge` of all jobs can explain it, or where a run of an iterable job
has told that it goes on later.

A state may be told as not verified, if the server has refused a command since the push: the record could not be written
then, and the job went on without it.

An iterable job skips no step. After a run that was to go on later no step is done again, unless the server refused a
command: the job goes on without its newest cursor then. After any other run the steps are done again that came after
the last checkpoint.

Of a job that was pushed twice only this is judged: no copy begins after the answer `cancelled`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from chaos.judge import BEGIN_S, Judge
from chaos.notes import Run, StatedRun
from chaos.states import CHECKPOINT_S, Asked, Push, Pushed, Seen

POISON = "goworkers_py.PoisonPill"
# In the error of a job that was taken for poison: the process whose death convicted it, as host:pid:nonce.
CONVICTING = re.compile(r"processes died while they ran this job, the last one \([^:]*:(\d+):")
WELL, LATER, INTERRUPTED = "ended", "GeneratorExit", "JobCancelled"
# Between two steps of which at most the later one is done again, while the process is undisturbed. A busy machine may
# be late with a checkpoint.
APART_S = CHECKPOINT_S + 1.0


@dataclass
class Verdict:
    states: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    repeated_steps: int = 0
    complaints: list[str] = field(default_factory=list)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(*(getattr(self, of.name) + getattr(other, of.name) for of in fields(self)))


class Case(NamedTuple):
    """All that is known of a job."""

    push: Push
    seen: Seen
    runs: Sequence[StatedRun] = ()
    asked: Asked | None = None


class StateJudge:
    def __init__(self, judge: Judge, runs: Sequence[Run], wall_minus_monotonic: float) -> None:
        """`runs`: also those of other jobs in the same processes."""
        self._judge = judge
        self._wall_minus_monotonic = wall_minus_monotonic
        self._all_runs = runs
        self._runs: dict[str, list[StatedRun]] = defaultdict(list)
        for run in runs:
            if isinstance(run, StatedRun):
                self._runs[run.jid].append(run)

    def verdict(self, pushed: Pushed, seen: Mapping[str, Seen]) -> Verdict:
        verdict = Verdict(
            Counter(one.state if one.verified else f"{one.state}, not verified" for one in seen.values()),
            Counter(f"{one.answer}{' (retry)' if one.retry else ''}" for one in pushed.asked.values()),
            runs=sum(map(len, self._runs.values())),
        )
        for jid, push in pushed.jobs.items():
            case = Case(push, seen[jid], self._runs[jid], pushed.asked.get(jid))
            if push.sure or case.runs or case.seen.state != "unknown":
                verdict.complaints += [f"{jid} {why}: {case}" for why in self._wrong(case, verdict)]
        return verdict

    def _wrong(self, case: Case, verdict: Verdict) -> Iterator[str]:
        if case.push.doubled:  # its copies end each in their own way
            yield from self._begun_after_cancel(case)
            return
        if case.seen.verified:
            yield from self._state(case)
        elif not self._judge.is_refused_since(case.push.at):
            yield f"is {case.seen.state}, and not verified"
        yield from self._answer(case)
        yield from self._late(case.push, case.runs)
        yield from self._again(case.runs, verdict)
        if case.push.steps:
            yield from self._steps(case, verdict)

    def _state(self, case: Case) -> Iterator[str]:
        if not self._is_true(case):
            yield f"is {case.seen.state}"
        yield from self._settled(case)

    def _is_true(self, case: Case) -> bool:
        push, seen, runs, asked = case
        match seen.state:
            case "completed":
                return any(run.how == WELL and (not push.retained or seen.result == run.result) for run in runs)
            case "dead":
                return self._is_truly_dead(case)
            case "cancelled":
                return asked is not None and not asked.retry
            case "expired":
                return bool(push.expires_at)
            case _:
                return False

    def _is_truly_dead(self, case: Case) -> bool:
        push, seen, runs, asked = case
        if seen.error_class == POISON:
            pid = CONVICTING.search(seen.error_message)
            return pid is not None and bool(self._judge.why_convicted(push.jid, int(pid[1]), self._all_runs))
        if seen.error_class.endswith(INTERRUPTED):  # such a run counts as a failed one
            return asked is not None and asked.retry and any(run.how == INTERRUPTED for run in runs)
        return seen.error_class.endswith(push.dies_of) and any(_dies(push, run) for run in runs)

    def _settled(self, case: Case) -> Iterator[str]:
        """A job may be cancelled from the time on at which somebody asks for it."""
        asked = case.asked
        before = asked.at if asked is not None and not asked.retry else math.inf
        for run in case.runs:
            state = "completed" if run.how == WELL else "dead" if _dies(case.push, run) else ""
            if state and run.ended < before and state != case.seen.state and self._judge.is_settled(run, before):
                yield f"is {case.seen.state}, and a run was settled as {state}"

    def _answer(self, case: Case) -> Iterator[str]:
        seen, asked = case.seen, case.asked
        if asked is None:
            return
        if asked.answer == "cancelled" and seen.verified and seen.state != "cancelled":
            yield f"is {seen.state}, and the answer was cancelled"
        if asked.answer == "too late" and seen.state == "cancelled":
            yield "is cancelled, and the answer was too late"
        if asked.answer == "not found":
            yield "was not found"
        yield from self._begun_after_cancel(case)

    def _begun_after_cancel(self, case: Case) -> Iterator[str]:
        asked = case.asked
        if asked is None:
            return
        late = [run for run in case.runs if asked.answer == "cancelled" and run.began > asked.answered_at]
        for run in late:
            if not self._judge.is_begun_after_a_pause(run):
                yield f"began {run.began - asked.answered_at:.3f} s after the answer cancelled"

    def _late(self, push: Push, runs: Sequence[StatedRun]) -> Iterator[str]:
        if not push.expires_at:
            return
        latest = push.expires_at - self._wall_minus_monotonic + BEGIN_S
        for run in runs:
            if run.began > latest and not self._judge.is_begun_after_a_pause(run):
                yield f"began {run.began - latest + BEGIN_S:.3f} s after it had expired"

    def _again(self, runs: Sequence[StatedRun], verdict: Verdict) -> Iterator[str]:
        for first, second in _pairs(runs):
            why = "went on later" if first.how == LATER else self._judge.explain(first, second)
            verdict.repeated[why or "UNEXPLAINED"] += 1
            if why is None:
                yield f"was run again, and nothing explains it: {first}, then {second}"

    def _steps(self, case: Case, verdict: Verdict) -> Iterator[str]:
        done, before, given_up_at = (
            -1,
            None,
            math.inf,
        )  # `before`: the run whose steps came last; until others had its job
        for run in case.runs:
            given_up_at = min(given_up_at, run.began)
            numbers = [number for number, _ in run.steps]
            if not numbers:
                continue
            if numbers != [*range(numbers[0], numbers[-1] + 1)]:
                yield f"skipped steps within a run: {numbers}"
            if numbers[0] > done + 1:
                yield f"skipped from step {done} to {numbers[0]}"
            verdict.repeated_steps += sum(number <= done for number in numbers)
            if before is not None and (why := self._repeats_too_much(before, given_up_at, numbers[0])):
                yield why
            done, before, given_up_at = max([done, *numbers]), run, math.inf
        if case.seen.state == "completed" and done != case.push.steps - 1:
            yield f"has ended after step {done} of {case.push.steps}"

    def _repeats_too_much(self, before: StatedRun, given_up_at: float, first: int) -> str | None:
        times = {number: at for number, at in before.steps if at < given_up_at}
        if first not in times:
            return None
        settled = before.ended < given_up_at and self._judge.is_settled(before, given_up_at)
        refused = self._judge.is_refused_between(before.ended, given_up_at)
        if before.how == LATER and settled and not refused:
            return f"did step {first} again after a run that told it would go on later"
        quiet_s = self._judge.quiet_s(before, times[first], max(times.values()))
        if quiet_s > APART_S:
            return f"did step {first} again, {quiet_s:.2f} s before the last step of the run before"
        return None


def _dies(push: Push, run: StatedRun) -> bool:
    """An interrupted run may have spent an attempt."""
    return bool(push.dies_of) and run.how == push.dies_of and run.attempt >= push.last_attempt


def _pairs(runs: Iterable[StatedRun]) -> Iterator[tuple[StatedRun, StatedRun]]:
    """Runs of the same attempt, one after the other."""
    of_attempt: dict[int, list[StatedRun]] = defaultdict(list)
    for run in runs:
        of_attempt[run.attempt].append(run)
    for same in of_attempt.values():
        yield from itertools.pairwise(same)
