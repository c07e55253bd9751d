"""What happens in a run, drawn from its seed: which jobs are pushed, and which faults strike, each at its moment."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WORKERS = ("w0", "w1")
PRODUCER, SERVER = "producer", "server"

FIRST_FAULT_S, GAP_S = 3.0, (4.0, 9.0)
AWAY_S = (0.5, 3.0)  # Redis, and a connection
FULL_S = (2.0, 6.0)
PAUSE_S = (2.0, 8.0)  # shorter than every lease
# Longer than every lease and the look for what has lost it. Nothing else happens meanwhile: some systems take nobody
# for dead while they are disturbed themselves.
FREEZE_S = 90.0
LONGEST_DELAY_S = 15.0
LONG_S = (2.0, 5.0)
SHORT_MS = 10
JOBS_A_SECOND = 10

KINDS = {
    "kill": "kill -9 of every process of a worker, which is started again after a second",
    "pause": f"SIGSTOP of every process of a worker for {PAUSE_S[0]:g} to {PAUSE_S[1]:g} s",
    "freeze": f"SIGSTOP of every process of a worker for {FREEZE_S:g} s, which is longer than any lease",
    "restart": "Redis ends by TERM, and starts again after some seconds with all that it had",
    "crash": "kill -9 of Redis, which starts again after some seconds with all that it had acknowledged",
    "cut": "connections of a worker or the producer end under the next reply; new ones are refused for some seconds",
    "full": "Redis refuses every write that needs memory, for some seconds",
    "deploy": "TERM to a worker and, when it has ended, a new process; kill -9 after 30 s",
}


class Job(NamedTuple):
    id: str
    at_s: float  # of its push
    milliseconds: int
    delay_s: float  # 0: to run at once
    failures: int


class Fault(NamedTuple):
    at_s: float
    kind: str
    target: str
    lasts_s: float  # 0: over at once


@dataclass(frozen=True)
class Plan:
    seed: int
    seconds: float  # until the last fault is over
    kinds: tuple[str, ...]
    calm_s: float = 35.0  # jobs come for so long after the last fault, so that a worker that does nothing is found

    def jobs(self) -> Iterator[Job]:
        """The last job is pushed when each other one is due."""
        dice = random.Random(f"{self.seed}:jobs")
        end_s = self.seconds + self.calm_s
        for number in itertools.count():
            at_s = number / JOBS_A_SECOND
            if at_s > end_s:
                return
            milliseconds = round(1_000 * dice.uniform(*LONG_S)) if dice.random() < 0.1 else SHORT_MS
            delay_s = round(dice.uniform(1, LONGEST_DELAY_S), 3) if dice.random() < 0.1 else 0.0
            yield Job(f"job{number:06}", at_s, milliseconds, min(delay_s, end_s - at_s), int(dice.random() < 0.06))

    def faults(self) -> list[Fault]:
        """One after the other, each kind as often as the others. Only a freeze comes at most once."""
        dice = random.Random(f"{self.seed}:faults")
        faults: list[Fault] = []
        bag: list[str] = []
        kinds, at_s = list(self.kinds), FIRST_FAULT_S
        while kinds:
            bag = bag or dice.sample(kinds, len(kinds))
            kind = bag.pop()
            lasts_s = dice.uniform(*LASTS_S[kind]) if kind in LASTS_S else 0.0
            fault = Fault(at_s, kind, dice.choice(_targets(kind)), lasts_s)
            if at_s + lasts_s <= self.seconds:
                faults.append(fault)
                at_s += lasts_s + dice.uniform(*GAP_S)
            elif kind != "freeze":
                break
            if kind == "freeze":
                kinds.remove(kind)
        return faults


LASTS_S = {
    "pause": PAUSE_S,
    "freeze": (FREEZE_S, FREEZE_S),
    "restart": AWAY_S,
    "crash": AWAY_S,
    "cut": AWAY_S,
    "full": FULL_S,
}


def _targets(kind: str) -> Sequence[str]:
    if kind in ("restart", "crash", "full"):
        return (SERVER,)
    return (*WORKERS, PRODUCER) if kind == "cut" else WORKERS
