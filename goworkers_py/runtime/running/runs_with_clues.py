"""Runs the jobs that a broker without leases has delivered again and again, and buries those that kill their processes.

The steps of a job whose clues have a name, see `contracts.death_clues`:

1. The clues that stand are counted: each is of a process that died in a run of the job, as far as is known.
2. With `poison_limit` clues, and that of a run alone, the job waits for GRACE_S without a run. A process that has only
   lost its connection takes the clue of its run alone back within that time. If that clue still stands then, the job is
   buried.
3. With one clue less than `poison_limit`, or more, the job is a suspect and runs in quarantine, which leaves the clue
   of the run alone.
4. A clue is left, the job runs, and when the run has ended all its clues are taken back.

A crash between steps 3 and 4 leaves no clue that counts. After a crash between the end of the run and the end of step 4
one clue too many stands; the process survived the run, so this happens by chance only, and not `poison_limit` times.

After a lost connection two processes may have the same job, and one takes back what the other has left. So a suspect is
found later, but no job is convicted: of the clues of a run alone those stand whose process died, or was cut off for
longer than GRACE_S.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from goworkers_py.brokers.contracts.death_clues import DeathClues
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.outcome import Dead, Outcome, Requeue, Reschedule
from goworkers_py.core.timing import TIMING
from goworkers_py.links.chain import Run
from goworkers_py.links.handlers import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.poison import PoisonPolicy, clue_name_of, verdict_at
from goworkers_py.runtime.running.lone_clue import LoneClue
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.wire.message import Message, describe_job
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

# As with a lease: a process that was cut off from its broker for so long counts as dead.
GRACE_S = TIMING.lease_s
# A connection of its own brings the jobs. When the network is cut, that one is known to be lost a moment later.
KNOWN_LOST_S = 0.5


class RunsWithClues:
    """Shared by all workers."""

    def __init__(
        self,
        clues: DeathClues,
        policy: PoisonPolicy,
        quarantine: Quarantine,
        handlers: Handlers,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._clues = clues
        self._policy = policy
        self._quarantine = quarantine
        self._handlers = handlers
        self._counters = counters
        self._wall: Callable[[], float] = clock.wall

    def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        """In a worker's thread. Runs a job whose clues have no name as the quarantine does."""
        name = clue_name_of(message) or delivery.clue_name
        if not name or not self._policy.limit:
            return self._quarantine.run(message, delivery, chain)
        try:
            deaths, alone = self._clues.runs(name), self._clues.ran_alone(name)
        except BrokerRefused as error:
            log.warning("it came again and again, but its clues cannot be read, so no death is counted: %s", error)
            return chain(message)
        except BrokerError as error:
            log.warning("not run now, requeued: its clues cannot be read: %s", error)
            machine.sleep(KNOWN_LOST_S)
            deaths, alone = -1, False
        counted = self._policy.counted(message, name, max(deaths, 0), self._wall())
        if counted is None:
            return chain(message)
        if deaths < 0:
            return self._requeued(counted, delivery)
        if alone and deaths >= self._policy.limit:
            return self._judge(counted, deaths)
        if verdict_at(counted) is not None:  # so the next verdict has its own time of grace
            return Requeue(self._policy.awaiting_verdict(counted, None), last=True)
        return self._run(message, counted, delivery, chain, name)

    def _run(self, message: Message, counted: Message, delivery: Delivery, chain: Run, name: str) -> Outcome:
        run = _RunWithClues(self._clues, name, message, chain)
        outcome = self._quarantine.run(counted, delivery, run, LoneClue(self._clues, name, delivery))
        if isinstance(outcome, Requeue) and outcome.last and not run.begun:
            return self._requeued(counted, delivery)
        return outcome

    def _requeued(self, counted: Message, delivery: Delivery) -> Requeue:
        """A new message, whose name is only in its payload. None for a delivery that is lost: it comes again by itself,
        and would run beside the new message."""
        return Requeue(counted.raw, last=True) if self._clues.is_ours(delivery) else Requeue()

    def _judge(self, counted: Message, deaths: int) -> Outcome:
        now, at = self._wall(), verdict_at(counted)
        # A job that Ruby cannot read must not wait in the schedule of a store, which Ruby reads: it is buried at once.
        if (at is None or now < at) and not ruby_flaw(counted.raw):
            at = now + GRACE_S if at is None else min(at, now + GRACE_S)
            log.warning("suspected of having crashed %d processes: waits %.0f s for one that may have lost its "
                        "connection only, and is buried then", deaths, at - now)  # fmt: skip
            return Reschedule(at, self._policy.awaiting_verdict(counted, at))
        decision = self._policy.bury(counted, deaths, now)
        assert decision.error is not None
        self._counters.add("poison")
        log.error("poison: %s: %s", describe_job(counted.raw, counted.queue), decision.error)
        self._handlers.tell_of_death(counted, decision.error)
        return Dead(decision.payload)


class _RunWithClues:
    """The chain around one run, which leaves a clue before it and takes all clues back after it."""

    def __init__(self, clues: DeathClues, name: str, message: Message, chain: Run) -> None:
        self._clues, self._name, self._message, self._chain = clues, name, message, chain
        self._pid = os.getpid()
        self.begun = False

    def __call__(self, counted: Message) -> Outcome:
        try:
            self._clues.leave(self._name)
        except BrokerRefused as error:
            log.warning("it came again and again, but no clue can be left, so no death is counted: %s", error)
        except BrokerError as error:
            log.warning("not run now, requeued: no clue can be left: %s", error)
            machine.sleep(KNOWN_LOST_S)
            return Requeue(last=True)
        self.begun = True
        try:
            return self._chain(self._message)
        finally:
            if os.getpid() == self._pid:  # not in a child that a link forked
                self._clear()

    def _clear(self) -> None:
        try:
            self._clues.clear(self._name)
        except BrokerError as error:
            # A clue too many makes the job a suspect sooner. It does not convict: the clue of a run alone does.
            log.debug("cannot take back the clues of a run: %s", error)
