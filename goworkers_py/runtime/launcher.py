"""Starts and stops all parts of a daemon, each in one written order. `assembly` has built them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from goworkers_py.brokers.broker import Broker
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.config_in_force import ConfigInForce
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable, Fenced
from goworkers_py.links.interruption import lose
from goworkers_py.runtime import forks
from goworkers_py.runtime.alive.health import Health
from goworkers_py.runtime.alive.reporter import Reporter
from goworkers_py.runtime.interpreter import warn_where_unsupported
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.recovering.recoverer import report, report_left, report_unfinished
from goworkers_py.runtime.services import Services
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)


class TakesConfig(Protocol):
    """A part of a feature, see `InProcess`."""

    def take(self, config: Config) -> Iterator[str]: ...


class Launcher:
    after_jobs_s = 5.0  # for settling and deregistering, after the time that the jobs have

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        managers: Sequence[Manager],
        services: Services,
        health: Health,
        reporter: Reporter,
        shared: Shared,
        parts: Sequence[TakesConfig] = (),
        on_quiet_asked: Callable[[], None] | None = None,
    ) -> None:
        """`parts` are those of the features in this process. `on_quiet_asked` is called when people ask for quiet:
        behind a fence it ends the term. None: `quiet` is called."""
        self.plan = plan
        self._timeout_s = plan.config.timeout
        self._broker = broker
        self._services = services
        self._parts = parts
        self._heartbeat = services.heartbeat
        self._recoverer = services.recoverer
        self._reporter = reporter
        self._outage = shared.outage
        self._lease = shared.lease
        self._quarantine = shared.quarantine
        self.health = health
        self.state = shared.state
        self.managers = managers
        self._quieting = machine.Lock()  # `quiet` and `resume` may come from several threads
        self.on_quiet_asked = on_quiet_asked or self.quiet
        self._in_a_hurry = False
        self._impatient = False

    def __str__(self) -> str:
        queues = ", ".join(f"{manager.title} ({manager.concurrency} threads)" for manager in self.managers)
        return f"{self.identity} is processing {queues or 'no queue'}"

    @property
    def identity(self) -> str:
        return self._lease.identity

    # --- start

    def start(self, stop_asked: machine.Event) -> bool:
        """False when `stop_asked` was set before the broker answered. Raises BrokerRefused when the broker refuses."""
        try:
            return self._start(stop_asked)
        finally:
            if not self.state.started:
                self._recoverer.tell_of_deaths()  # no recoverer runs that would do it

    def _start(self, stop_asked: machine.Event) -> bool:
        warn_where_unsupported()
        if not self._register(stop_asked):
            return False
        try:
            self._heartbeat.start()  # before the hooks, which may take longer than a lease lasts
            self._broker.warn_at_start()
            for hook in self.plan.before_start:
                hook()
        except BaseException:
            self.state.failed = True
            self._heartbeat.stop()
            silent = self._heartbeat.join(Deadline(self.after_jobs_s)) and self._heartbeat.silence(self.after_jobs_s)
            self._deregister((), silent)
            raise
        try:
            forks.watch()
            for part in (*self.managers, *self._services):  # the first look of a service may take long
                part.start()
            self.state.started = True
            self._heartbeat.beat_now()  # tells the fleet that this process works
        except BaseException:  # the system gives this process no more threads, say; some of the jobs may run already
            self.stop()
            raise
        return True

    def _register(self, stop_asked: machine.Event) -> bool:
        """Waits for the broker, and creates the lease before the first fetch. False when `stop_asked` was set first."""
        while not stop_asked.is_set():
            try:
                # First, because it frees the jobs and the name of an earlier process on this machine that was killed.
                self._recover_at_start()
                for service in self._services.of_features:  # from the beat on, others see this process
                    with suppress(BrokerRefused):
                        service.begin()
                self._heartbeat.beat()
                self._services.pauses.look()  # a paused queue is not fetched from even once
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
        except Exception:  # bad data of a dead process must not keep this one from starting
            log.exception("jobs of dead processes cannot be recovered now; the recoverer tries again")

    @property
    def waits_for_broker(self) -> bool:
        """It has not started yet, because of an outage."""
        return not self.state.started and self._outage.lasts

    # --- while it runs, from any thread

    def quiet(self) -> None:
        """Fetches no new jobs until `resume`; fetched ones are run to their end."""
        with self._quieting:
            if not self.state.quiet:
                self.state.quiet = True
                for manager in self.managers:
                    manager.hold_fetching()
                log.info("quiet: no new jobs are fetched")

    def resume(self) -> bool:
        """Ends `quiet`. False when this process stops."""
        with self._quieting:
            if self.state.deadline is not None:
                return False
            if self.state.quiet:
                self.state.quiet = False
                for manager in self.managers:
                    manager.release_fetching()
                log.info("resumed: jobs are fetched again")
        self._heartbeat.beat_now()
        return True

    def resize(self, threads: int, pool: str = "") -> dict[str, list[int]]:
        """Gives this pool, or each one, so many threads. Returns the old and the new number of each, by its name. The
        watchdog's thread starts new workers soon; workers beyond the number end after their jobs."""
        chosen = [manager for manager in self.managers if pool in ("", manager.name) and manager.resizable]
        changed = {manager.name: [manager.concurrency, threads] for manager in chosen}
        for manager in chosen:
            manager.resize(threads)
        self._services.watchdog.wake()
        if changed:
            log.info("threads: %s", ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items()))
        return changed

    def poll_every(self, seconds: float) -> None:
        self._services.scheduler.poll_every(seconds)

    def take(self, config: Config) -> Iterator[str]:
        """Gives the features what a new configuration says, and names the options that are in force now."""
        for part in self._parts:
            yield from part.take(config)

    def tell_config(self, config: ConfigInForce) -> None:
        self._reporter.config = config
        self._heartbeat.beat_now()

    def pause_queue(self, queue: str) -> bool:
        """For this process alone. False if it was paused here already."""
        return self._services.pauses.pause_here(queue)

    def resume_queue(self, queue: str) -> bool:
        return self._services.pauses.resume_here(queue)

    def hurry(self) -> None:
        """The stop, also one that begins later, does not wait for running jobs."""
        self._in_a_hurry = True
        if self.state.deadline is not None:
            self.state.deadline.shorten(0)

    def lose_patience(self) -> None:
        """A stop that began with `patiently` goes on with the usual time limit."""
        self._impatient = True
        if self.state.deadline is not None:
            self.state.deadline.shorten(self._timeout_s)

    def abandon(self) -> None:
        """The term is over, and another process has its jobs: the stop waits for none of them."""
        self.hurry()
        lose(self.health.running.values(), self.plan.registry)

    def look_for_the_dead(self) -> None:
        """Called when another process has ended: recovers its jobs soon."""
        self._recoverer.look_now()

    @property
    def processed(self) -> int:
        return sum(manager.ended for manager in self.managers)

    @property
    def workers_alive(self) -> int:
        return sum(manager.workers_alive for manager in self.managers)

    def revive(self) -> None:
        """In the watchdog's thread: starts each service again whose thread has died."""
        for service in (self._heartbeat, *self._services):
            service.revive()
        for manager in self.managers:
            manager.revive()

    # --- stop

    def stop(self, patiently: bool = False, within_s: float | None = None) -> bool:
        """Stops senders before receivers: the order follows the data. True when nothing was left behind. `within_s` is
        for the jobs, instead of the option `timeout`."""
        jobs_have_s = self._timeout_s if within_s is None else within_s
        self.state.deadline = deadline = Deadline(math.inf if patiently else jobs_have_s)
        if self._in_a_hurry:
            deadline.shorten(0)
        if self._impatient:
            deadline.shorten(self._timeout_s)
        left = "all the time they need" if patiently else f"{deadline.left():.4g} s"
        log.info("stopping: running jobs have %s to finish", left)
        self._quarantine.stop()
        self._heartbeat.beat_now()  # takes a suspect's name back: a kill during a stop proves nothing
        self.quiet()
        for manager in self.managers:
            manager.stop_fetching()
        hooks = self._start_drain_hooks()
        for manager in self.managers:
            manager.give_back_unstarted(deadline)
            manager.stop_workers()
        for manager in self.managers:
            manager.join_workers(deadline)
        deadline.shorten(self._timeout_s)  # `patiently` is for jobs, not for hooks
        while hooks.is_alive() and deadline.left() > 0:
            hooks.join(min(0.05, deadline.left()))  # in steps, because `hurry` may shorten the deadline
        for manager in self.managers:
            report_unfinished(manager.give_back_running())
        return self._stop_services()

    def _start_drain_hooks(self) -> machine.Thread:
        hooks = machine.Thread(target=self._run_drain_hooks, name="during-drain", daemon=True)
        try:
            hooks.start()
        except RuntimeError:  # the system gives this process no more threads; that must not end the stop
            self._run_drain_hooks()
        return hooks

    def _run_drain_hooks(self) -> None:
        for hook in self.plan.during_drain:
            try:
                hook()
            except BaseException:  # also SystemExit: a hook must not keep the drain from ending
                log.exception("a during_drain hook failed")

    def _stop_services(self) -> bool:
        deadline = Deadline(self.after_jobs_s)
        for service in self._services:
            if service is not self._services.relay:
                service.stop()
        unsettled = [delivery for manager in self.managers for delivery in manager.stop_settling(deadline)]
        self._services.relay.stop()  # after the last jobs were settled, which may have posted pushes
        self._heartbeat.stop()
        silent = self._heartbeat.join(deadline) and not any(manager.fetches.alive for manager in self.managers)
        for service in self._services:  # last: the recoverer may be in a death handler of the user's for long
            service.join(deadline)
        silent = self._heartbeat.silence(self.after_jobs_s) and silent  # a worker with a suspect may beat too
        clean = self._deregister(unsettled, silent)
        for manager in self.managers:
            manager.give_up_settling()
        return clean

    def _deregister(self, unsettled: Sequence[Delivery], silent: bool) -> bool:
        try:
            if self._broker.fence is not None:
                self._broker.fence.check()
            if self._outage.lasts:
                raise BrokerUnavailable("an outage still lasts")
            # By now no job is in progress, except those of a late reply and those that were not acknowledged.
            report(self._broker.recoverable.leave(self.identity, silent), "requeued at the stop of")
            with suppress(BrokerUnavailable):  # no job depends on these two
                self._reporter.record()
                self._reporter.leave()
            stay = report_left(self._broker, unsettled)
            if len(unsettled) > stay:
                log.error(
                    "jobs that could not be settled in time, and were requeued instead: %d; those that had ended run "
                    "again", len(unsettled) - stay
                )  # fmt: skip
            return not unsettled
        except Fenced:
            log.info("not deregistered: the term is over, and the next leader declares %s dead", self.identity)
        except BrokerError as error:
            left = f"jobs that were not settled, to be recovered by others: {len(unsettled)}"
            log.error("could not deregister from %s: %s; %s", self._broker.name, error, left)
            return False
        finally:
            self._broker.close()
        return True
