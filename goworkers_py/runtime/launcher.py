"""Owns the Managers and the services that they share; starts and stops them in one written order."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from goworkers_py.brokers.contracts import Broker
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import Membership
from goworkers_py.brokers.redis.sidekiq_metrics import SidekiqMetrics
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.proc import resident_bytes
from goworkers_py.links.chain import Links, Middleware
from goworkers_py.links.retry import Handlers, RetryLink
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.executions import total
from goworkers_py.observe.health_report import (
    COUNTERS,
    QUIET,
    STALE_AFTER_S,
    STARTING,
    STOPPING,
    WORKING,
    HealthReport,
    QueueReport,
    all_stuck,
    not_live,
)
from goworkers_py.observe.running_jobs import shown
from goworkers_py.policy.needs import Needs
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.registry import Registry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.runtime import forks
from goworkers_py.runtime.heartbeat import Heartbeat
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.manager import Manager, Shared
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.pauses import Pauses
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.recoverer import Recoverer, report
from goworkers_py.runtime.scheduler import Scheduler
from goworkers_py.runtime.watchdog import Watchdog, Watched
from goworkers_py.wire.message import Timestamps, describe
from goworkers_py.wire.process_record import Member, ProcessSnapshot

log = logging.getLogger(__name__)

# Less than the 60 s of the lease on the server, by what a beat may need to get there.
LEASE_FRESH_S = 50.0
# Beyond the jobs' own time, for what follows them: settling, farewell.
AFTER_JOBS_S = 5.0


@dataclass(frozen=True)
class Work:
    """What the user's code brings to a daemon."""

    registry: Registry
    links: Links
    queue_links: dict[str, Sequence[Middleware]]
    handlers: Handlers
    before_start: Sequence[Callable[[], None]]
    during_drain: Sequence[Callable[[], None]]


Place = tuple[Connections, Keys]


class Launcher:
    def __init__(
        self, config: Config, queues: Sequence[QueueConfig], work: Work, broker: Broker, place: Place, clock: Clock
    ) -> None:
        self._config = config
        self._work = work
        self._broker = broker
        self._clock = clock
        self._outage = Outage()
        self._lease = Lease(LEASE_FRESH_S)
        self.counters = Counters()
        self.quiet_now = False
        self._started = False
        self._deadline: Deadline | None = None  # of the running stop
        self._in_a_hurry = False
        self._impatient = False
        timestamps = Timestamps(config.timestamps)
        self.scheduler = Scheduler(broker, config.poll_interval, timestamps, clock, self._outage)
        member = Member(clock.wall(), {queue.name: queue.concurrency for queue in queues}, config.tag)
        self._membership = Membership(*place, member)
        self._metrics = SidekiqMetrics(*place, config.metrics)
        poison = PoisonPolicy(config.poison_limit, config.poison_window, timestamps)
        self._quarantine = Quarantine(
            poison, self._lease, clock.wall, self._beat, self._others_run, self._give_back_waiting
        )
        self._heartbeat = Heartbeat(
            broker,
            self._lease,
            self._quarantine,
            self._begun_at_most,
            config.process,
            clock,
            self._outage,
            self._meet_the_fleet,
            self._trouble,
        )
        self._recoverer = Recoverer(
            broker, self._lease, self._heartbeat.proof, poison, work.handlers, self.counters, clock, self._outage
        )
        self._watchdog = Watchdog(work.registry, clock, config.stuck_grace, self._stuck, self._revive)
        self.stop_wanted: Callable[[], None] = lambda: None  # how this process is asked to stop from inside
        # What the fleet asks for goes here; None where this process is part of another program.
        self.obey: Callable[[str], None] | None = None
        self.gave_up = False  # too many jobs are stuck
        shared = Shared(
            broker=broker,
            lease=self._lease,
            registry=work.registry,
            watchdog=self._watchdog,
            quarantine=self._quarantine,
            needs=Needs(timestamps, clock.wall),
            retry=RetryLink(RetryPolicy(config.max_retries, timestamps), work.registry, work.handlers, clock.wall),
            prepended=work.links.prepended,
            appended=work.links.appended,
            counters=self.counters,
            outage=self._outage,
            on_retry=self.scheduler.hint,
            wall=clock.wall,
        )
        self.managers = [Manager(queue, work.queue_links.get(queue.name, ()), shared) for queue in queues]
        self._pauses = Pauses(broker, {manager.queue: manager.set_paused for manager in self.managers}, self._outage)

    def _meet_the_fleet(self) -> None:
        moment = ProcessSnapshot(
            running=self.running,
            quiet=self.quiet_now,
            rss=resident_bytes(),
            round_trip_s=self._heartbeat.round_trip_s,
            at=self._clock.wall(),
            embedded=self.obey is None,
        )
        for word in self._membership.meet(self.identity, moment):
            if self.obey is not None:
                self.obey(word)
        self._write_metrics()

    def _write_metrics(self) -> None:
        self._metrics.write(total(manager.tally.executions() for manager in self.managers), self._clock.wall())

    def _begun_at_most(self) -> dict[str, int]:
        return {manager.queue: manager.begun_at_most for manager in self.managers}

    def _beat(self) -> None:
        self._heartbeat.beat()

    def _others_run(self, delivery: Delivery) -> bool:
        return any(other is not delivery for other in self.running.values())

    def _give_back_waiting(self) -> None:
        for manager in self.managers:
            manager.give_back_waiting()

    def __str__(self) -> str:
        queues = ", ".join(f"{manager.queue} ({manager.concurrency} threads)" for manager in self.managers)
        return f"{self.identity} on queues {queues}"

    @property
    def identity(self) -> str:
        return self._lease.identity

    def start(self, stop_asked: threading.Event) -> bool:
        """False when `stop_asked` came before the server did. Raises BrokerRefused when the server says no."""
        try:
            return self._start(stop_asked)
        finally:
            if not self._started:
                self._recoverer.tell_of_deaths()  # nobody else will: the jobs are in the dead set already

    def _start(self, stop_asked: threading.Event) -> bool:
        if not self._register(stop_asked):
            return False
        self._heartbeat.start()  # before the hooks, which may take longer than a lease lasts
        try:
            for hook in self._work.before_start:
                hook()
        except BaseException:
            self._heartbeat.stop()
            silent = self._heartbeat.join(Deadline(AFTER_JOBS_S)) and self._heartbeat.silence(AFTER_JOBS_S)
            self._farewell(0, silent)
            raise
        forks.watch()
        self._recoverer.start()
        self._watchdog.start()
        self._pauses.start()
        self.scheduler.start()
        for manager in self.managers:
            manager.start()
        self._started = True
        self._heartbeat.beat_now()  # which says that it works
        return True

    def _register(self, stop_asked: threading.Event) -> bool:
        """The lease exists before the first fetch."""
        while not stop_asked.is_set():
            try:
                # What an earlier process on this machine left when it was killed is free at once, its name too.
                self._recover_at_start()
                self._heartbeat.beat()
                self._pauses.look()  # a paused queue is not fetched from even once
            except BrokerUnavailable as error:
                stop_asked.wait(self._outage.failed("start", error))
            else:
                self._outage.recovered("start")
                return True
        return False

    def _recover_at_start(self) -> None:
        try:
            self._recoverer.recover()
        except BrokerError:
            raise
        except Exception:  # whatever is wrong with what the dead left, it must not keep the living from starting
            log.exception("jobs of dead processes cannot be recovered now; the recoverer tries again")

    def quiet(self) -> None:
        """No new jobs; what was fetched is run to its end. There is no way back but a restart."""
        if not self.quiet_now:
            self.quiet_now = True
            for manager in self.managers:
                manager.stop_fetching()
            log.info("quiet: no new jobs are fetched")

    def hurry(self) -> None:
        """A stop, also one that is still to begin, does not wait for running jobs. From any thread."""
        self._in_a_hurry = True
        if self._deadline is not None:
            self._deadline.shorten(0)

    def lose_patience(self) -> None:
        """A stop that has begun `patiently` goes on as any other. From any thread."""
        self._impatient = True
        if self._deadline is not None:
            self._deadline.shorten(self._config.timeout)

    def look_for_the_dead(self) -> None:
        """Another process is known to have ended. From any thread."""
        self._recoverer.look_now()

    def stop(self, patiently: bool = False) -> bool:
        """The order follows the data: senders before receivers. True when nothing was left behind."""
        self._deadline = deadline = Deadline(math.inf if patiently else self._config.timeout)
        if self._in_a_hurry:
            deadline.shorten(0)
        if self._impatient:
            deadline.shorten(self._config.timeout)
        left = "all the time they need" if patiently else f"{deadline.left():.4g} s"
        log.info("stopping: running jobs have %s to finish", left)
        self._quarantine.stop()
        self._heartbeat.beat_now()  # a kill during a stop says nothing of the job
        self.quiet()
        hooks = threading.Thread(target=self._run_drain_hooks, name="during-drain", daemon=True)
        hooks.start()
        for manager in self.managers:
            manager.give_back_unstarted(deadline)
            manager.stop_workers()
        for manager in self.managers:
            manager.join_workers(deadline)
        deadline.shorten(self._config.timeout)  # the patience was for jobs, not for hooks
        while hooks.is_alive() and deadline.left() > 0:
            hooks.join(min(0.05, deadline.left()))  # in steps, because `hurry` may bring the deadline to now
        for manager in self.managers:
            _report_unfinished(manager.give_back_running())
        return self._stop_services()

    def _stop_services(self) -> bool:
        deadline = Deadline(AFTER_JOBS_S)
        services = (self.scheduler, self._recoverer, self._watchdog, self._pauses)
        for service in services:
            service.stop()
        for service in services:
            service.join(deadline)
        unsettled = sum(manager.stop_settling(deadline) for manager in self.managers)
        self._heartbeat.stop()
        silent = self._heartbeat.join(deadline) and not any(manager.fetcher.alive for manager in self.managers)
        silent = self._heartbeat.silence(AFTER_JOBS_S) and silent  # a worker whose job is not over may beat too
        return self._farewell(unsettled, silent)

    def _farewell(self, unsettled: int, silent: bool) -> bool:
        try:
            if self._outage.lasts:
                raise BrokerUnavailable("the server does not serve")
            # By now the lists are empty, but for a job that a late reply brought or that no link acknowledged.
            report(self._broker.leave(self.identity, silent), "given back at the end by")
            with suppress(BrokerUnavailable):  # nothing is owed to anybody any more
                self._write_metrics()
                self._membership.leave()
        except BrokerError as error:
            log.error("no farewell: %s; jobs that were not settled, to be recovered by others: %d", error, unsettled)
            return False
        finally:
            self._broker.close()
        return True

    @property
    def state(self) -> str:
        if self._deadline is not None:
            return STOPPING
        if self.quiet_now:
            return QUIET
        return WORKING if self._started else STARTING

    def report(self) -> HealthReport:
        """How this process does. From any thread."""
        running = self.running.values()
        busy, stuck = Counter(delivery.queue for delivery in running), self._watchdog.stuck
        loops = [self._heartbeat, *(manager.fetcher for manager in self.managers)]
        still = [f"{loop.name} stands still for {loop.still_s:.0f} s" for loop in loops if loop.still_s > STALE_AFTER_S]
        cut_off = self._started and not self._lease.fresh
        counts = dict.fromkeys(COUNTERS, 0.0) | self.counters.snapshot()
        counts["outage_seconds"] = self._outage.total_s
        return HealthReport(
            processes=1,
            state=self.state,
            stale=", ".join(still),
            cut_off=f"the server was not reached for {self._lease.silent_s:.0f} s" if cut_off else "",
            oldest_s=max([0.0, *(self._clock.wall() - delivery.begun_at for delivery in running)]),
            queues={
                manager.queue: QueueReport(
                    busy=busy[manager.queue],
                    capacity=manager.concurrency,
                    waiting=manager.waiting,
                    stuck=manager.held(stuck),
                )
                for manager in self.managers
            },
            counts=counts,
            jobs={manager.queue: manager.tally.snapshot() for manager in self.managers},
            running={manager.queue: shown(manager.running.values()) for manager in self.managers},
        )

    def _trouble(self) -> str:
        report = self.report()
        state = report["state"] if report["state"] != WORKING else ""
        return not_live(report) or state or all_stuck(report) or self._quarantine.trouble

    @property
    def running(self) -> dict[str, Delivery]:
        """By the name of the thread. From any thread."""
        return {name: delivery for manager in self.managers for name, delivery in manager.running.items()}

    @property
    def processed(self) -> int:
        return sum(manager.tally.ended for manager in self.managers)

    def _revive(self) -> None:
        """A role whose thread has died is played on."""
        for service in (self.scheduler, self._heartbeat, self._recoverer, self._pauses):
            service.revive()
        for manager in self.managers:
            manager.revive()

    def _stuck(self, watched: Watched, stuck: int) -> None:
        self.counters.add("stuck")
        manager = next(manager for manager in self.managers if manager.queue == watched.message.queue)
        if stuck <= self._config.stuck_spares and manager.replace(watched.thread.name):
            log.warning("a new worker takes the place of %s", watched.thread.name)
        # A stop that already runs must not be asked for again: that would hurry it.
        # One that waits patiently for its jobs would wait for these for ever.
        asked = self.gave_up or (self._deadline is not None and math.isfinite(self._deadline.left()))
        if self._config.stuck_exit and stuck >= self._config.stuck_exit and not asked:
            self.gave_up = True
            log.error("%d jobs are stuck: stopping, to be started again", stuck)
            self.stop_wanted()

    def _run_drain_hooks(self) -> None:
        for hook in self._work.during_drain:
            try:
                hook()
            except BaseException:  # also SystemExit: nothing may keep the drain from its end
                log.exception("a during_drain hook failed")

    @property
    def workers_alive(self) -> int:
        return sum(manager.workers_alive for manager in self.managers)


def _report_unfinished(deliveries: Sequence[Delivery]) -> None:
    for delivery in deliveries:
        why = "was not acknowledged" if delivery.kept else "not finished in time"
        log.warning("%s, back to its queue: %s", why, describe(delivery.raw, delivery.queue))
