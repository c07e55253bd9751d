"""One run of the fleet from a seed: phases of work with faults, nights without any process, and the judgement."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import simplejson

from goworkers_py.api import destinations
from goworkers_py.core import machine, strikes
from goworkers_py.core.errors import ArgumentError, BrokerError, LimitTimeout
from goworkers_py.features.unique import service as lock_keeper
from goworkers_py.runtime.fetching import pauses
from simulation import strangers, traits
from simulation.faults import CHANCES, Faults
from simulation.fleet import Fleet, Member
from simulation.jobs import TICKS_S
from simulation.judge import Judge
from simulation.kernel import Kernel, Killed
from simulation.ledger import Promise
from simulation.machine import simulated
from simulation.redis_server import SimulatedRedis
from simulation.server import MemoryServer, Server
from simulation.wire_line import on_wires

# Loops that ask far more often than a simulated job lasts would take most of the time of a run.
_SLOWER = ((pauses, "LOOK_EVERY_S", 5.0), (lock_keeper, "LOOK_EVERY_S", 5.0))
SERVERS: Mapping[str, Callable[[Kernel], Server]] = {"memory": MemoryServer, "redis": SimulatedRedis}
STOPS_WITHIN_S = 120.0
QUIET_WITHIN_S = 2 * 3600.0  # after the last fault, all jobs have ended


@dataclass(frozen=True)
class Script:
    """What a run does, all of it from the seed. Shrinking takes parts of it away."""

    seed: int
    days: int = 1
    work_s: float = 900.0
    night_s: float = 0.0
    daemons: int = 3
    producers: int = 2
    jobs_per_minute: float = 8.0
    faults_per_minute: float = 0.6
    preempts: float = 0.0
    strangers: float = 0.08  # the share of the pushes that are by programs in other languages
    server: str = "memory"  # one of SERVERS
    barred: tuple[str, ...] = ()  # traits that no job has
    faults: tuple[str, ...] | None = None  # the kinds that happen; None: all

    @classmethod
    def of(cls, seed: int, server: str = "memory") -> Script:
        """Most runs have only some traits and some faults, so that those meet more often."""
        dice = random.Random(f"script {seed}")
        narrow = dice.random() < 0.7
        return cls(
            seed,
            days=1 + int(dice.random() * 3),
            work_s=150 + dice.random() * 350,
            night_s=dice.random() ** 2 * 72 * 3600,
            daemons=1 + int(dice.random() * 3),
            jobs_per_minute=5 + dice.random() * 45,
            faults_per_minute=dice.random() * 4,
            preempts=(0.0, 0.0, 0.02, 0.2)[int(dice.random() * 4)],
            strangers=(0.03, 0.1, 0.4)[int(dice.random() * 3)],
            server=server,
            barred=tuple(trait for trait in traits.TRAITS if narrow and dice.random() < 0.65),
            faults=tuple(kind for kind in CHANCES if not narrow or dice.random() < 0.4),
        )

    def as_json(self) -> str:
        return simplejson.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Script:
        read = simplejson.loads(text)
        faults = read.pop("faults")
        return cls(**{**read, "barred": tuple(read["barred"])}, faults=None if faults is None else tuple(faults))


@dataclass
class Outcome:
    script: Script
    complaints: list[str] = field(default_factory=list)
    hours: float = 0.0
    working_hours: float = 0.0  # without the nights
    steps: int = 0
    jobs: int = 0
    runs: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    checksum: int = 0

    def __str__(self) -> str:
        return (
            f"{self.hours:.1f} hours, {self.steps} steps, {self.jobs} jobs, {self.runs} runs, "
            f"{sum(self.faults.values())} faults, checksum {self.checksum:08x}"
        )


def simulate(script: Script, trace: Callable[[str], object] | None = None) -> Outcome:
    kernel = Kernel(f"run {script.seed}")
    kernel.trace = trace
    with _own_world(kernel) as alarms:
        run = _Run(kernel, script)
        try:
            run.all_days()
            complaints = Judge(run.fleet).complaints()
        finally:
            run.end()
        ledger = run.fleet.ledger
        return Outcome(
            script,
            [*alarms, *complaints],
            kernel.now / 3600,
            (kernel.now - run.slept_s) / 3600,
            kernel.steps,
            len(ledger.promises),
            sum(len(promise.runs) for promise in ledger.promises),
            run.faults.counts,
            kernel.checksum,
        )


class _Run:
    def __init__(self, kernel: Kernel, script: Script) -> None:
        self.kernel, self.script, self.dice = kernel, script, kernel.random
        kernel.preempts = script.preempts
        self.fleet = Fleet(kernel, SERVERS[script.server](kernel), script.daemons, script.producers)
        self.works, self.day_ends, self.slept_s = False, 0.0, 0.0
        self.faults = Faults(self.fleet, self._put_to_work, script.faults)

    def all_days(self) -> None:
        for day in range(self.script.days):
            if day and self.script.night_s:
                self._night()
            self._day()
        self._until_quiet()
        self.kernel.run(lambda: False, 3 * TICKS_S)
        self.fleet.sleeps = True
        self.fleet.terminate_all()
        if not self.kernel.run(lambda: not self.fleet.daemons, STOPS_WITHIN_S):
            self.kernel.failures += [f"{daemon.process} does not stop" for daemon in self.fleet.daemons]

    def _day(self) -> None:
        self.works, self.day_ends = True, self.kernel.now + self.script.work_s
        self.fleet.start_all()
        for producer in self.fleet.producers:
            self._put_to_work(producer)
        self._next_fault()
        self.kernel.run(lambda: False, self.script.work_s)
        self.works = False
        self.fleet.calm()

    def _put_to_work(self, producer: Member) -> None:
        producer.spawn("producer", lambda: self._produce(producer))

    def _next_fault(self) -> None:
        if not self.script.faults_per_minute:
            return

        def strike() -> None:
            if self.works and self.kernel.now < self.day_ends:
                self.faults.strike()
                self._next_fault()

        self.kernel.after(self.dice.expovariate(self.script.faults_per_minute / 60), strike)

    def _night(self) -> None:
        """All daemons end, some of them by a kill. The clocks go on."""
        self.fleet.sleeps = True
        for daemon in list(self.fleet.daemons):
            if self.dice.random() < 0.5:
                self.fleet.kill(daemon)
            else:
                daemon.terminate()
        self.kernel.run(lambda: not self.fleet.daemons, 120)
        for daemon in list(self.fleet.daemons):
            self.fleet.kill(daemon)
        self.kernel.run(lambda: False, self.script.night_s)
        self.slept_s += self.script.night_s

    def _produce(self, producer: Member) -> None:
        while True:
            machine.sleep(self.dice.expovariate(self.script.jobs_per_minute / self.script.producers / 60))
            if self.kernel.now >= self.day_ends:
                return
            try:
                self._push(producer)
            except (BrokerError, ArgumentError, LimitTimeout):
                continue

    def _push(self, producer: Member) -> None:
        dice, jobs, ledger = self.dice, producer.jobs, self.fleet.ledger
        if dice.random() < 0.08:
            limit = ("crowd", "keyed", "wide")[int(dice.random() * 3)]
            jobs.block(limit, traits.KEYS[int(dice.random() * 3)], dice.random() ** 2 * 120, 600.0)
            return
        if dice.random() < self.script.strangers:
            strangers.push(dice, self.fleet)
            return
        barred = set(self.script.barred)
        unfinished = [promise for promise in ledger.promises[-12:] if promise.jid and not promise.ended_well]
        like = unfinished[int(dice.random() * len(unfinished))] if unfinished else None
        first = traits.draw(dice, ledger, self.fleet.server.time(), barred, like)
        within = next((place for place in ("batch", "chain") if place in first.traits), "")
        if not within:
            jobs.push(first)
        else:
            barred |= {"batch", "chain", "group"}
            if within == "chain":
                barred |= traits.NOT_IN_CHAINS
            more = 1 + int(dice.random() * 3)
            others = [traits.draw(dice, ledger, self.fleet.server.time(), barred) for _ in range(more)]
            jobs.push_all([first, *others], within)
        if "cancelled" in first.traits and first.jid:
            producer.spawn("canceller", lambda: self._cancel(producer, first))

    def _cancel(self, producer: Member, promise: Promise) -> None:
        machine.sleep(self.dice.random() * 60)
        promise.cancelled = self.kernel.now
        try:
            producer.app.cancel(promise.jid)
        except BrokerError:
            return

    def _until_quiet(self) -> None:
        self.fleet.calm()
        self.fleet.server.fill(False)
        self.kernel.run(self._is_quiet, QUIET_WITHIN_S)

    def _is_quiet(self) -> bool:
        self.fleet.start_all()  # a daemon may have been about to end
        return self.fleet.server.contents().is_quiet

    def end(self) -> None:
        for member in self.fleet.everybody:
            member.process.kill()
        self.fleet.server.close()


class _Alarms(logging.Handler):
    """A CRITICAL line is a fault in the product's own code."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, Killed):  # the thread unwinds
            return
        self.lines.append(record.getMessage() + (f": {error!r}" if error is not None else ""))


@contextmanager
def _own_world(kernel: Kernel) -> Iterator[list[str]]:
    log, alarms = logging.getLogger("goworkers_py"), _Alarms()
    before = [(module, name, getattr(module, name)) for module, name, _ in _SLOWER]
    level = log.level
    strikes._targets.clear()
    for module, name, seconds in _SLOWER:
        setattr(module, name, seconds)
    log.addHandler(alarms)
    if level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)
    known, destinations._APPS[:] = destinations._APPS[:], []
    gc.disable()  # it would look through all objects of a run again and again
    try:
        with simulated(kernel), on_wires(kernel):
            yield alarms.lines
    finally:
        gc.enable()
        destinations._APPS[:] = known
        log.removeHandler(alarms)
        log.setLevel(level)
        for module, name, value in before:
            setattr(module, name, value)
