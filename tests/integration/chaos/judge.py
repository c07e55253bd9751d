"""Why a job was run again.

A second run of the same attempt is forgiven only where a disturbance that was noted explains it:

    killed while it ran             its process was killed between its begin and its end
    killed before it was settled    the same, soon after its end, or while the server could not be told of it
    killed by a job while it ran    the same two, but it was a killer beside it that ended the process
    given back at a stop            its process was told to stop and could not wait for it, or not settle it
    lease lost                      its process was stopped or cut off for so long that others were given its jobs,
                                    and said so when it found out, if it still could
    begun after a pause             it was stopped between a last look at its lease and the first line of the job

A job is convicted as poison by a process that died while it ran nothing else. That is right for killers. Another job
may be convicted only by a death that a monkey has made, and that looks the same:

    killed by a monkey              its process was killed while it ran alone
    lease lost while it ran         its process was stopped or cut off, and declared dead
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from chaos import KILLER
from chaos.monkeys import DENIED, LEASE_S, LONG, OUTAGE, SHORTLY, SILENT, STANDSTILL, Window
from chaos.nodes import SHORT, STOP_TIMEOUT_S, Life
from chaos.notes import Run

# Whose network or server came back needs so long to be as before: a time-out that has begun, a pause, another try.
RECONNECT_S = SHORT["brokers.redis.driver.connection.SOCKET_TIMEOUT_S"] + SHORT["runtime.outage.LONGEST_PAUSE_S"]
# A lease can be lost by a disturbance that is that much shorter, for the beat may have been late before and after.
MARGIN_S = SHORT["timing.beat_every_s"] + RECONNECT_S
# How long the end of a run can go unsettled on an undisturbed, but busy machine.
SETTLE_S = 1.5
# Between a worker's look at its lease and the first line of the job, on a busy machine.
BEGIN_S = 0.25
# A process that is let go on may run so long before the end of its pause is noted. During the pause it runs nothing.
NOTED_S = 0.1


KILLED_BY_A_JOB = "killed by a job"
KILLED = ("killed", KILLED_BY_A_JOB)


def is_killer(jid: str) -> bool:
    return jid.startswith(KILLER)


def find_killed_by_jobs(lives: Iterable[Life], runs: Iterable[Run]) -> None:
    """A killer notes its begin and ends its process at once. Nobody has seen when, but no note is younger."""
    noted: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        noted[run.life].append(run)
    for life in lives:
        if any(is_killer(run.jid) for run in noted[life.number]):
            life.how = KILLED_BY_A_JOB
            life.ended = max(at for run in noted[life.number] for at in (run.began, run.ended) if at < math.inf)


def _end(life: Life) -> float:
    """When others may first have seen its end."""
    return min(life.ended, life.signalled)


def _woken(window: Window) -> float:
    """From when on the process may run again. A monkey that notes a standstill may be the last to go on."""
    return window.began if window.kind == STANDSTILL else min(window.woken, window.ended - NOTED_S)


@dataclass
class Span:
    began: float
    ended: float  # with the time that it takes to be back
    kinds: set[str]
    noticed: float = 0.0  # by then its process knows of it


class Disturbances:
    """When a node may have been in no state to keep its lease, or to settle anything."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self._windows = sorted(windows, key=lambda window: window.began)
        # Asked for nearly every run, and each answer looks at all windows.
        self.silences = cache(self._silences)
        self._spans = cache(self._merged)

    def quiet_s(self, node: str, start: float, end: float) -> float:
        """How much of this time was undisturbed."""
        quiet, at = 0.0, start
        for span in self._spans(node, False):
            if span.ended > at:
                quiet += max(0.0, min(span.began, end) - at)
                at = span.ended
        return quiet + max(0.0, end - at)

    def _silences(self, node: str) -> list[Span]:
        """Long enough for the lease to run out, and not for all alike: nobody loses it to an outage of the server. So
        the long outage is cut out: before and after it the node must have been silent for long enough by itself."""
        return [
            span
            for span in self._without_outages(self._spans(node, True))
            if span.ended - span.began - RECONNECT_S >= LEASE_S - MARGIN_S
            and any(
                window.node == node and window.began <= span.ended and span.began <= window.ended
                for window in self._windows
            )
        ]

    def _without_outages(self, spans: Iterable[Span]) -> Iterator[Span]:
        for span in spans:
            began = span.began
            for outage in self.outages():
                if began < outage.ended and outage.began < span.ended:
                    yield Span(began, outage.began, span.kinds, span.ended + MARGIN_S)
                    began = outage.ended
            yield Span(began, span.ended, span.kinds, span.ended + MARGIN_S)

    def just_woken(self, node: str, at: float, kinds: Container[str] = (LONG,)) -> bool:
        return any(
            window.node in ("", node) and window.kind in kinds and _woken(window) <= at <= window.ended + BEGIN_S
            for window in self._windows
        )

    def outage_s(self, start: float, end: float) -> float:
        """How much of this time there was no server for anybody."""
        return sum(max(0.0, min(end, window.ended) - max(start, window.began)) for window in self.outages())

    def outages(self) -> list[Window]:
        return [window for window in self._windows if window.kind == OUTAGE]

    def any_of(self, kind: str, start: float, end: float) -> bool:
        return any(window.kind == kind and window.began <= end and start <= window.ended for window in self._windows)

    def _merged(self, node: str, only_silent: bool) -> list[Span]:
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

    def is_settled(self, run: Run, before: float = math.inf) -> bool:
        """Whether the server has certainly learned of the end of this run, while the job was its own."""
        life = self._lives[run.life]
        until = min(_end(life), before)
        for span in self._disturbances.silences(life.node):
            if span.began <= run.ended + LEASE_S and run.began <= span.ended + MARGIN_S:
                return False
        quiet_s = self._disturbances.quiet_s(life.node, run.ended, until)
        if life.how == "stopped" and until == life.ended:  # it settles everything before it ends
            return quiet_s >= until - run.ended >= 0
        return quiet_s >= SETTLE_S

    def quiet_s(self, run: Run, start: float, end: float) -> float:
        """How much of this time its process was undisturbed."""
        return self._disturbances.quiet_s(self._lives[run.life].node, start, end)

    def outage_s(self, start: float, end: float) -> float:
        return self._disturbances.outage_s(start, end)

    def outlasted(self, run: Run) -> bool:
        """Whether it ran, in a process that lived, from before an outage for all until after it."""
        return any(
            run.began < outage.began and outage.ended < min(run.ended, self.end_of(run))
            for outage in self._disturbances.outages()
        )

    def end_of(self, run: Run) -> float:
        """When its process has ended."""
        return _end(self._lives[run.life])

    def losses(self, run: Run, of_block: bool = False) -> Iterator[tuple[float, str]]:
        """From when on others may have had what this run holds, and why. No process need tell that it lost the place of
        a block, and it gives none back before it ends."""
        life = self._lives[run.life]
        for span in self._disturbances.silences(life.node) if of_block else self._lost_leases(life):
            if run.began <= span.ended and span.began <= run.ended:
                yield max(run.began, span.began + LEASE_S - MARGIN_S), "lease lost"
        if not of_block and run.ended > life.asked_to_stop + STOP_TIMEOUT_S:
            yield life.asked_to_stop + STOP_TIMEOUT_S, "given back at a stop"

    def is_begun_after_a_long_pause(self, run: Run) -> bool:
        """Its job may be another process's by then."""
        return self._by_a_pause(run) is not None

    def is_refused_since(self, start: float) -> bool:
        """Whether the server has refused a command to all since then."""
        return self.is_refused_between(start, math.inf)

    def is_refused_between(self, start: float, end: float) -> bool:
        return self._disturbances.any_of(DENIED, start, end)

    def is_begun_after_a_pause(self, run: Run) -> bool:
        kinds = (SHORTLY, LONG, STANDSTILL)
        return self._disturbances.just_woken(self._lives[run.life].node, run.began, kinds)

    def _by_its_end(self, first: Run, second: Run) -> str | None:
        life = self._lives[first.life]
        if life.how in KILLED and first.began <= life.ended and _end(life) <= second.began:
            if first.ended == math.inf:
                return f"{life.how} while it ran"
            return f"{life.how} before it was settled" if self._unsettled(first, _end(life)) else None
        if life.how == "stopped" and first.began <= life.ended and life.asked_to_stop <= second.began:
            late = first.ended > life.asked_to_stop  # it goes back before its process ends
            return "given back at a stop" if late or self._unsettled(first, life.ended) else None
        return None

    def _by_its_lease(self, first: Run, second: Run) -> str | None:
        life = self._lives[first.life]
        for span in self._lost_leases(life):
            in_time = first.began <= span.ended and span.began + LEASE_S - MARGIN_S <= second.began
            if in_time and self._unsettled(first, span.began):
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
            if any(span.began <= death <= span.noticed for death in self._deaths.get(life.number, ()))
            or span.began <= life.ended <= span.noticed
        ]

    def why_convicted(self, jid: str, pid: int, runs: Sequence[Run]) -> str | None:
        """`pid`: of the process whose death convicted it. None where it should not have been."""
        for life in self._lives.values():
            if life.pid != pid:
                continue
            others = [run for run in runs if run.life == life.number and run.jid != jid]
            alone = all(run.ended < math.inf or run.interrupted for run in others)
            if alone and is_killer(jid):
                return "killer"
            if alone and life.how == "killed":
                return "killed by a monkey"
            mine = [run for run in runs if run.jid == jid and run.life == life.number]
            if any(
                run.began <= span.ended and span.began <= run.ended for span in self._lost_leases(life) for run in mine
            ):
                return "lease lost while it ran"
        return None

    def lives_declared_dead_without_a_reason(self) -> list[str]:
        return [
            f"declared dead at {death:.1f} though nothing had kept it silent: {self._lives[number]}"
            for number, deaths in self._deaths.items()
            for death in deaths
            if not self._silent_before(death, self._lives[number].node)
        ]

    def refused_at_its_start(self, life: Life, runs: Sequence[Run]) -> bool:
        """A process that is denied a command of its first beat says so and ends; it has not run anything."""
        denied = self._disturbances.any_of(DENIED, life.began, life.ended)
        return denied and all(run.life != life.number for run in runs)

    def _silent_before(self, death: float, node: str) -> bool:
        return any(span.began <= death <= span.noticed for span in self._disturbances.silences(node))

    def _unsettled(self, run: Run, at: float) -> bool:
        """The server need not have been told of its end by then."""
        return run.ended >= at or self._disturbances.quiet_s(self._lives[run.life].node, run.ended, at) < SETTLE_S
