"""Builds all parts of a daemon in one function, and starts none of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.clock import Clock
from goworkers_py.core.command import Obey
from goworkers_py.core.levels import base_of
from goworkers_py.links.aggregate import aggregate
from goworkers_py.links.atomic import AtomicFinish
from goworkers_py.links.chain import Run, adapt, wrap_all
from goworkers_py.links.expiry import Expiry
from goworkers_py.links.iterate import BeginIteration, begin_iteration
from goworkers_py.links.log import log_runs
from goworkers_py.links.perform import perform
from goworkers_py.links.retry import RetryLink
from goworkers_py.links.stats import stats
from goworkers_py.links.time_limit import Watch, time_limit
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.aggregates import Aggregates
from goworkers_py.policy.for_ruby import ForRuby
from goworkers_py.policy.limiting import Limiting
from goworkers_py.policy.needs import Needs
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.policy.tracking import Tracking
from goworkers_py.runtime.canceller import Canceller
from goworkers_py.runtime.due_hints import DueHints
from goworkers_py.runtime.firer import Firer
from goworkers_py.runtime.group_flusher import GroupFlusher
from goworkers_py.runtime.group_members import GroupMembers
from goworkers_py.runtime.guard import Guard
from goworkers_py.runtime.health import Health
from goworkers_py.runtime.health_handlers import HealthHandlers
from goworkers_py.runtime.heartbeat import Heartbeat
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.launcher import Launcher, Services
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.limit_begin import LimitBegin
from goworkers_py.runtime.limit_releaser import LimitReleaser
from goworkers_py.runtime.lock_begin import LockBegin
from goworkers_py.runtime.lock_keeper import LockKeeper
from goworkers_py.runtime.lost_jobs import lost_jobs
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.pauses import Pauses
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.recoverer import Recoverer, judge_by
from goworkers_py.runtime.relay import Relay
from goworkers_py.runtime.reporter import Reporter
from goworkers_py.runtime.ruby_jobs import RubyJobs
from goworkers_py.runtime.run_state import RunState
from goworkers_py.runtime.scheduler import Scheduler
from goworkers_py.runtime.settler import Settler
from goworkers_py.runtime.shared import Shared
from goworkers_py.runtime.special_runs import RunTies, SpecialRuns
from goworkers_py.runtime.stuck_jobs import StuckJobs
from goworkers_py.runtime.tracker import Tracker
from goworkers_py.runtime.watchdog import Watchdog
from goworkers_py.wire.message import Timestamps

NEEDED = (Capability.DELAYS, Capability.LEASES, Capability.CONTROL)


def _needed(plan: Plan) -> list[Capability]:
    config = plan.config
    for_periodic = [Capability.PERIODIC] if plan.periodic.jobs else []
    for_several = [Capability.SHARED] if config.needs_a_parent else []
    for_pages = [Capability.ADMIN] if config.stats_port else []
    return [*NEEDED, *for_several, *for_pages, *for_periodic]


def assemble(plan: Plan, broker: Broker, clock: Clock, hints: DueHints, obey: Obey | None = None) -> Launcher:
    """`obey` receives the commands of the fleet, and of this process to itself. None where the process is part of
    another program."""
    broker.require(*_needed(plan))
    config = plan.config
    poison = PoisonPolicy.of(config)
    lease, outage = Lease(config.timing.lease_fresh_s), Outage(broker.name, HealthHandlers(plan.on_health))
    quarantine = Quarantine(
        poison,
        lease,
        clock,
        beat=lambda: heartbeat.beat(),
        others_run=lambda delivery: any(other is not delivery for other in health.running.values()),
        give_back_waiting=lambda: _give_back_waiting(managers),
    )
    shared = Shared(clock, lease, outage, Counters(), quarantine, RunState())
    relay = Relay(broker.store, plan.destinations, outage)
    tracking = Tracking(plan.registry, config, clock.wall)
    tracker = Tracker(broker.store, tracking, lambda: health.running.values(), outage)
    lost = partial(lost_jobs, broker, lease)
    canceller = Canceller(broker.cancels, plan.registry, plan.handlers, lambda: health.running.values(), outage, lost)
    iterate = begin_iteration(broker.store, lambda: shared.state.quiet, clock.wall)
    for_ruby, timestamps = ForRuby.of(config.echo), Timestamps(config.timestamps)
    ruby = RubyJobs(for_ruby, broker.neighbours, timestamps, clock.wall) if for_ruby else None
    members = GroupMembers(broker, plan.registry, canceller, clock.wall)
    limiting = Limiting(plan.registry, config)
    limit_begin = LimitBegin(broker, limiting, tracking, clock.wall)
    ties = RunTies(LockBegin(broker, clock.wall), members, limit_begin, ruby)
    special_runs = SpecialRuns(tracker, canceller, iterate, ties, clock.wall)
    scheduler = Scheduler(broker.store, config, hints, clock, outage)
    stuck_jobs = StuckJobs(config, shared, lambda: managers, obey)
    watchdog = Watchdog(config.stuck_grace, stuck_jobs.found, look_after=lambda: launcher.revive())

    def manager_of(pool: Pool) -> Manager:
        settler = Settler(broker.transport, pool, shared, on_later=hints.scheduled, on_posted=relay.wake)
        lanes = [lane_of(plan, pool, queue, watchdog, shared, special_runs) for queue in pool.queues]
        return Manager(pool, lanes, settler, broker.transport, shared)

    managers = [manager_of(Pool(config)) for config in plan.pools]
    health = Health(managers, watchdog, lambda: [heartbeat, *(manager.fetcher for manager in managers)], shared)
    health.limited = limit_begin.running
    reporter = Reporter(broker.control, config, health, shared, obey)
    heartbeat = Heartbeat(broker.recoverable, shared, reporter, config.timing)
    heartbeat.on_new_identity = canceller.wake  # it interrupts the jobs that were given to others
    locks = broker.locks if Capability.LOCKS in broker.capabilities else None
    lock_keeper = LockKeeper(locks, lambda: health.running.values(), clock.wall, outage)
    flusher = GroupFlusher(broker, plan, clock.wall, outage) if Aggregates(plan.registry).specs() else None
    releaser = LimitReleaser(broker, limiting, limit_begin.declare, outage) if limit_begin.of_any_class else None
    if releaser is not None:
        limit_begin.on_waits = releaser.look_soon
    judge = judge_by(poison, tracking, clock.wall, for_ruby)
    recoverer = Recoverer(broker.recoverable, heartbeat, judge, plan.handlers, shared, config.timing)
    if releaser is not None:
        recoverer.on_recovered = releaser.look_at_all
    switches = {queue: partial(manager.set_paused, queue) for manager in managers for queue in manager.queues}
    pauses = Pauses(broker.transport, switches, outage)
    firer = Firer(broker, plan.periodic, shared.counters, outage) if plan.periodic.jobs else None
    own = (heartbeat, recoverer, watchdog, pauses, scheduler, relay, tracker, canceller, lock_keeper, flusher)
    services = Services(*own, firer, releaser)
    launcher = Launcher(plan, broker, services, health, reporter, shared)
    return launcher


def lane_of(plan: Plan, pool: Pool, queue: str, watch: Watch, shared: Shared, runs: SpecialRuns) -> Lane:
    """The test modes run jobs through such a lane too."""
    run_stats = RunStats(plan.registry.names_in(base_of(queue)))
    chain = _chain(plan, pool, queue, run_stats, watch, shared.clock, runs.iterate)
    aggregation = _chain(plan, pool, queue, run_stats, watch, shared.clock)
    needs = Needs(Timestamps(plan.config.timestamps), shared.clock.wall)
    expiry = Expiry(plan.handlers, run_stats, shared.counters, shared.clock.wall)
    return Lane(queue, Guard(chain, needs, shared.quarantine, expiry, runs, aggregation), run_stats)


def _chain(
    plan: Plan,
    pool: Pool,
    queue: str,
    run_stats: RunStats,
    watch: Watch,
    clock: Clock,
    iterate: BeginIteration | None = None,
) -> Run:
    """The whole chain around a job of one queue, from the outermost link inwards. Without `iterate`, around the
    function that aggregates a group."""
    config, timestamps = plan.config, Timestamps(plan.config.timestamps)
    retry = RetryLink(RetryPolicy(config.max_retries, timestamps), plan.registry, plan.handlers, clock.wall)
    outer = [adapt(link) for link in plan.links.prepended]
    inner = [*plan.links.appended, *plan.queue_links.get(queue, ())]
    registry = plan.registry if iterate is not None else Aggregates(plan.registry)
    return wrap_all(
        perform(registry, AtomicFinish(config.home, timestamps, clock.wall), plan.arounds, iterate),
        [
            *([retry] if outer else []),  # for the exceptions of the user's outer links
            *outer,
            log_runs(plan.registry),
            stats(run_stats, pool.prefetch, clock.wall),
            retry,
            time_limit(plan.registry, clock, watch),
            *map(adapt, inner),
            *plan.arounds.links(),
            *([aggregate] if iterate is None else []),
        ],
    )


def _give_back_waiting(managers: Sequence[Manager]) -> None:
    for manager in managers:
        manager.give_back_waiting()
