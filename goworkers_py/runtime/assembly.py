"""Builds all parts of a daemon, and starts none of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.config.partitions import place_of_broker
from goworkers_py.core.clock import Clock
from goworkers_py.core.command import Obey
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.fence import Term
from goworkers_py.core.outcome import Outcome
from goworkers_py.features import FEATURES
from goworkers_py.features.in_process import InProcess, WorkerProcess
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.runtime.alive.health import Health
from goworkers_py.runtime.alive.health_handlers import HealthHandlers
from goworkers_py.runtime.alive.heartbeat import Heartbeat
from goworkers_py.runtime.alive.lease import FencedLease, Lease
from goworkers_py.runtime.alive.reporter import Reporter
from goworkers_py.runtime.controls import Controls
from goworkers_py.runtime.fetching.pauses import Pauses
from goworkers_py.runtime.lane import lane_of
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.recovering.lost_jobs import LostJobs
from goworkers_py.runtime.recovering.recoverer import Recoverer, judge_by, recovering
from goworkers_py.runtime.run_state import RunState
from goworkers_py.runtime.running.guard import RunSuspect
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.run_ends import RunEnds
from goworkers_py.runtime.running.stuck_jobs import StuckJobs
from goworkers_py.runtime.running.watchdog import Watchdog
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.runtime.scheduling.relay import Relay
from goworkers_py.runtime.scheduling.scheduler import Scheduler
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.services import Services
from goworkers_py.runtime.settling.settlement import Settlement
from goworkers_py.runtime.settling.settler import Settler
from goworkers_py.runtime.shared import Shared
from goworkers_py.wire.message import Message, Timestamps

NEEDED = (Capability.DELAYS, Capability.STORE, Capability.LEASES, Capability.CONTROL)
# Of a queue service that delivers jobs again by itself.
NEEDED_OF_SERVICE = (Capability.DELAYS,)


def _needed(plan: Plan, broker: Broker) -> list[Capability]:
    config = plan.config
    for_several = [Capability.SHARED] if config.needs_a_parent else []
    for_pages = [Capability.ADMIN] if config.stats_port else []
    needed = NEEDED_OF_SERVICE if broker.redelivers else NEEDED
    return [*needed, *for_several, *for_pages]


def assemble(
    plan: Plan,
    broker: Broker,
    clock: Clock,
    hints: DueHints,
    obey: Obey | None = None,
    on_quiet_asked: Callable[[], None] | None = None,
) -> Launcher:
    """`obey` receives the commands of the fleet, and of this process to itself. None where the process is part of
    another program. `on_quiet_asked`: see `Launcher`."""
    broker.require(*_needed(plan, broker))
    if broker.redelivers:  # and lacks some parts
        from goworkers_py.brokers.absent import completed

        broker = completed(broker)
    return _Assembly(plan, broker, clock, hints, obey, on_quiet_asked).launcher


class _Assembly:
    """The parts of one daemon, in the order in which they are built. A part that needs a later one gets a function that
    asks for it, and calls it only when all parts are there."""

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        clock: Clock,
        hints: DueHints,
        obey: Obey | None,
        on_quiet_asked: Callable[[], None] | None,
    ) -> None:
        self._plan, self._config, self._broker, self._hints = plan, plan.config, broker, hints
        self._obey = obey
        self._poison = PoisonPolicy.of(plan.config)
        self._shared = self._share(clock)
        self._relay = Relay(broker.store, plan.destinations, self._shared.outage)
        self._by_feature, self._ends = self._parts_of_features()
        self._parts = [*self._by_feature.values()]
        stuck_jobs = StuckJobs(plan.config, self._shared, lambda: self._managers, obey)
        self._watchdog = Watchdog(plan.config.stuck_grace, stuck_jobs.found, look_after=lambda: self.launcher.revive())
        self._run_suspect = self._suspects_run_by()
        self._managers = [self._manager(Pool(config, plan.config.partition)) for config in plan.pools]
        self._health = Health(self._managers, self._watchdog, self._vital, self._shared, self._running_figures)
        commands = [name for part in self._parts for name in part.answers()]
        reporter = Reporter(broker.control, plan.config, self._health, self._shared, obey, commands)
        lost = LostJobs(broker, self._shared.lease, self._running, plan.registry)
        self._heartbeat = Heartbeat(broker.recoverable, self._shared, reporter, plan.config.timing, lost.look)
        services = self._services()
        if plan.config.partition:
            for service in (self._heartbeat, *services):
                service.name_partition(plan.config.partition)
        self.launcher = Launcher(
            plan, broker, self._managers, services, self._health, reporter, self._shared, self._parts, on_quiet_asked
        )

    def _share(self, clock: Clock) -> Shared:
        """The small things that all threads share."""
        fresh_s, fence = self._config.timing.lease_fresh_s, self._broker.fence
        lease = Lease(fresh_s) if fence is None else FencedLease(fresh_s, fence)
        partition = self._config.partition
        of = f"{self._broker.name} of partition {partition}" if partition else self._broker.name
        outage = Outage(of, HealthHandlers(self._plan.on_health), place_of_broker(self._config))
        quarantine = Quarantine(
            self._poison,
            lease,
            clock,
            beat=lambda: self._heartbeat.beat(),
            others_run=lambda delivery: any(other is not delivery for other in self._running()),
            give_back_waiting=lambda: _give_back_waiting(self._managers),
        )
        return Shared(clock, lease, outage, Counters(), quarantine, RunState())

    def _running(self) -> Collection[Delivery]:
        return self._health.running.values()

    def _vital(self) -> list[BrokerService]:
        return [self._heartbeat, *(manager.fetches for manager in self._managers)]

    def _parts_of_features(self) -> tuple[dict[str, InProcess], RunEnds]:
        return parts_of_features(
            self._plan, self._broker, self._shared, self._running, obey=self._obey, controls=lambda: self.launcher
        )

    def _running_figures(self) -> dict[str, dict[str, int]]:
        return {name: dict(figures) for name, part in self._by_feature.items() if (figures := part.running())}

    def _manager(self, pool: Pool) -> Manager:
        transport, shared = self._broker.transport, self._shared
        on_later, on_posted = self._hints.scheduled, self._relay.wake
        plan, timestamps = self._plan, Timestamps(self._config.timestamps)
        if (fence := self._broker.fence) is not None:
            plan = replace(plan, term=Term(fence, self._broker))
        lanes = [
            lane_of(plan, pool, queue, self._watchdog, shared, self._by_feature, self._ends, self._run_suspect)
            for queue in pool.queues
        ]
        settlement = Settlement(transport, pool, shared, on_later, on_posted, self._parts, timestamps)
        if pool.serial:
            from goworkers_py.runtime.serial_manager import SerialManager
            from goworkers_py.runtime.settling.serial_settler import SerialSettler

            return SerialManager(pool, lanes, SerialSettler(settlement, pool, shared), transport, shared)
        return Manager(pool, lanes, Settler(settlement, pool, shared), transport, shared)

    def _suspects_run_by(self) -> RunSuspect:
        shared, handlers = self._shared, self._plan.handlers
        if (clues := self._broker.death_clues) is None:
            return shared.quarantine.run
        from goworkers_py.runtime.running.runs_with_clues import RunsWithClues

        return RunsWithClues(clues, self._poison, shared.quarantine, handlers, shared.counters, shared.clock).run

    def _services(self) -> Services:
        broker, outage = self._broker, self._shared.outage
        switches = {queue: partial(manager.set_paused, queue) for manager in self._managers for queue in manager.queues}
        return Services(
            heartbeat=self._heartbeat,
            recoverer=self._recoverer(),
            watchdog=self._watchdog,
            pauses=Pauses(broker.transport, switches, outage),
            scheduler=Scheduler(broker.store, self._config, self._hints, self._shared.clock, outage),
            relay=self._relay,
            of_features=[service for part in self._parts for service in part.services()],
        )

    def _recoverer(self) -> Recoverer:
        wall, plan = self._shared.clock.wall, self._plan
        judge = judge_by(self._poison, recovering(plan.registry, plan.config, wall), wall)
        on_recovered = [part.owner_died for part in self._parts]
        recoverable = self._broker.recoverable
        return Recoverer(
            recoverable, self._heartbeat, judge, plan.handlers, self._shared, self._config.timing, on_recovered
        )


def parts_of_features(
    plan: Plan,
    broker: Broker,
    shared: Shared,
    running: Callable[[], Iterable[Delivery]],
    is_stopping: Callable[[], bool] | None = None,
    of_code: Broker | None = None,
    obey: Obey | None = None,
    controls: Callable[[], Controls] | None = None,
) -> tuple[dict[str, InProcess], RunEnds]:
    """The parts of all features in a process, by the feature, and what they make of the ends of runs. `is_stopping`,
    `of_code`: None where no test looks. `obey`, `controls`: see `WorkerProcess`."""

    parts: dict[str, InProcess] = {}

    def ended(message: Message, outcome: Outcome) -> Outcome:
        return ends.finished(message, outcome)

    def shown(deliveries: Iterable[Delivery]) -> None:
        for part in parts.values():
            part.shown(deliveries)

    stops = is_stopping or (lambda: shared.state.quiet)
    process = WorkerProcess(
        plan, broker, shared, running, ended, shown, stops, parts, of_code or broker, obey, controls
    )
    for feature in FEATURES:
        if (part := feature.in_process(process)) is not None:
            parts[feature.name] = part
    ends = RunEnds(parts, shared.clock.wall)
    return parts, ends


def _give_back_waiting(managers: Sequence[Manager]) -> None:
    for manager in managers:
        manager.give_back_waiting()
