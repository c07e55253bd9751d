"""One queue's manager: its fetcher, its workers and its settler, and what lies between them.

    fetcher -> buffer -> workers -> settler

Stopping follows the data: see `Launcher.stop`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from goworkers_py.brokers.contracts import Broker
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import REQUEUE
from goworkers_py.links.chain import Middleware, Wrap, adapt, wrap_all
from goworkers_py.links.log import log_runs
from goworkers_py.links.perform import perform
from goworkers_py.links.retry import RetryLink
from goworkers_py.links.stats import stats
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.needs import Needs
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.buffer import Buffer
from goworkers_py.runtime.fetcher import Fetcher
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.settler import LARGEST_BATCH, Settler
from goworkers_py.runtime.unsettled import Unsettled
from goworkers_py.runtime.watchdog import Watchdog
from goworkers_py.runtime.worker import Worker

log = logging.getLogger(__name__)


# Jobs that take longer end too rarely for many of them to wait for their settling.
SHORT_S = 0.05


@dataclass(frozen=True)
class Shared:
    """What all managers of a process use together."""

    broker: Broker
    lease: Lease
    quarantine: Quarantine
    needs: Needs
    registry: Registry
    retry: RetryLink
    watchdog: Watchdog
    prepended: Iterable[Middleware]
    appended: Iterable[Middleware]
    counters: Counters
    outage: Outage
    on_retry: Callable[[float], None]
    wall: Callable[[], float]


class Manager:
    def __init__(self, config: QueueConfig, links: Iterable[Middleware], shared: Shared) -> None:
        self.queue = config.name
        self.concurrency = config.concurrency
        self.tally = RunStats(shared.registry.names_in(config.name))
        pace = AdaptivePrefetch(config.prefetch, config.concurrency)
        prepended = list(shared.prepended)
        wraps: list[Wrap] = [
            *([shared.retry] if prepended else []),
            *map(adapt, prepended),
            log_runs(shared.registry),
            stats(self.tally, pace, shared.wall),
            shared.retry,
            shared.watchdog.link,
            *map(adapt, shared.appended),
            *map(adapt, links),
        ]
        chain = wrap_all(perform(shared.registry), wraps)
        self._pace = pace
        self._held = Unsettled()
        self._buffer = Buffer(config.concurrency)
        self._settler = Settler(
            config.name, shared.broker, self._held, pace, shared.counters, shared.outage, shared.on_retry
        )
        self.fetcher = Fetcher(
            config.name, shared.broker, shared.lease, self._buffer, self._held, config.concurrency, pace,
            self._give_back, shared.outage, shared.quarantine,
        )  # fmt: skip
        self._shared = shared
        self._chain = chain
        self._numbers = itertools.count(1)
        # Changed by the watchdog's thread only, which puts a new list into its place when it takes some away.
        self._workers = [self._make_worker() for _ in range(config.concurrency)]

    def _make_worker(self) -> Worker:
        name, shared = f"worker:{self.queue}:{next(self._numbers)}", self._shared
        return Worker(
            name, self._buffer, shared.lease, shared.quarantine, self._chain, self._settler, shared.needs, shared.wall
        )

    def start(self) -> None:
        for service in (self._settler, *self._workers, self.fetcher):
            service.start()

    def replace(self, name: str) -> bool:
        """Puts a new worker into the place of one whose job is stuck."""
        if self.fetcher.stopping.is_set():
            return False
        stuck = next((worker for worker in self._workers if worker.name == name), None)
        if stuck is None or not stuck.retire():
            return False
        spare = self._make_worker()
        self._workers.append(spare)
        spare.start()
        return True

    def revive(self) -> None:
        self._workers = [worker for worker in self._workers if not worker.retired_and_ended]
        for service in (self._settler, *self._workers, self.fetcher):
            service.revive()

    def set_paused(self, paused: bool) -> None:
        """What runs is run to its end; nothing is fetched or begun until the queue is resumed. From any thread."""
        if paused:
            self.fetcher.pause()
            self.give_back_waiting()
        else:
            self.fetcher.resume()

    def stop_fetching(self) -> None:
        self.fetcher.stop()

    def give_back_unstarted(self, deadline: Deadline) -> None:
        if self.fetcher.join(deadline):
            self.fetcher.look_once_more()
        else:
            log.warning("%s does not end; what it still fetches goes back at the farewell", self.fetcher.name)
        self.give_back_waiting()

    def give_back_waiting(self) -> None:
        """Gives back the deliveries that no worker has taken yet. From any thread."""
        self._give_back(self._buffer.drain())

    def _give_back(self, deliveries: list[Delivery]) -> None:
        """The newest first, each to the consumer's end: the oldest is then the next to run again."""
        for delivery in reversed(deliveries):
            self._settler.put(delivery, REQUEUE)

    def stop_workers(self) -> None:
        self._buffer.stop_workers(len(self._workers))

    def join_workers(self, deadline: Deadline) -> None:
        for worker in self._workers:
            worker.join(deadline)

    def give_back_running(self) -> list[Delivery]:
        """What is still not at its end goes back too; when a worker ends it after all, that does not count."""
        unfinished = [delivery for delivery in self._held.snapshot() if not delivery.ended]
        self._give_back(unfinished)
        return unfinished

    def stop_settling(self, deadline: Deadline) -> int:
        """Returns how many deliveries could not be settled in time."""
        self._settler.stop()
        self._settler.join(deadline)
        return len(self._held)

    @property
    def begun_at_most(self) -> int:
        """How many of the oldest jobs in the in-progress list may have been begun: those that run, beside those that
        ran and were not acknowledged, and that stay where they are.

        A guess. Too high: a bystander runs alone once. Too low: a killer is not suspected. Neither buries a job.
        """
        over = sum(delivery.kept or delivery.ended for delivery in self._held.snapshot())
        # Ended jobs lie there until they are settled, before those that run, and in a queue of short jobs there are
        # more of them at a death than at the last beat.
        unsettled = LARGEST_BATCH if self._pace.average_s < SHORT_S else self.concurrency
        return max(self.concurrency, self.workers_alive) + max(over, unsettled)

    @property
    def workers_alive(self) -> int:
        return sum(worker.alive for worker in self._workers)

    @property
    def running(self) -> dict[str, Delivery]:
        """By the name of the thread."""
        return {worker.name: delivery for worker in self._workers[:] if (delivery := worker.running)}

    def held(self, stuck: Collection[str]) -> int:
        """How many threads of the pool are among those whose job is stuck, and were not replaced. From any thread."""
        return sum(worker.name in stuck and not worker.retired for worker in self._workers[:])

    @property
    def waiting(self) -> int:
        return len(self._buffer)
