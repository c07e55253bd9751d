"""Answers four questions from the ledger alone: which jobs are lost, ran twice, began early, and what was stuck."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.torture.ledger import Entry
from bench.torture.plan import PRODUCER, SERVER, WORKERS

OF_JOBS = {"push", "pushed", "unsure", "begin", "fail", "end"}
JOB = "job"  # what the ids of judged jobs begin with; those of the warm-up do not
# A fault so soon after the end of a run may still have hit its acknowledgement.
AFTER_S = 2.0
STUCK_S = 30.0
ROUNDING_S = 0.002  # due times have three decimals
UNEXPLAINED = "unexplained"


class Run(NamedTuple):
    life: str  # of the process: w0.3 is the third one of the worker w0
    began: float
    ended: float

    @property
    def worker(self) -> str:
        return self.life.partition(".")[0]


class Push(NamedTuple):
    sent: float
    answered: float
    due: float


class Span(NamedTuple):
    """A fault, on one of the workers, the producer or the server."""

    kind: str
    target: str
    since: float
    until: float


@dataclass
class Verdict:
    acknowledged: int = 0
    unsure: int = 0  # pushes that failed: such a job may run or not
    unsure_that_ran: int = 0
    ended: int = 0  # acknowledged jobs
    begun_again: int = 0  # runs that began after the first one of their job, retries left out
    lost: list[str] = field(default_factory=list)
    twice: dict[str, str] = field(default_factory=dict)  # by job: the fault that explains it
    early: dict[str, float] = field(default_factory=dict)  # by job: seconds before its time
    stuck: list[str] = field(default_factory=list)
    ended_by_themselves: int = 0  # processes that nobody had asked to end
    did_not_stop: int = 0  # processes that TERM did not end

    @property
    def unexplained(self) -> list[str]:
        return [job for job, why in self.twice.items() if why == UNEXPLAINED]

    @property
    def fine(self) -> bool:
        return not (self.lost or self.stuck)


def judge(ledger: Iterable[Entry]) -> Verdict:
    return _Judge(ledger).verdict()


class _Judge:
    def __init__(self, ledger: Iterable[Entry]) -> None:
        entries = list(ledger)
        of_word: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            if entry.word not in OF_JOBS or entry.details[0].startswith(JOB):
                of_word[entry.word].append(entry)
        self._spans = list(_spans(entries))
        end = entries[-1:]
        self._calm = (of_word["calm"] or end)[0].at
        self._quiet = (of_word["quiet"] or end)[0].at
        sent = {details[0]: (at, float(details[1])) for _, at, details in of_word["push"]}
        self._pushes = {  # those that were acknowledged
            details[0]: Push(sent[details[0]][0], at, sent[details[0]][1]) for _, at, details in of_word["pushed"]
        }
        self._unsure = {details[0] for _, _, details in of_word["unsure"]}
        self._up = {details[0]: at for _, at, details in of_word["up"]}
        self._down = {details[0]: (at, details[1]) for _, at, details in of_word["down"]}
        self._failures = Counter(details[0] for _, _, details in of_word["fail"])
        self._begins: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for _, at, details in of_word["begin"]:
            self._begins[details[0]].append((at, details[1]))
        self._runs: dict[str, list[Run]] = defaultdict(list)  # those that ended well
        for _, ended, (job, life, _) in of_word["end"]:
            began = max(at for at, of_life in self._begins[job] if of_life == life and at <= ended)
            self._runs[job].append(Run(life, began, ended))

    def verdict(self) -> Verdict:
        ways = [why for _, why in self._down.values()]
        return Verdict(
            acknowledged=len(self._pushes),
            unsure=len(self._unsure),
            unsure_that_ran=len(self._unsure & self._begins.keys()),
            ended=len(self._pushes.keys() & self._runs.keys()),
            begun_again=sum(max(0, len(begins) - 1 - self._failures[job]) for job, begins in self._begins.items()),
            lost=sorted(self._pushes.keys() - self._runs.keys()),
            twice={job: self._why(job, runs) for job, runs in sorted(self._runs.items()) if len(runs) > 1},
            early=dict(self._early()),
            stuck=[*self._stuck_queue(), *self._stuck_workers()],
            ended_by_themselves=ways.count("by-itself"),
            did_not_stop=ways.count("did-not-stop"),
        )

    def _why(self, job: str, runs: list[Run]) -> str:
        """The fault that explains the first pair of runs that nothing better explains."""
        reasons = {self._why_again(job, first, second) for first, second in itertools.pairwise(runs)}
        return UNEXPLAINED if UNEXPLAINED in reasons else " and ".join(sorted(reasons))

    def _why_again(self, job: str, first: Run, second: Run) -> str:
        push = self._pushes.get(job)
        sent, answered = (push.sent, push.answered) if push else (first.began, first.began)
        if kind := self._fault(first.began, first.ended + AFTER_S, first.worker, SERVER):
            return f"{kind} during its first run"
        if kind := self._fault(sent, first.ended + AFTER_S, second.worker):
            return f"{kind} of the worker that ran it again"
        if kind := self._fault(sent, answered, PRODUCER, SERVER):
            return f"{kind} during its push"
        if kind := self._fault(sent, first.began, *WORKERS, SERVER):
            return f"{kind} while it waited"
        return UNEXPLAINED

    def _fault(self, since: float, until: float, *targets: str) -> str | None:
        for span in self._spans:
            if span.target in targets and span.since <= until and since <= span.until:
                return span.kind
        return None

    def _early(self) -> Iterator[tuple[str, float]]:
        for job, push in sorted(self._pushes.items()):
            began = min((at for at, _ in self._begins[job]), default=push.due)
            if began < push.due - ROUNDING_S:
                yield job, round(push.due - began, 3)

    def _stuck_queue(self) -> Iterator[str]:
        """Times in which nothing began while a job waited and a process could have run it, until the last push."""
        begins = sorted(at for begins in self._begins.values() for at, _ in begins if at < self._quiet)
        waits = sorted(
            (max(push.answered, push.due), min((at for at, _ in self._begins[job]), default=float("inf")))
            for job, push in self._pushes.items()
        )
        for since, until in itertools.pairwise([0.0, *begins, self._quiet]):
            if until - since <= STUCK_S or not self._was_able(since, until):
                continue
            waiting = [ready for ready, began in waits if ready < until <= began]
            if waiting and (stood_s := self._with_server(max(since, waiting[0]), until)) > STUCK_S:
                yield f"no job began for {stood_s:.0f} s, and {len(waiting)} waited"

    def _was_able(self, since: float, until: float) -> bool:
        """Whether some process had run a job before, lived on until the end, and did not stand still."""
        tried = {life for begins in self._begins.values() for at, life in begins if at <= since}
        return any(
            self._down.get(life, (until,))[0] >= until
            and not any(
                span.kind in ("pause", "freeze") and span.target == life.partition(".")[0]
                and span.since < until and since < span.until
                for span in self._spans
            )
            for life in tried
        )  # fmt: skip

    def _with_server(self, since: float, until: float) -> float:
        """The seconds without those in which it was away or full."""
        away = [span for span in self._spans if span.target == SERVER and span.since < until and since < span.until]
        return until - since - sum(min(until, span.until) - max(since, span.since) for span in away)

    def _stuck_workers(self) -> Iterator[str]:
        """Processes that lived through the time without faults, and ran nothing in it."""
        if self._quiet - self._calm < STUCK_S:
            return
        busy = {life for begins in self._begins.values() for at, life in begins if self._calm <= at}
        for life, up in self._up.items():
            stayed = life not in self._down or self._quiet < self._down[life][0]
            if up < self._calm and stayed and life not in busy:
                yield f"{life} ran nothing after the last fault, for {self._quiet - self._calm:.0f} s"


def _spans(entries: Iterable[Entry]) -> Iterator[Span]:
    open_: dict[tuple[str, ...], float] = {}
    for word, at, details in entries:
        if word == "fault":
            open_[details] = at
        elif word == "mended":
            yield Span(details[0], details[1], open_.pop(details), at)
        elif word == "down" and details[1] not in ("killed", "stopped"):
            yield Span(details[1], details[0].partition(".")[0], at, at)
    yield from (Span(kind, target, since, float("inf")) for (kind, target), since in open_.items())
