"""Pushes jobs whose states are judged, cancels some of them, and judges at the end: what `status` tells of each job
must be what its notes tell.

    completed   it has ended well at least once
    dead        it was told to die; or it was taken for poison, as a bystander of too many deaths may be
    cancelled   a cancel was asked; no run began after the answer `cancelled`
    expired     its time is over, and no run has ended well and been settled

A state may also be told as not verified, if the server has refused a command while the job was there: the record could
not be written then, and the job went on without it.

An iterable job skips no step, and each of its runs begins behind a step that was done before.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from chaos import STATED
from goworkers_py.admin.cancelling import Canceller
from goworkers_py.admin.job_status import JobLookup
from goworkers_py.api.client import Client
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError

RETAIN_S = 3_600
UNKNOWN = "unknown"
POISON = "PoisonPill"
NOT_VERIFIED = "not verified"

Windows = Sequence[tuple[float, float]]


class Push(NamedTuple):
    """What a job was told to do."""

    jid: str
    dies: bool = False
    expires_at: float = 0.0
    steps: int = 0
    at: float = 0.0  # when it was pushed


@dataclass
class Pushed:
    """Written by the pusher and the canceller threads, read at the end."""

    jobs: dict[str, Push] = field(default_factory=dict)  # those that were certainly pushed
    asked: set[str] = field(default_factory=set)  # jids that somebody wanted to cancel
    answers: dict[str, tuple[str, float]] = field(default_factory=dict)  # jid: the answer, and when it came


class Pusher(threading.Thread):
    """Pushes, and cancels what it has pushed before."""

    def __init__(self, url: str, seed: int, jobs_per_s: float) -> None:
        super().__init__(name="stated", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.pushed = Pushed()
        self._random = random.Random(f"{seed}:stated")
        self._pause_s = 1 / jobs_per_s
        self._broker = RedisBroker(url, Config())
        self._client = Client(lambda: self._broker)
        self._to_cancel: list[tuple[float, str]] = []

    def run(self) -> None:
        number = 0
        try:
            while not self.stopping.wait(self._pause_s):
                number += 1
                self._push(f"{STATED}{number:07}")
                self._cancel_due()
        except BaseException as error:
            self.error = error
        finally:
            self._broker.close()

    def _push(self, jid: str) -> None:
        dice, options, args = self._random, EnqueueOptions(jid=jid, retain=RETAIN_S), []
        push, kind = (
            Push(jid, at=time.time()),
            dice.choice(["plain", "plain", "cancelled", "cancelled", "expiring", "iterable"]),
        )
        if dice.random() < 0.2:
            options = options.replaced(at=time.time() + dice.uniform(0.1, 5.0))
        if kind == "iterable":
            push = push._replace(steps=dice.randint(1, 60))
            job_class, args = "Steps", [push.steps, 0.03]
        else:
            push = push._replace(dies=dice.random() < 0.1)
            seconds = dice.uniform(0.0, 3.0) if kind == "cancelled" else dice.uniform(0, 0.1)
            job_class, args = "Stated", [seconds, dice.randint(1, 2) if dice.random() < 0.15 else 0, push.dies]
        if kind == "expiring":
            push = push._replace(expires_at=time.time() + dice.uniform(0.1, 4.0))
            options = options.replaced(expires_at=push.expires_at)
        try:
            self._client.push("mixed", job_class, args, options)
        except BrokerError:
            return  # nobody knows whether it was pushed
        self.pushed.jobs[jid] = push
        if kind == "cancelled" or dice.random() < 0.05:
            self._to_cancel.append((time.monotonic() + dice.uniform(0, 3.0), jid))

    def _cancel_due(self) -> None:
        due = [one for one in self._to_cancel if one[0] <= time.monotonic()]
        for one in due[:1]:
            self._to_cancel.remove(one)
            jid = one[1]
            self.pushed.asked.add(jid)
            try:
                answer: str = Canceller(self._broker, lambda message: None).cancel(jid, False, timeout=0.2)
            except BrokerError:
                answer = UNKNOWN
            self.pushed.answers[jid] = answer, time.time()

    def states(self, url: str) -> dict[str, str]:
        """What `status` tells of each job at the end. A dead job's error class follows its state."""
        broker = RedisBroker(url, Config())
        try:
            lookup = JobLookup(broker)
            found = {jid: lookup.status(jid) for jid in self.pushed.jobs}
        finally:
            broker.close()
        return {
            jid: f"{one.state} {one.error_class}".strip() if one.verified else f"{one.state}, {NOT_VERIFIED}"
            for jid, one in found.items()
        }


class Run(NamedTuple):
    jid: str
    began: float
    words: Sequence[str]  # after "began"


def read_states(directory: Path) -> list[Run]:
    runs: dict[tuple[str, str], tuple[str, float, list[str]]] = {}
    for path in directory.glob("states-*"):
        text = path.read_text()
        for line in text[: text.rfind("\n") + 1].splitlines():
            word, at, jid, _, number = line.split()
            if word == "began":
                runs[path.name, number] = jid, float(at), []
            else:
                runs[path.name, number][2].append(word)
    return sorted((Run(*run) for run in runs.values()), key=lambda run: run.began)


@dataclass
class Verdict:
    states: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    repeated_steps: int = 0
    complaints: list[str] = field(default_factory=list)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.states + other.states, self.answers + other.answers, self.runs + other.runs,
            self.repeated_steps + other.repeated_steps, self.complaints + other.complaints,
        )  # fmt: skip


def judge(
    pushed: Pushed, states: Mapping[str, str], runs: Sequence[Run], frozen: Windows, denied: Windows = ()
) -> Verdict:
    """`frozen`: when some process was stopped or cut off, `denied`: when the server refused a command; in epoch
    seconds."""
    verdict = Verdict(Counter(states.values()), Counter(answer for answer, _ in pushed.answers.values()), len(runs))
    of_job: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        of_job[run.jid].append(run)
    for jid, push in pushed.jobs.items():
        if NOT_VERIFIED in states[jid] and any(ended >= push.at for _, ended in denied):
            continue
        told = [f"{jid} {why}" for why in _wrong(push, states[jid], of_job[jid], pushed, frozen)]
        skipped, repeated = _steps(of_job[jid])
        verdict.repeated_steps += repeated
        verdict.complaints += [f"{one}: {push}, {of_job[jid]}, {pushed.answers.get(jid)}" for one in told + skipped]
    return verdict


def _wrong(push: Push, state: str, runs: Sequence[Run], pushed: Pushed, frozen: Windows) -> Iterable[str]:
    ended = any("ended" in run.words for run in runs)
    died = any("died" in run.words for run in runs)
    answer, at = pushed.answers.get(push.jid, ("", 0.0))
    excused = {
        "completed": ended,
        "dead": died or POISON in state,
        "cancelled": push.jid in pushed.asked,
        "expired": bool(push.expires_at),
    }
    word = re.split("[ ,]", state)[0]
    if not excused.get(word) or NOT_VERIFIED in state:
        yield f"is {state}"
    if answer == "cancelled" and word != "cancelled":
        yield f"is {state}, and the answer was cancelled"
    if answer == "too late" and word == "cancelled":
        yield "is cancelled, and the answer was too late"
    for run in runs:
        if answer == "cancelled" and run.began > at and not _was_frozen(at, run.began, frozen):
            yield f"began {run.began - at:.3f} s after the answer cancelled"


def _was_frozen(since: float, until: float, frozen: Windows) -> bool:
    return any(began <= until and ended >= since for began, ended in frozen)


def _steps(runs: Sequence[Run]) -> tuple[list[str], int]:
    """What is wrong with the steps, and how many were done again."""
    wrong, done, repeated = [], -1, 0
    for run in runs:
        numbers = [int(word.removeprefix("step")) for word in run.words if word.startswith("step")]
        if numbers and numbers != [*range(numbers[0], numbers[-1] + 1)]:
            wrong.append(f"skipped steps within a run: {numbers}")
        if numbers and numbers[0] > done + 1:
            wrong.append(f"skipped from step {done} to {numbers[0]}")
        repeated += sum(number <= done for number in numbers)
        done = max([done, *numbers])
    return wrong, repeated
