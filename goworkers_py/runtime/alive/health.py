"""The health of this process, for probes, pages, the parent of `processes = N` and the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from goworkers_py.core.delivery import Delivery
from goworkers_py.observe.health_report import (
    COUNTERS,
    STALE_AFTER_S,
    WORKING,
    HealthReport,
    PoolReport,
    QueueReport,
    all_stuck,
    not_live,
)
from goworkers_py.observe.running_jobs import shown
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.running.watchdog import Watchdog
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.shared import Shared


class Health:
    """Safe to call from any thread."""

    stale_after_s = STALE_AFTER_S

    def __init__(
        self,
        managers: Sequence[Manager],
        watchdog: Watchdog,
        loops: Callable[[], Iterable[BrokerService]],
        shared: Shared,
        of_features: Callable[[], dict[str, dict[str, int]]] = dict,
    ) -> None:
        """`loops` returns the services whose loop must not stand still; `of_features`, the figures of the
        runs that are under way."""
        self.managers = managers
        self._watchdog = watchdog
        self._loops = loops
        self._shared = shared
        self._of_features = of_features

    @property
    def state(self) -> str:
        return self._shared.state.word

    @property
    def lanes(self) -> list[Lane]:
        """Of all queues."""
        return [lane for manager in self.managers for lane in manager.lanes.values()]

    @property
    def running(self) -> dict[str, Delivery]:
        """By the name of the worker's thread."""
        return {name: delivery for manager in self.managers for name, delivery in manager.running.items()}

    def trouble(self) -> str:
        """Why this process fetches no jobs now; empty while it fetches."""
        report = self.report()
        state = report["state"] if report["state"] != WORKING else ""
        return not_live(report) or state or all_stuck(report) or self._shared.quarantine.trouble

    def report(self) -> HealthReport:
        running, shared = self.running.values(), self._shared
        busy, stuck = Counter(delivery.queue for delivery in running), self._watchdog.stuck
        # Read once: a worker sets `begun_at` to 0 again when it requeues a delivery because of a suspect.
        now, begun = shared.clock.wall(), [delivery.begun_at for delivery in running]
        cut_off = self._shared.state.started and not shared.lease.fresh
        counts = dict.fromkeys(COUNTERS, 0.0) | shared.counters.snapshot()
        counts["outage_seconds"] = shared.outage.total_s
        return HealthReport(
            processes=1,
            state=self.state,
            stale=", ".join(self._stale()),
            cut_off=f"the server was not reached for {shared.lease.silent_s:.0f} s" if cut_off else "",
            oldest_s=max([0.0, *(now - begun_at for begun_at in begun if begun_at)]),
            queues={
                queue: QueueReport(
                    busy=busy[queue],
                    capacity=manager.concurrency if len(manager.queues) == 1 else 0,
                    waiting=manager.waiting(queue),
                    stuck=manager.stuck_threads(stuck, queue),
                )
                for manager in self.managers
                for queue in manager.queues
            },
            pools={
                manager.name: PoolReport(
                    capacity=manager.concurrency,
                    stuck=sum(manager.stuck_threads(stuck, queue) for queue in manager.queues),
                )
                for manager in self.managers
                if len(manager.queues) > 1
            },
            counts=counts,
            jobs={lane.queue: lane.run_stats.snapshot() for lane in self.lanes},
            running={
                queue: shown([delivery for delivery in running if delivery.queue == queue])
                for manager in self.managers
                for queue in manager.queues
            },
            of_features=self._of_features(),
            partitions={},
            terms={},
        )

    def _stale(self) -> list[str]:
        return [
            f"{loop.name} stands still for {loop.still_s:.0f} s"
            for loop in self._loops()
            if loop.still_s > self.stale_after_s
        ]
