"""What the judge knows: every job that was promised, every run that began, and whatever was done to a process.

Nothing of the product writes or reads it. Times are true seconds since the begin of the run, but those of the server,
by whose clock jobs are due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.kernel import Process

# What the producer knows of a push.
UNKNOWN, PUSHED, SKIPPED, REFUSED = "unknown", "pushed", "skipped", "refused"
MARGIN_S = 15.0
OUTAGE = "outage"
TROUBLES = ("paused", "asleep", "cut off", "bad line", OUTAGE)  # what may cost a process its lease, or replies
LIMITED = ("crowd", "keyed", "wide", "paced")
SHAPES = ("atomic", "iterable")


@dataclass(eq=False)
class Run:
    process: Process
    began: float
    began_by_server: float
    attempt: int
    ended: float = math.inf
    ended_by_server: float = math.inf
    how: str = ""  # "ok", "failed", "broken off"; empty while it runs, and for ever if its process was killed
    children: list[Promise] = field(default_factory=list)

    def __str__(self) -> str:
        end = "never ended" if self.ended == math.inf else f"{self.how} at {self.ended:.3f}"
        return f"run {self.attempt} in {self.process}, from {self.began:.3f}, {end}"


@dataclass(eq=False)
class Promise:
    """A job that somebody pushed, with whatever it is to do."""

    number: int
    traits: frozenset[str] = frozenset()
    key: str = ""
    options: dict[str, Any] = field(default_factory=dict)  # of the push
    run_s: float = 0.0
    first_run_s: float = 0.0
    failures: int = 0  # so many runs fail before one ends well
    hopeless: bool = False  # every run asks for its death
    steps: int = 0  # of an iterable job
    kin: int = 0  # children that each run pushes
    parent: Promise | None = None
    within: str = ""  # the name of its batch ("b...") or chain ("c...")
    jid: str = ""
    answer: str = UNKNOWN  # of the push
    pushed: float = 0.0  # when the push was asked
    pusher_ahead_s: float = 0.0  # how far the wall clock of its machine was ahead of the server's
    answered: float = math.inf
    answered_by_server: float = math.inf
    given_up: bool = False  # the block of its batch raised, which cancels the batch
    copies: int = 1  # pushed with the same bytes
    judged: bool = True  # False: only its neighbours are
    due: float = 0.0  # by the server's clock; not earlier
    expires: float = math.inf  # by the server's clock
    cancelled: float = math.inf  # when somebody asked for it
    runs: list[Run] = field(default_factory=list)

    def __str__(self) -> str:
        traits = "+".join(sorted(self.traits)) or "plain"
        return f"job {self.number} ({traits}{', key ' + self.key if self.key else ''}, {self.jid or 'no jid'})"

    @property
    def job_class(self) -> str:
        shape = next((trait for trait in SHAPES if trait in self.traits), "plain")
        limit = next((trait for trait in LIMITED if trait in self.traits), "any")
        return "gathered" if "group" in self.traits else f"{limit}-{shape}"

    @property
    def died(self) -> bool:
        """It may have ended badly before it ended well."""
        return self.hopeless or self.cancelled < math.inf

    @property
    def ended_well(self) -> list[Run]:
        return [run for run in self.runs if run.how == "ok"]


@dataclass(frozen=True)
class Window:
    """A time in which a process may lose its lease, or its replies."""

    began: float
    ended: float
    why: str


class Ledger:
    def __init__(self, server_steps: Sequence[tuple[float, float]]) -> None:
        """`server_steps`: of the server's clock, which tells whether a lease has expired."""
        self._server_steps = server_steps
        self.promises: list[Promise] = []
        self.windows: dict[Process, list[Window]] = {}
        self.killed: dict[Process, float] = {}
        self.gone: dict[Process, float] = {}  # killed, or ended by itself
        self.gives_back: dict[Process, float] = {}  # when a stop gives its running jobs to others
        self.blocks: list[tuple[str, str, Run]] = []  # a limit, a key, and who held a place there
        self.slots: dict[int, list[Run]] = {}  # runs of the periodic job, by the slot
        self.callbacks: dict[str, list[Run]] = {}  # by the name of the batch
        self.closed: set[str] = set()  # batches whose block has ended, as their producer knows
        self._open: dict[Process, dict[str, float]] = {}  # since when, by what troubles it

    def promise(self, **fields: object) -> Promise:
        made = Promise(len(self.promises), **fields)  # type: ignore[arg-type]
        self.promises.append(made)
        return made

    def trouble_begins(self, process: Process, why: str) -> None:
        self._open.setdefault(process, {}).setdefault(why, process.kernel.now)

    def trouble_ends(self, process: Process, why: str) -> None:
        if (began := self._open.get(process, {}).pop(why, None)) is not None:
            self.windows.setdefault(process, []).append(Window(began, process.kernel.now, why))

    def disturbed(self, process: Process, since: float, until: float = math.inf) -> bool:
        """Whether anything was done to the process in that time that explains a second run."""
        ends = (self.killed.get(process, math.inf), self.gives_back.get(process, math.inf))
        if any(since <= end <= until for end in ends):
            return True
        windows = self.all_windows(process)
        return any(window.began <= until and since <= window.ended + MARGIN_S for window in windows)

    def all_windows(self, process: Process) -> Sequence[Window]:
        still = (Window(began, math.inf, why) for why, began in self._open.get(process, {}).items())
        return sorted([*self.windows.get(process, ()), *still], key=lambda window: window.began)

    def held_until(self, run: Run, lease_s: float) -> float:
        """Until when the run surely held what its process had been given: its lease may have been lost after that."""
        until = min(run.ended, self.gone.get(run.process, math.inf), self.gives_back.get(run.process, math.inf))
        for began, ended in self._long_troubles(run.process):
            # A beat may have been on its way for some seconds when the trouble began, and the next may come as late.
            sure_s = lease_s - MARGIN_S - self.forward_s(began - lease_s, ended)
            # A process that goes on may begin a job that it had before, until a beat tells that it was declared dead.
            if ended + MARGIN_S >= run.began and ended - began > sure_s:
                until = min(until, max(run.began, began + max(0.0, sure_s)))
        return until

    def forward_s(self, since: float, until: float) -> float:
        return sum(max(0.0, seconds) for at, seconds in self._server_steps if since <= at <= until)

    def _long_troubles(self, process: Process) -> list[tuple[float, float]]:
        """Windows that follow each other so closely that no beat may come through in between are one. An outage for all
        explains nothing: nobody is declared dead for it."""
        merged: list[tuple[float, float]] = []
        for window in self.all_windows(process):
            if window.why == OUTAGE:
                continue
            if merged and window.began <= merged[-1][1] + MARGIN_S:
                merged[-1] = (merged[-1][0], max(merged[-1][1], window.ended))
            else:
                merged.append((window.began, window.ended))
        return merged
