"""All that one process works: a launcher for each partition, each with its own broker, lease and threads.

An outage of one broker holds up no other partition: each starts, waits for its broker and stops in a thread of its own.
Any thread may call the methods. The launcher's thread of `system.lifecycle` calls `start` and `stop`; in a program
that runs jobs in the background, `quit` may call `stop` while another thread is in `start`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from goworkers_py.config.partitions import MAIN
from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.values import NamedTuple
from goworkers_py.observe.health_report import HealthReport, with_partitions

if TYPE_CHECKING:
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.core.command import Obey
    from goworkers_py.core.delivery import Delivery
    from goworkers_py.core.fence import Term
    from goworkers_py.runtime.launcher import Launcher
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.runtime.run_state import RunState
    from goworkers_py.runtime.service import Service

log = logging.getLogger(__name__)

LOOK_S = 0.05  # how often the start looks whether all partitions work, or wait for their broker
AGAIN_S = 30.0  # after a broker has refused a partition, while others work

SERVICE_ENDS_S = 1.0


class AnyLauncher(Protocol):
    """A launcher, or what makes launchers by turns and starts and stops them, see `Feature.launcher`."""

    plan: Plan
    state: RunState

    @property
    def identity(self) -> str: ...

    @property
    def health(self) -> AnyHealth: ...

    @property
    def waits_for_broker(self) -> bool: ...

    @property
    def processed(self) -> int: ...

    @property
    def workers_alive(self) -> int: ...

    def start(self, stop_asked: machine.Event) -> bool: ...

    def quiet(self) -> None: ...

    def hurry(self) -> None: ...

    def lose_patience(self) -> None: ...

    def look_for_the_dead(self) -> None: ...

    def stop(self, patiently: bool = False) -> bool: ...


class AnyHealth(Protocol):
    @property
    def state(self) -> str: ...

    @property
    def running(self) -> Mapping[str, Delivery]: ...

    def report(self) -> HealthReport: ...


class PartitionWork(NamedTuple):
    """A partition that a process is to work, before it has a launcher."""

    plan: Plan
    broker: Broker  # without a fence
    # On this broker or another one of the partition, and with what to call when people ask for quiet.
    make_launcher: Callable[[Broker, Callable[[], None]], Launcher]
    obey: Obey | None  # takes the commands to the process; None: it is part of another program
    # To be called with each term that begins, before its first job.
    begin_term: Callable[[Term], object] = lambda term: None


class Daemon:
    def __init__(self, launchers: Mapping[str, AnyLauncher], services: Sequence[Service] = ()) -> None:
        """`launchers`: at least one, by the name of the partition, the main one first if it is there. `services`:
        threads of features for the whole process."""
        self._launchers = launchers
        self._services = services
        self._starts: dict[str, machine.Thread] = {}
        self._errors: dict[str, BaseException] = {}  # of the starts, written by their threads
        self._ready = False
        self._lock = machine.Lock()  # while the partitions are started or stopped
        self._starter: machine.Thread | None = None  # the thread in `start`
        self._clean: bool | None = None  # used under the lock: what `stop` has returned

    def __str__(self) -> str:
        return "; ".join(str(launcher) for launcher in self._launchers.values() if launcher.state.started)

    @property
    def launchers(self) -> list[AnyLauncher]:
        return [*self._launchers.values()]

    @property
    def plans(self) -> list[Plan]:
        return [launcher.plan for launcher in self._launchers.values()]

    # --- start

    def start(self, stop_asked: machine.Event) -> bool:
        """Returns when every partition works, or waits in an outage while others work. False when `stop_asked` was set
        before. Raises the first error of a partition that cannot start."""
        with self._lock:
            self._starter = machine.current_thread()
            try:
                started = self._start_all(stop_asked)
                if started:
                    for service in self._services:
                        service.start()
                return started
            finally:
                self._starter = None

    def _start_all(self, stop_asked: machine.Event) -> bool:
        if len(self._launchers) == 1:
            [launcher] = self._launchers.values()
            return launcher.start(stop_asked)
        for name, launcher in self._launchers.items():
            self._starts[name] = machine.Thread(
                target=self._start, args=(name, launcher, stop_asked), name=f"launcher:{name or MAIN}", daemon=True
            )
            self._starts[name].start()
        while not self._errors and not stop_asked.is_set() and not self._all_settled():
            stop_asked.wait(LOOK_S)
        self._ready = not stop_asked.is_set()  # before the look at `_errors`: an error after this is tried again
        if self._errors:
            stop_asked.set()
        if stop_asked.is_set():
            self._stop_all(patiently=False)
        if self._errors:
            raise next(iter(self._errors.values()))
        return self._ready

    def _start(self, name: str, launcher: AnyLauncher, stop_asked: machine.Event) -> None:
        while not stop_asked.is_set():
            try:
                if launcher.start(stop_asked) and self._ready:
                    log.info("ready after an outage: %s", launcher)
                return
            except BaseException as error:
                if not self._ready or launcher.state.failed or not isinstance(error, BrokerError):
                    self._cannot_start(name, launcher, error, stop_asked)
                    return
                log.error("partition %s cannot start, next try in %.0f s: %s", name or MAIN, AGAIN_S, error)
            stop_asked.wait(AGAIN_S)

    def _cannot_start(self, name: str, launcher: AnyLauncher, error: BaseException, stop_asked: machine.Event) -> None:
        log.error("partition %s cannot start, so this process stops: %s", name or MAIN, error)
        self._errors[name] = error
        if self._ready:  # a hook failed after an outage, say. Before that, `start` raises the error
            launcher.state.gave_up = True
            stop_asked.set()

    def _all_settled(self) -> bool:
        launchers = self._launchers.values()
        return any(launcher.state.started for launcher in launchers) and all(
            launcher.state.started or launcher.waits_for_broker for launcher in launchers
        )

    # --- while it runs

    def quiet(self) -> None:
        for launcher in self._launchers.values():
            launcher.quiet()

    def hurry(self) -> None:
        for launcher in self._launchers.values():
            launcher.hurry()

    def lose_patience(self) -> None:
        for launcher in self._launchers.values():
            launcher.lose_patience()

    def look_for_the_dead(self) -> None:
        for launcher in self._launchers.values():
            launcher.look_for_the_dead()

    @property
    def state(self) -> str:
        """The state of the first partition: all are asked for the same."""
        return self.main.health.state

    @property
    def gave_up(self) -> bool:
        return any(launcher.state.gave_up for launcher in self._launchers.values())

    @property
    def processed(self) -> int:
        return sum(launcher.processed for launcher in self._launchers.values())

    @property
    def workers_alive(self) -> int:
        return sum(launcher.workers_alive for launcher in self._launchers.values())

    @property
    def running(self) -> dict[str, Delivery]:
        """By the name of the worker's thread."""
        return {
            name: delivery
            for launcher in self._launchers.values()
            for name, delivery in launcher.health.running.items()
        }

    def report(self) -> HealthReport:
        reports = {name: launcher.health.report() for name, launcher in self._launchers.items()}
        return with_partitions(reports)

    @property
    def main(self) -> AnyLauncher:
        return next(iter(self._launchers.values()))

    # --- stop

    def stop(self, patiently: bool = False) -> bool:
        """Stops all partitions at once, so that they share the time limit. True when nothing was left behind. When a
        start runs in another thread, waits for its end. A second call waits for the first, and returns the same. In a
        hook of the start it does nothing: its caller has set `stop_asked`, and stops after the start."""
        if machine.current_thread() in (self._starter, *self._starts.values()):
            return True
        with self._lock:
            for service in self._services:
                service.stop()
                service.join(Deadline(SERVICE_ENDS_S))
            return self._stop_all(patiently)

    def _stop_all(self, patiently: bool) -> bool:
        if self._clean is None:
            self._clean = self._stop_started(patiently)
        return self._clean

    def _stop_started(self, patiently: bool) -> bool:
        for start in self._starts.values():
            start.join()  # the stop was asked for, so each start ends soon
        started = [launcher for launcher in self._launchers.values() if launcher.state.started]
        clean: list[bool] = []
        stops, here = list[machine.Thread](), started[:1]
        for launcher in started[1:]:
            stop = machine.Thread(
                target=lambda launcher=launcher: clean.append(launcher.stop(patiently)),
                name=f"launcher:{_name(launcher)}",
                daemon=True,
            )
            try:
                stop.start()
                stops.append(stop)
            except RuntimeError:  # the system gives this process no more threads; that must not end the stop
                here.append(launcher)
        try:
            clean += [launcher.stop(patiently) for launcher in here]
        finally:
            for stop in stops:
                stop.join()
        return all(clean) and len(clean) == len(started)


def _name(launcher: AnyLauncher) -> str:
    return launcher.plan.config.partition_name
