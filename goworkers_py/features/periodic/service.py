"""The thread that fires periodic jobs. Each process with periodic jobs has one, and all of them fire at the same slots:
the broker settles each slot once, see `features.periodic.contract`.

It registers its schedules every few seconds, so that it notices what people have changed, and sleeps until the next
slot. An error of one schedule (from a function for its arguments, a client link, a queue that the broker refuses)
does not keep the others from firing: that schedule is tried again in the next look.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from goworkers_py.brokers.broker import Broker
from goworkers_py.core import machine
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.holder import Holder
from goworkers_py.features.in_process import InProcess, WorkerProcess
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import args_of, fields_of, rule_of
from goworkers_py.features.periodic.schedule import (
    Fired,
    Firing,
    FiringResult,
    PeriodicJob,
    PeriodicJobs,
    Rule,
    ScheduleState,
)
from goworkers_py.features.periodic.slots import Due, due, slots_of
from goworkers_py.features.unique.holders import LockHolders
from goworkers_py.observe.counters import Counters
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

LOOK_EVERY_S = 3.0
# After a slot that another process was quicker to settle.
SHORTEST_SLEEP_S = 0.005
# So many schedules are registered in one step.
AT_ONCE = 200


class PeriodicPushes(InProcess):
    def __init__(self, process: WorkerProcess, jobs: PeriodicJobs) -> None:
        """Raises ConfigError where the broker has no schedules."""
        process.broker.require_part(Periodic)
        self._process, self._jobs = process, jobs

    def services(self) -> Sequence[BrokerService]:
        shared = self._process.shared
        return [Firer(self._process.broker, self._jobs, shared.counters, shared.outage)]


class Firer(BrokerService):
    def __init__(self, broker: Broker, periodic: PeriodicJobs, counters: Counters, outage: Outage) -> None:
        super().__init__("periodic", outage)
        self._periodic = broker.require_part(Periodic)
        self._holders = LockHolders(broker)
        self._release, self._jobs = periodic.release, periodic.jobs
        self._counters = counters
        self._slots_of = lru_cache(maxsize=1_000)(slots_of)
        self._now = 0.0  # the time of the last look
        self._last_errors = dict[str, str]()  # the last error of a schedule, by its name
        self._replaced = set[str]()  # schedules instead of which others are in force
        self._newer: str | None = None  # the newer generation that was logged last

    def run(self) -> None:
        source, generation = self._release
        names = ", ".join(job.schedule.name for job in self._jobs)
        log.info("periodic jobs of %s%s: %s", source, f", generation {generation}" if generation else "", names)
        super().run()

    def run_once(self) -> float:
        look_s = LOOK_EVERY_S * machine.random.uniform(0.75, 1.25)  # a fleet must not look in step
        next_s = [self._look(self._jobs[start : start + AT_ONCE]) for start in range(0, len(self._jobs), AT_ONCE)]
        return max(SHORTEST_SLEEP_S, min([look_s, *next_s]))

    def _look(self, jobs: Sequence[PeriodicJob]) -> float:
        """Fires what is due; returns in how many seconds the next slot is."""
        registered = self._periodic.register(self._release, [job.schedule for job in jobs])
        asked_at, self._now = machine.monotonic(), registered.now
        self._tell_of_newer(registered.newer)
        states = zip(jobs, registered.states, strict=registered.newer is None)
        next_at = [self._look_at(job, state, registered.now) for job, state in states if self._may_fire(job, state)]
        return min(next_at, default=math.inf) - registered.now - (machine.monotonic() - asked_at)

    def _may_fire(self, job: PeriodicJob, state: ScheduleState) -> bool:
        name = job.schedule.name
        if state.in_force:
            self._replaced.discard(name)
        elif name not in self._replaced:
            self._replaced.add(name)
            log.warning("periodic job %s does not fire here: %s", name, _NEWER if state.number else _UNUSABLE)
        return state.in_force and not self.stopping.is_set()

    def _look_at(self, job: PeriodicJob, state: ScheduleState, now: float) -> float:
        """When this schedule is to be looked at again."""
        name = job.schedule.name
        try:
            with suppress(_Changed):
                next_at = self._fire_due(job, state, now)
                self._recovered(name)
                return next_at
            return now  # at once
        except BrokerUnavailable:
            raise
        except BrokerRefused as error:
            self._outage.failed(f"{self.name}:{name}", error)
        except Exception as error:  # of the user's code
            if self._last_errors.get(name) != repr(error):
                log.exception("periodic job %s cannot be pushed, tried again every few seconds", name)
            self._last_errors[name] = repr(error)
        return math.inf  # the next look comes in any case

    def _fire_due(self, job: PeriodicJob, state: ScheduleState, now: float) -> float:
        found = Due()
        if not state.paused:
            found = due(self._slots_of(self._rule(job, state)), state.since, now, job.catch_up)
        for number, firing in enumerate(_firings(job.schedule.name, state, found, now), state.number):
            self._settle(job, firing._replace(number=number), args_of(fields_of(state.override)))
            if self.stopping.is_set():
                break
        return found.next

    def _rule(self, job: PeriodicJob, state: ScheduleState) -> Rule:
        return rule_of(fields_of(state.override)) or job.schedule.rule

    def _settle(self, job: PeriodicJob, firing: Firing, args: list[Any] | None) -> None:
        if firing.word != "missed":
            drafted = job.draft(firing.slot, args)
            jid, push = drafted or ("", None)
            firing = firing._replace(word=firing.word if push else "stopped", jid=jid, push=push)
        result = self._periodic.fire(self._release, firing)
        if result.holder is not None and firing.push is not None:
            result = self._periodic.fire(self._release, self._beside(firing, firing.push, result.holder))
        if result.fired is not Fired.DONE:
            raise _Changed
        self._tell(firing, result)

    def _beside(self, firing: Firing, push: Push, holder: Holder) -> Firing:
        """The firing again, when another job holds its lock. A job that is in no place any more does not count."""
        return firing._replace(push=self._holders.past(push, holder), skips=True)

    # --- telling

    def _tell(self, firing: Firing, result: FiringResult) -> None:
        name, word = firing.name, result.word
        if word in ("fired", "asked"):
            self._counters.add("periodic_fired")
            self._counters.add("periodic_late_seconds", max(0.0, self._now - firing.slot))
            log.info("periodic job %s: pushed job %s%s", name, firing.jid, " by hand" if word == "asked" else "")
        else:
            self._counters.add("periodic_skipped")
            log.info("periodic job %s: not pushed: %s", name, _WHY.get(word or "", word))
        if firing.missed_from is not None:
            log.warning(
                "periodic job %s: its slots from %.0f to %.0f (epoch seconds) were missed",
                name,
                firing.missed_from,
                firing.slot,
            )

    def _tell_of_newer(self, newer: str | None) -> None:
        if newer is not None and newer != self._newer:
            log.warning(
                "periodic jobs of %s: generation %s is newer than %s, so this process fires none of them",
                self._release.source,
                newer,
                self._release.generation or "none",
            )
        self._newer = newer

    def _recovered(self, name: str) -> None:
        self._outage.recovered(f"{self.name}:{name}")
        self._last_errors.pop(name, None)


_NEWER = (
    "another process has a newer schedule of this source and name, which fires instead; two applications need a "
    "`source` each"
)
_UNUSABLE = (
    "its record is damaged, or of a newer release of pyworkers: upgrade, or delete it with `pyworkers periodic forget`"
)


class _Changed(Exception):
    """Another process was quicker, or people have changed the schedule: look again."""


_WHY = {
    "skipped": "the job of an earlier slot holds its lock",
    "replaced": "a job that waits has got its arguments",
    "missed": "its slots were missed",
    "stopped": "a client link has stopped it",
}


def _firings(name: str, state: ScheduleState, found: Due, now: float) -> Iterator[Firing]:
    """In order; their numbers are still to be set."""
    for _ in range(state.asked):
        yield Firing(name, 0, now, "asked", asked=True)
    missed_from = found.missed[0] if found.missed else None
    if found.missed and not found.fire:
        yield Firing(name, 0, found.missed[1], "missed", missed_from=missed_from)
    for slot in found.fire:
        yield Firing(name, 0, slot, "fired", missed_from=missed_from)
