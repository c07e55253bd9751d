"""Accounts for every job: that it ran, why it ran twice if it did, and where it is if it did not.

A second run of the same attempt is forgiven only where a disturbance that was noted explains it:

    killed while it ran             its process was killed between its begin and its end
    killed before it was settled    the same, soon after its end, or while the server could not be told of it
    given back at a stop            its process was told to stop and could not wait for it, or not settle it
    lease lost                      its process was stopped or cut off for so long that others were given its jobs,
                                    and said so when it found out, if it still could
    begun after a pause             it was stopped between a last look at its lease and the first line of the job
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.monkeys import LEASE_S, LONG, SILENT, Window
from chaos.nodes import SHORT, Life

# Whose network or server came back needs so long to be as before: a time-out that has begun, a pause, another try.
RECONNECT_S = SHORT["connection.SOCKET_TIMEOUT_S"] + SHORT["outage.LONGEST_PAUSE_S"]
# A lease can be lost by a disturbance that is that much shorter, for the beat may have been late before and after.
MARGIN_S = SHORT["heartbeat.BEAT_EVERY_S"] + RECONNECT_S
# How long the end of a run can go unsettled on an undisturbed, but busy machine.
SETTLE_S = 1.5
# Between a worker's look at its lease and the first line of the job, on a busy machine.
BEGIN_S = 0.25

DECLARED_DEAD = "was not heard of for so long that its jobs were given to others"
POISON = "goworkers_py.errors.PoisonPill"


@dataclass
class Run:
    jid: str
    attempt: int
    life: int
    began: float
    ended: float = math.inf
    effected: bool = False


@dataclass
class Pushes:
    """jid: how often it fails before it succeeds."""

    pushed: dict[str, int] = field(default_factory=dict)
    unsure: dict[str, int] = field(default_factory=dict)


@dataclass
class Left:
    """What the server still has at the end."""

    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)  # key: jids; all but the dead set
    buried: Mapping[str, str] = field(default_factory=dict)  # jid: class of its error
    effects: Mapping[str, int] = field(default_factory=dict)  # jid:attempt: how often


def read_pushes(directory: Path) -> Pushes:
    words: dict[str, dict[str, int]] = defaultdict(dict)
    for line in _whole_lines(directory / "pushes"):
        word, _, jid, failures = line.split()
        words[word][jid] = int(failures)
    return Pushes(words["pushed"], {jid: words["pushes"][jid] for jid in words["pushes"].keys() - words["pushed"]})


def read_runs(directory: Path) -> list[Run]:
    runs: dict[tuple[int, str], Run] = {}
    for path in directory.glob("runs-*"):
        life = int(path.name.partition("-")[2])
        for line in _whole_lines(path):
            word, at, jid, attempt, number = line.split()
            if word == "began":
                runs[life, number] = Run(jid, int(attempt), life, float(at))
            elif word == "ended":
                runs[life, number].ended = float(at)
            else:
                runs[life, number].effected = True
    return sorted(runs.values(), key=lambda run: run.began)


def read_deaths(directory: Path, wall_minus_monotonic: float) -> dict[int, list[float]]:
    """When each life found itself declared dead."""
    deaths: dict[int, list[float]] = defaultdict(list)
    for path in directory.glob("log-*"):
        for line in _whole_lines(path):
            if DECLARED_DEAD in line:
                at = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()
                deaths[int(path.name.split("-")[1])].append(at - wall_minus_monotonic)
    return deaths


def _whole_lines(path: Path) -> Iterable[str]:
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


@dataclass
class Span:
    began: float
    ended: float  # with the time that it takes to be back
    kinds: set[str]


class Disturbances:
    """When a node may have been in no state to keep its lease, or to settle anything."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self._windows = sorted(windows, key=lambda window: window.began)

    def quiet_s(self, node: str, start: float, end: float) -> float:
        """How much of this time was undisturbed."""
        quiet, at = 0.0, start
        for span in self._spans(node, only_silent=False):
            if span.ended > at:
                quiet += max(0.0, min(span.began, end) - at)
                at = span.ended
        return quiet + max(0.0, end - at)

    def silences(self, node: str) -> list[Span]:
        """Long enough for the lease to run out, and not for all alike: nobody loses it to an outage of the server."""
        return [
            span
            for span in self._spans(node, only_silent=True)
            if span.ended - span.began - RECONNECT_S >= LEASE_S - MARGIN_S
            and any(
                window.node == node and window.began <= span.ended and span.began <= window.ended
                for window in self._windows
            )
        ]

    def just_woken(self, node: str, at: float) -> bool:
        return any(
            window.node == node and window.kind == LONG and window.ended <= at <= window.ended + BEGIN_S
            for window in self._windows
        )

    def _spans(self, node: str, only_silent: bool) -> list[Span]:
        spans: list[Span] = []
        for window in self._windows:
            if window.node not in ("", node) or (only_silent and window.kind not in SILENT):
                continue
            ended = window.ended + RECONNECT_S
            if spans and window.began <= spans[-1].ended:
                spans[-1].ended = max(spans[-1].ended, ended)
                spans[-1].kinds.add(window.kind)
            else:
                spans.append(Span(window.began, ended, {window.kind}))
        return spans


class Judge:
    def __init__(
        self, lives: Iterable[Life], windows: Iterable[Window], deaths: Mapping[int, Sequence[float]] | None = None
    ) -> None:
        self._lives = {life.number: life for life in lives}
        self._disturbances = Disturbances(windows)
        self._deaths = deaths or {}

    def explain(self, first: Run, second: Run) -> str | None:
        """Why the same attempt was run again."""
        return self._by_its_end(first, second) or self._by_its_lease(first, second) or self._by_a_pause(second)

    def _by_its_end(self, first: Run, second: Run) -> str | None:
        life = self._lives[first.life]
        if not first.began <= life.ended <= second.began:
            return None
        unsettled = first.ended >= life.ended or self._quiet_s(life, first.ended, life.ended) < SETTLE_S
        if life.how == "killed" and first.ended == math.inf:
            return "killed while it ran"
        if life.how == "killed" and unsettled:
            return "killed before it was settled"
        if life.how == "stopped" and (first.ended > life.asked_to_stop or unsettled):
            return "given back at a stop"
        return None

    def _by_its_lease(self, first: Run, second: Run) -> str | None:
        life = self._lives[first.life]
        for span in self._lost_leases(life):
            in_time = first.began <= span.ended and span.began + LEASE_S - MARGIN_S <= second.began
            unsettled = first.ended >= span.began or self._quiet_s(life, first.ended, span.began) < SETTLE_S
            if in_time and unsettled:
                return "lease lost while it was stopped" if LONG in span.kinds else "lease lost while it was cut off"
        return None

    def _by_a_pause(self, second: Run) -> str | None:
        woken = self._disturbances.just_woken(self._lives[second.life].node, second.began)
        return "begun after a pause" if woken else None

    def _lost_leases(self, life: Life) -> list[Span]:
        """Silences after which it found itself declared dead, or ended before it could."""
        return [
            span
            for span in self._disturbances.silences(life.node)
            if any(span.began <= death <= span.ended + MARGIN_S for death in self._deaths.get(life.number, ()))
            or span.began <= life.ended <= span.ended + MARGIN_S
        ]

    def lives_declared_dead_without_a_reason(self) -> list[str]:
        return [
            f"declared dead at {death:.1f} though nothing had kept it silent: {self._lives[number]}"
            for number, deaths in self._deaths.items()
            for death in deaths
            if not self._silent_before(death, self._lives[number].node)
        ]

    def _silent_before(self, death: float, node: str) -> bool:
        return any(span.began <= death <= span.ended + MARGIN_S for span in self._disturbances.silences(node))

    def _quiet_s(self, life: Life, start: float, end: float) -> float:
        return self._disturbances.quiet_s(life.node, start, end)


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
    buried_and_finished: int  # unsettled, when their last process died
    lost: list[str]
    complaints: list[str]

    @property
    def fine(self) -> bool:
        return not (self.lost or self.complaints)

    def __str__(self) -> str:
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
            ("lost", len(self.lost)),
        ]
        lines = [f"{name:<42} {value:>10,}" for name, value in rows]
        return "\n".join(
            [*lines, *(f"LOST: {jid}" for jid in self.lost), *(f"WRONG: {text}" for text in self.complaints)]
        )


def account(pushes: Pushes, runs: Sequence[Run], left: Left, judge: Judge) -> Account:
    failures = {**pushes.pushed, **pushes.unsure}
    of_attempt: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:
        of_attempt[run.jid, run.attempt].append(run)
    ran = {jid for jid, _ in of_attempt}
    finished = {
        jid for (jid, attempt), same in of_attempt.items() if attempt == failures[jid] and any(map(_has_ended, same))
    }
    waiting = {jid for jids in left.lists.values() for jid in jids}
    repeated, unexplained = _repeated(of_attempt, judge)
    wrongly_buried = [f"{jid} is dead of {error}" for jid, error in left.buried.items() if error != POISON]
    return Account(
        pushed=len(pushes.pushed),
        unsure=len(pushes.unsure),
        unsure_that_ran=len(pushes.unsure.keys() & ran),
        runs=len(runs),
        finished=len(finished),
        repeated=repeated,
        left=Counter({key: len(jids) for key, jids in left.lists.items()}),
        buried=Counter(left.buried.values()),
        buried_and_finished=len(left.buried.keys() & finished),
        lost=sorted((pushes.pushed.keys() | ran) - finished - waiting - left.buried.keys()),
        complaints=[
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
