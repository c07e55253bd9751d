"""The recoverer thread: recovers the jobs of dead processes, and buries jobs that killed their processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import FoundJob, Judge, Recoverable, Recovered
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import PoisonPill
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.levels import bare_list_of
from goworkers_py.core.timing import TIMING, Timing
from goworkers_py.features import FEATURES
from goworkers_py.features.in_process import Recovering
from goworkers_py.links.handlers import Handlers
from goworkers_py.policy.consequences import buried, moved
from goworkers_py.policy.poison import PoisonPolicy, RecoveryDecision
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alive.heartbeat import Heartbeat
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.shared import Shared
from goworkers_py.wire.message import Message, describe_job

log = logging.getLogger(__name__)


class Recoverer(BrokerService):
    def __init__(
        self,
        recoverable: Recoverable,
        heartbeat: Heartbeat,
        judge: Judge,
        handlers: Handlers,
        shared: Shared,
        timing: Timing = TIMING,
        on_recovered: Sequence[Callable[[], None]] = (),
    ) -> None:
        """This thread calls those of `on_recovered` after an owner has died."""
        super().__init__("recoverer", shared.outage)
        self._recoverable = recoverable
        self._heartbeat = heartbeat
        self._judge = judge
        self._handlers = handlers
        self._shared = shared
        self._timing = timing
        self._asked = machine.Event()
        self._on_recovered = on_recovered
        self._deaths: list[tuple[Message, PoisonPill]] = []  # to call the user's death handlers with

    def look_now(self) -> None:
        self._asked.set()

    def run_once(self) -> float:
        self._asked.clear()
        try:
            self.recover()
        finally:
            self.tell_of_deaths()
        return self._timing.recover_every_s * machine.random.uniform(0.8, 1.2)

    def recover(self) -> None:
        """Called by the thread that starts this process, and after that by the recoverer's own thread."""
        identity, proof = self._shared.lease.identity, self._heartbeat.proof(self._timing.steady_for_s)
        moved, deaths = False, self._recoverable.deaths
        try:
            for job in self._recoverable.recover(identity, self._judge, proof):
                moved = True
                self._tell(job)
        finally:
            if moved or self._recoverable.deaths != deaths:
                for on_recovered in self._on_recovered:
                    on_recovered()

    def _tell(self, job: Recovered) -> None:
        error = job.decision.error
        if error is None:
            self._shared.counters.add("recovered")
            report([job], "recovered from dead process")
        else:
            self._shared.counters.add("poison")
            log.error("poison: %s: %s", describe_job(job.payload, job.queue), error)
            self._deaths.append((Message(job.payload, job.queue), error))

    def tell_of_deaths(self) -> None:
        deaths, self._deaths = self._deaths, []
        for message, error in deaths:
            self._handlers.tell_of_death(message, error)

    def wait_between(self, seconds: float) -> None:
        self._asked.wait(seconds)

    def wake(self) -> None:
        self._asked.set()


def recovering(registry: Registry, config: Config, wall: Callable[[], float]) -> list[Recovering]:
    """The parts of the features that know more of the jobs of a dead process than their payloads say."""
    parts = (feature.recovering(registry, config, wall) for feature in FEATURES)
    return [part for part in parts if part is not None]


def judge_by(poison: PoisonPolicy, parts: Sequence[Recovering], wall: Callable[[], float]) -> Judge:
    """`parts`: see `recovering`."""

    def judge(found: FoundJob) -> RecoveryDecision:
        raw, queue, owner = found.payload, found.queue, found.owner
        decision = poison.judge(raw, queue, owner, found.begun, found.alone, now=wall())
        if bare_list_of(queue):
            return decision  # a bare body is tied to nothing, whatever names its fields have
        try:
            return tied(decision, found)
        except Exception:  # strangers write payloads: the other jobs are recovered all the same
            log.exception("a job of dead process %s is moved without what it is tied to", owner)
            return decision

    def tied(decision: RecoveryDecision, found: FoundJob) -> RecoveryDecision:
        raw, error = found.payload, decision.error
        effects = [effect for part in parts for effect in part.recovered(found, error)]
        state: StateWord = "waiting" if error is None else "dead"
        written = decision.payload
        ties = moved(raw if error is None else written, state, now=wall())  # with the error, for the batch's deaths
        if error is not None:
            written = buried(written)
        return replace(decision, payload=written, effects=(*effects, *ties))

    return judge


def report(jobs: Iterable[Recovered], what: str) -> None:
    """Logs one line for each job, as soon as the broker has recovered it."""
    for job in jobs:
        log.warning("%s %s: %s", what, job.owner, describe_job(job.payload, job.queue))


def report_unfinished(deliveries: Iterable[tuple[Delivery, Stage]]) -> None:
    """Logs one line for each job that a stop has given back."""
    for delivery, stage in deliveries:
        why = "was not acknowledged" if stage is Stage.KEPT else "not finished in time"
        log.warning("%s, requeued: %s", why, describe_job(delivery.payload, delivery.queue))


def report_left(broker: Broker, unsettled: Sequence[Delivery]) -> int:
    """Logs how many of these deliveries are in progress after a stop, and returns that."""
    left = len(unsettled) - len(broker.recoverable.lost(unsettled)) if unsettled else 0
    if left:
        log.error(
            "jobs that stay in progress, because %s refuses to take them back: %d; mend what it refuses, and the next "
            "process recovers them", broker.name, left,
        )  # fmt: skip
    return left
