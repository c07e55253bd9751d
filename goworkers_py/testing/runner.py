"""Runs the jobs of a test block in the thread that calls, through the chain and the scheduler of the daemon."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from goworkers_py.api.app import App
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.config.options import PoolConfig
from goworkers_py.core.delivery import BEGUN, ENDED, Delivery
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import NOT_SETTLED, REQUEUE, Outcome
from goworkers_py.links.handlers import Handlers
from goworkers_py.links.perform import close_own_loop
from goworkers_py.links.time_limit import Watched
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.runtime.assembly import parts_of_features
from goworkers_py.runtime.lane import Lane, lane_of
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.recovering.recoverer import judge_by, recovering
from goworkers_py.runtime.run_state import RunState
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.runtime.scheduling.relay import Relay
from goworkers_py.runtime.scheduling.scheduler import Scheduler
from goworkers_py.runtime.shared import Shared
from goworkers_py.testing.enqueued_job import EnqueuedJob, JobRun
from goworkers_py.testing.fake_broker import FakeBroker
from goworkers_py.wire.message import Message

T = TypeVar("T")

_numbers = itertools.count(1)  # of batches
_ALL = 1_000_000_000


class _NoWatch:
    """No thread looks at the time limits of jobs that run in a test."""

    def begin(self, watched: Watched) -> None: ...

    def end(self, watched: Watched) -> None: ...


class SandboxRunner:
    """Made for each call of `run_all` and each inline push: so it sees what the program has declared until then."""

    def __init__(
        self,
        app: App,
        broker: FakeBroker,
        is_stopping: Callable[[], bool] = lambda: False,
        of_code: Broker | None = None,
    ) -> None:
        """`is_stopping`, `of_code`: see `WorkerProcess`."""
        plan = app.runner.plan()
        given = plan.handlers
        handlers = Handlers([self._failed, *given.error], given.death)
        self._plan = dataclasses.replace(plan, handlers=handlers)
        self._broker = broker
        self._shared = shared = _shared(app, broker)
        self._scheduler = Scheduler(broker.store, plan.config, DueHints(), app.clock, shared.outage)
        self._relay = Relay(broker.store, plan.destinations, shared.outage)
        parts = recovering(plan.registry, plan.config, app.clock.wall)
        self._judge = judge_by(PoisonPolicy.of(plan.config), parts, app.clock.wall)
        self._by_feature, self._ends = parts_of_features(
            plan, broker, shared, tuple, is_stopping=is_stopping, of_code=of_code
        )
        self._parts = [*self._by_feature.values()]
        self._worked = {queue.name for queue in plan.queues} | set(plan.registry.queues())
        self._lanes: dict[str, Lane] = {}
        self._error: BaseException | None = None  # of the run that is under way

    def run_next(self, promote: bool) -> JobRun | None:
        """Runs the next job and settles it. None when no job with code here is left in a queue; with `promote` jobs
        that are due come into their queues first."""
        delivery = self._next_with(promote)
        return None if delivery is None else self.settle(delivery, self.run(delivery))

    def _next_with(self, promote: bool) -> Delivery | None:
        if (delivery := self._fetch()) is None:
            self._move(promote)
            delivery = self._fetch()
        return delivery

    def _fetch(self) -> Delivery | None:
        for queue in self._broker.queues_in_order():
            if queue in self._worked or self._has_code_for(queue):
                for delivery in self._broker.transport.consume(self._broker.lease.identity, [(queue, 1)], 1, 0.0):
                    return delivery
        return None

    def _has_code_for(self, queue: str) -> bool:
        """Whether a job of a queue that no code names has code all the same: `set(queue=...)` put it there. Jobs
        without code stay, because a program in another language runs them."""
        jobs = self._broker.admin.jobs_in(Place(JobState.WAITING, queue)).first(_ALL)
        return any(job.message and self._plan.registry.job(job.message.job_class) for job in jobs)

    def _move(self, promote: bool) -> None:
        """Moves jobs into their queues: those that are due, and those that atomic jobs have posted."""
        if promote:
            self._scheduler.run_once()
        if self._broker.admin.outboxes():
            self._relay.run_once()
        for part in self._parts:
            part.look()

    def recover(self) -> None:
        """As the recoverer of a daemon: the jobs of dead processes come back into their queues."""
        recoverable = self._broker.recoverable
        for _ in recoverable.recover(self._broker.lease.identity, self._judge, proof=""):
            pass
        for part in self._parts:
            part.owner_died()

    def fetch(self, jid: str) -> Delivery | None:
        """The next delivery of this job. None while it waits in no queue. The other jobs stay there."""
        found, others = None, []
        while found is None and (delivery := self._next_with(promote=True)) is not None:
            job = EnqueuedJob.of(delivery.payload, delivery.queue)
            if job is not None and job.jid == jid:
                found = delivery
            else:
                others.append(delivery)
        for delivery in reversed(others):
            self.settle(delivery, REQUEUE)
        return found

    def run(self, delivery: Delivery) -> Outcome:
        self._error = None
        delivery.begun_at, delivery.stage = self._shared.clock.wall(), BEGUN
        outcome = self._lane(delivery.queue).guard.run(delivery)
        delivery.stage = ENDED
        return outcome

    def settle(self, delivery: Delivery, outcome: Outcome) -> JobRun:
        if not isinstance(outcome, NOT_SETTLED):
            [settled] = self._broker.transport.settle(SettlementBatch("testing", next(_numbers), [(delivery, outcome)]))
            if isinstance(settled, str):
                raise BrokerRefused(settled)
        job = EnqueuedJob.of(delivery.payload, delivery.queue)
        return JobRun(job, type(outcome).__name__.lower(), self._error)

    def _lane(self, queue: str) -> Lane:
        if queue not in self._lanes:
            pool, shared, alone = Pool(PoolConfig(queue, (queue,))), self._shared, self._shared.quarantine.run
            of_features = self._by_feature, self._ends
            self._lanes[queue] = lane_of(self._plan, pool, queue, _NoWatch(), shared, *of_features, alone)
        return self._lanes[queue]

    def _failed(self, message: Message, error: BaseException) -> None:
        self._error = error


def _shared(app: App, broker: FakeBroker) -> Shared:
    quarantine = Quarantine(
        PoisonPolicy.of(app.config),
        broker.lease,
        app.clock,
        beat=lambda: quarantine.announced(quarantine.announcement()),
        others_run=lambda delivery: False,
        give_back_waiting=lambda: None,
    )
    return Shared(app.clock, broker.lease, Outage(broker.name), Counters(), quarantine, RunState())


def as_worker(function: Callable[[], T]) -> T:
    """Calls the function as a worker's thread would: no event loop runs in its thread. If one runs in this thread (an
    async test, or an async job that pushes), it waits, and another thread calls the function."""
    __tracebackhide__ = True
    if _loop_runs_here():
        there: Callable[[], T] = partial(as_worker, function)
        with ThreadPoolExecutor(1, "testing") as other:
            return other.submit(contextvars.copy_context().run, there).result()
    try:
        return function()
    finally:
        close_own_loop()


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
