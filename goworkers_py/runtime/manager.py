"""A pool's manager: its fetcher, its workers and its settler.

    fetcher -> buffer -> workers -> settler

A stop follows this order, see `Launcher.stop`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.policy.priorities import priorities_of
from goworkers_py.runtime.fetching.fetcher import Fetcher
from goworkers_py.runtime.fetching.hand_over import Hand
from goworkers_py.runtime.fetching.pool_fetcher import PoolFetcher
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.running.worker import Worker
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.settling.settlement import LARGEST_BATCH
from goworkers_py.runtime.settling.settler import Settler
from goworkers_py.runtime.shared import Shared

if TYPE_CHECKING:
    from goworkers_py.runtime.settling.serial_settler import SerialSettler

log = logging.getLogger(__name__)

# Longer jobs end too rarely for many of them to be unsettled at once.
SHORT_S = 0.05


class Manager:
    hand_of: type[Hand] = Hand  # of its workers
    resizable = True  # whether the number of threads can change

    def __init__(
        self,
        pool: Pool,
        lanes: Sequence[Lane],
        settler: Settler | SerialSettler,
        transport: Transport,
        shared: Shared,
    ) -> None:
        self.name = pool.name
        self.title = pool.title
        self.concurrency = pool.concurrency
        self.weights = pool.weights
        self.queues = pool.queues
        self.lanes = {lane.queue: lane for lane in lanes}
        make_fetcher = Fetcher if len(lanes) == 1 and not transport.leaves_waits else PoolFetcher
        self.fetcher = make_fetcher(transport, pool, shared, settler.give_back)
        self._pool = pool
        self._shared = shared
        self._settler = settler
        self._settlement = settler.settlement
        self._numbers = itertools.count(1)
        self._started = False
        # STOPs for workers beyond `concurrency` that none has taken yet, and the size that the fetcher was told. Used
        # by the watchdog's thread only.
        self._leaving, self._size = 0, pool.concurrency
        # Changed by the watchdog's thread only: `_add_worker` appends, `revive` assigns a new list. Others read it.
        self._workers = [self._make_worker() for _ in range(pool.concurrency)]

    def _make_worker(self) -> Worker:
        name = f"worker:{self._pool.label}:{next(self._numbers)}"
        buffer = self._pool.buffer
        return Worker(name, self.hand_of(buffer), buffer, self.lanes, self._settlement, self._shared)

    @property
    def fetches(self) -> BrokerService:
        """The thread that fetches."""
        return self.fetcher

    def start(self) -> None:
        for service in (self._settler, *self._workers, self.fetcher):
            service.start()
        self._started = True

    def replace(self, name: str) -> bool:
        """In the watchdog's thread: retires the worker `name`, whose job is stuck, and starts another."""
        if self.fetcher.stopping.is_set():
            return False
        stuck = next((worker for worker in self._workers if worker.name == name), None)
        if stuck is None or not stuck.retire():
            return False
        self._add_worker()
        return True

    def _add_worker(self) -> None:
        worker = self._make_worker()
        self._workers.append(worker)
        worker.start()
        if self.fetcher.stopping.is_set():  # `stop_workers` may have counted the workers before
            self._pool.buffer.stop_workers(1)

    def resize(self, concurrency: int) -> None:
        """From any thread. The watchdog's thread starts and ends workers in its next look, see `revive`."""
        self.concurrency = concurrency

    def _resize(self) -> None:
        """Workers beyond `concurrency` end after the jobs that they run, and those that wait in the buffer."""
        if not self._started or self.fetcher.stopping.is_set():
            return
        wanted = self.concurrency
        if wanted != self._size:
            self._size = wanted
            self.fetcher.resize(wanted)
        beyond = sum(not worker.retired for worker in self._workers) - self._leaving - wanted
        if beyond > 0:
            self._leaving += beyond
            self._pool.buffer.stop_workers(beyond)
        for _ in range(-beyond):
            self._add_worker()

    def prioritize(self, weights: Sequence[int]) -> None:
        """From any thread: shares of the queues; none for their strict order."""
        self.weights = tuple(weights)
        self.fetcher.prioritize(priorities_of(self.queues, self.weights))

    def revive(self) -> None:
        gone = [worker for worker in self._workers if worker.ended]
        self._leaving = max(0, self._leaving - sum(not worker.retired for worker in gone))
        self._workers = [worker for worker in self._workers if worker not in gone]
        self._resize()
        for service in (self._settler, *self._workers, self.fetcher):
            service.revive()

    def set_paused(self, queue: str, paused: bool) -> None:
        """Running jobs go on; none is fetched or begun until the queue is resumed. From any thread."""
        if paused:
            self.fetcher.pause(queue)
            self._settler.give_back(self._pool.buffer.take_back([queue]))
        else:
            self.fetcher.resume(queue)

    def hold_fetching(self) -> None:
        self.fetcher.hold()

    def release_fetching(self) -> None:
        self.fetcher.release()

    def stop_fetching(self) -> None:
        self.fetcher.stop()

    def give_back_unstarted(self, deadline: Deadline) -> None:
        if self.fetcher.join(deadline):
            self.fetcher.look_once_more()
        else:
            log.warning("%s does not end; its last jobs are requeued when this process deregisters", self.fetcher.name)
        self.give_back_waiting()

    def give_back_waiting(self) -> None:
        """Gives back the deliveries that no worker has taken yet. From any thread."""
        self._settler.give_back(self._pool.buffer.take_back())

    def stop_workers(self) -> None:
        self._pool.buffer.stop_workers(len(self._workers))

    def join_workers(self, deadline: Deadline) -> None:
        for worker in self._workers:
            worker.join(deadline)

    def give_back_running(self) -> Sequence[tuple[Delivery, Stage]]:
        """Gives back the deliveries that have not ended, and returns each with the stage that it was in. If a worker
        ends such a delivery after all, the settler drops its outcome."""
        staged = [(delivery, delivery.stage) for delivery in self._pool.unsettled.snapshot()]
        unfinished = [(delivery, stage) for delivery, stage in staged if stage is not Stage.ENDED]
        self._settler.give_back([delivery for delivery, _ in unfinished])
        return unfinished

    def stop_settling(self, deadline: Deadline) -> Sequence[Delivery]:
        """Returns the deliveries that could not be settled in time."""
        self._settler.stop()
        self._settler.join(deadline)
        return self._pool.unsettled.snapshot()

    def give_up_settling(self) -> None:
        self._settlement.give_up()
        self._settler.wake()

    def begun_at_most(self, queue: str) -> int:
        """How many of the oldest jobs in progress of the queue may have been begun: the running ones, and those that
        ran and are still in progress because they were not acknowledged or are not settled yet.

        A guess. Too high: a bystander runs alone once. Too low: a killer is not suspected. Neither buries a job.
        """
        over = sum(delivery.stage in (Stage.KEPT, Stage.ENDED) for delivery in self._pool.unsettled.of_queue(queue))
        # Ended jobs are in progress, before the running ones, until they are settled. In a queue of short jobs there
        # may be more of them when the process dies than there were at its last beat, up to a batch.
        unsettled = LARGEST_BATCH if self._pool.prefetch.average_s < SHORT_S else self.concurrency
        return max(self.concurrency, self.workers_alive) + max(over, unsettled)

    @property
    def workers_alive(self) -> int:
        return sum(worker.alive for worker in self._workers)

    @property
    def running(self) -> dict[str, Delivery]:
        """By the name of the worker's thread."""
        return {worker.name: delivery for worker in self._workers[:] if (delivery := worker.running)}

    def stuck_threads(self, stuck: Collection[str], queue: str) -> int:
        """How many workers are in `stuck`, the threads whose job is stuck, with a job of this queue, and were not
        replaced. From any thread."""
        workers = [worker for worker in self._workers[:] if worker.name in stuck and not worker.retired]
        return sum(delivery.queue == queue for worker in workers if (delivery := worker.running))

    def waiting(self, queue: str) -> int:
        """How many jobs of the queue wait in the buffer."""
        if len(self.queues) == 1:
            return len(self._pool.buffer)
        return sum(delivery.stage is Stage.FETCHED for delivery in self._pool.unsettled.of_queue(queue))

    @property
    def ended(self) -> int:
        """How many runs have ended."""
        return sum(lane.run_stats.ended for lane in self.lanes.values())
