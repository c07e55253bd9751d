"""Runs a suspect alone in its process, so that a death of the process proves that the suspect caused it.

A suspect was running when earlier processes died, see `poison`. The worker that takes it goes through these steps:

1. It sets `closed`. From then on no other worker begins a job and the fetchers fetch none; jobs that wait in this
   process go back to their queues.
2. It waits until no other job runs. If other jobs run for longer than its patience, it clears `closed` and reschedules
   the suspect. After some such rounds the suspect runs beside other jobs, which proves nothing. A suspect that Ruby
   cannot read runs beside other jobs at once, because Ruby reads the schedule.
3. It sends a beat with the suspect's name. Only a name that the broker has confirmed can convict a job.
4. It runs the suspect. When the suspect has ended, or has run alone for a while, a beat takes the name back.
5. When the broker has confirmed that beat, `closed` is cleared: no other job begins while a suspect's name is set.

A crash before step 3 or after step 5 leaves no name, and a crash between them happens while nothing else runs. A stop
takes the name back too: a kill during a stop proves nothing about the job.

Where the broker delivers jobs again by itself, nobody looks at the name. Then the suspect has a `LoneClue` beside it,
which the thread that beats leaves and takes back together with the name.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable

from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.outcome import REQUEUE, REQUEUE_LAST, Outcome, Reschedule
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.core.values import dataclass
from goworkers_py.links.chain import Run
from goworkers_py.observe.health_report import OF_SUSPECT
from goworkers_py.policy.poison import PoisonPolicy, name_of
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.running.lone_clue import LoneClue
from goworkers_py.wire.message import Message
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.02
# When a suspect has waited N seconds in vain, no suspect waits for the next REST * N seconds: so other jobs are held up
# for a tenth of the time. A round without a wait counts too, so that each of many suspects reaches its last round.
REST = 9
# A process that is closed for longer than this reports it in `trouble`.
TOLD_AFTER_S = 20.0


@dataclass(eq=False, slots=True)
class _Suspect:
    delivery: Delivery
    name: str
    about: str  # class and jid, for people
    clue: LoneClue | None = None
    announced: bool = False  # the broker may have the name
    over: bool = False  # its worker has released it
    alone_until: float = math.inf  # monotonic

    def is_over(self, now: float) -> bool:
        # A worker that an exception from outside broke off settles its delivery without coming back to `run` here.
        ended = self.delivery.stage in (Stage.ENDED, Stage.KEPT)
        return self.over or ended or self.is_lost or now >= self.alone_until

    @property
    def is_lost(self) -> bool:
        return self.clue is not None and not self.clue.is_ours


class Quarantine:
    """Shared by all workers, the fetchers and the threads that beat."""

    def __init__(
        self,
        policy: PoisonPolicy,
        lease: Lease,
        clock: Clock,
        beat: Callable[[], None],
        others_run: Callable[[Delivery], bool],
        give_back_waiting: Callable[[], None],
    ) -> None:
        self._policy = policy
        self._lease = lease
        self._clock = clock
        self._beat = beat
        self._others_run = others_run
        self._give_back_waiting = give_back_waiting
        self._pid = os.getpid()
        self._lock = lock_outside_runs()
        self._suspect: _Suspect | None = None  # changed under the lock
        self.closed = False  # while there is a suspect; each worker reads it for each job, without the lock
        self._closed_at = 0.0  # monotonic
        self._no_wait_until = -math.inf  # monotonic: until then no suspect waits, see REST
        self._stopping = False

    def stop(self) -> None:
        """A suspect that still waits goes back to its queue, and no beat sends a suspect's name any more."""
        self._stopping = True

    @property
    def trouble(self) -> str:
        """Why this process fetches nothing, for people; empty when it is not closed, or only for a short time."""
        seconds = self._clock.monotonic() - self._closed_at
        suspect = self._suspect
        if suspect is None or seconds < TOLD_AFTER_S:
            return ""
        return f"has begun no other jobs for {seconds:.0f} s, {OF_SUSPECT} {suspect.about}"

    def run(self, message: Message, delivery: Delivery, chain: Run, clue: LoneClue | None = None) -> Outcome:
        """In a worker's thread. Runs a suspect as the module tells; any other job goes into the chain at once."""
        if not self._policy.is_suspect(message):
            return chain(message)
        patience_s = self._policy.patience_s(message)
        if patience_s is None and self._others_run(delivery):
            return _run_beside(message, chain, "this process is never without other jobs")
        suspect = _Suspect(delivery, name_of(message), f"class={message.job_class} jid={message.jid}", clue)
        try:
            if not self._admit(suspect):
                return REQUEUE_LAST
            self._give_back_waiting()
            if not self._wait_until_alone(suspect, patience_s or 0.0):
                return self._waited_in_vain(suspect, message, chain)
            if not self._announce(suspect, self._policy.alone_s(message)):
                return REQUEUE_LAST
            log.warning("running alone: suspected of having crashed earlier processes")
            return chain(message)
        finally:
            if os.getpid() == self._pid:  # not in a child that a link forked
                self._release(suspect)

    def _admit(self, suspect: _Suspect) -> bool:
        with self._lock:
            if self._suspect is not None:
                return False
            # This worker's thread sets `closed` before it looks which jobs run (`_others_run`). Any other worker's
            # thread sets `begun_at` of its delivery before it reads `closed`. So at least one of them sees the other.
            self._suspect, self.closed, self._closed_at = suspect, True, self._clock.monotonic()
            return True

    def _wait_until_alone(self, suspect: _Suspect, patience_s: float) -> bool:
        began = self._clock.monotonic()
        give_up_at = began if began < self._no_wait_until else began + patience_s
        if give_up_at > began and self._others_run(suspect.delivery):
            log.warning("suspected of having crashed earlier processes: waits up to %g s for other jobs to end, then "
                        "runs alone; no other job begins meanwhile", patience_s)  # fmt: skip
        while self._others_run(suspect.delivery):
            now = self._clock.monotonic()
            if self._stopping or now >= give_up_at:
                self._no_wait_until = max(self._no_wait_until, now + REST * (now - began))
                return False
            # No Event: an exception thrown into its `wait` could leave its lock locked.
            machine.sleep(LOOK_EVERY_S)
        return not self._stopping

    def _waited_in_vain(self, suspect: _Suspect, message: Message, chain: Run) -> Outcome:
        if self._stopping:
            return REQUEUE
        if flaw := ruby_flaw(message.raw):  # the job would wait in the schedule, which Ruby reads
            self._release(suspect)
            return _run_beside(message, chain, f"it cannot wait in the schedule, because {flaw}")
        away_s, raw = self._policy.away_s(message), self._policy.next_round(message)
        log.info("suspected of having crashed earlier processes: other jobs run here, rescheduled in %g s to run alone",
                 away_s)  # fmt: skip
        return Reschedule(self._clock.wall() + away_s, raw)

    def _announce(self, suspect: _Suspect, alone_s: float) -> bool:
        with self._lock:
            suspect.announced, suspect.alone_until = True, self._clock.monotonic() + alone_s
        try:
            self._beat()
        except BrokerError as error:
            log.warning("suspect not run now, requeued: its name could not be sent to the broker: %s", error)
            return False
        # False: the identity that fetched the suspect was declared dead, and the suspect was recovered.
        return self._lease.surely_of(suspect.delivery.identity)

    def _release(self, suspect: _Suspect) -> None:
        with self._lock:
            suspect.over = True
            if self._suspect is not suspect:
                return
            if not suspect.announced:
                self._open()
                return
        try:
            self._beat()
        except BrokerError as error:
            log.debug("cannot take back the name of a suspect; the next beat does: %s", error)

    def announcement(self) -> str:
        """The suspect's name, for the beat that is about to be sent; empty if there is none to send."""
        with self._lock:
            suspect = self._suspect
            if suspect is None or not suspect.announced or self._stopping or suspect.is_over(self._clock.monotonic()):
                return ""
            return suspect.name

    def announced(self, name: str) -> None:
        """The broker has confirmed a beat with this name; an empty one takes the earlier name back. Only one thread at
        a time beats, so the clue is not left while it is taken back."""
        suspect = self._suspect
        if suspect is None:
            return
        if suspect.clue is not None and not _move_clue(suspect.clue, left=bool(name)):
            return
        with self._lock:
            if name or self._suspect is not suspect or not suspect.is_over(self._clock.monotonic()):
                return
            self._open()
        if not (suspect.over or suspect.delivery.stage is Stage.ENDED):
            why = "was given to another process" if suspect.is_lost else "has run alone for long"
            log.warning("suspect %s; other jobs run beside it now: %s", why, suspect.about)

    def _open(self) -> None:
        """Under the lock."""
        self._suspect, self.closed = None, False


def _move_clue(clue: LoneClue, left: bool) -> bool:
    """False when a clue that is to be taken back may still stand: the next beat tries again. Raises BrokerError when it
    could not be left, so the suspect does not run."""
    if left:
        clue.leave()
        return True
    try:
        clue.take_back()
    except BrokerError as error:
        log.debug("cannot take back the clue of a suspect: %s", error)
        return False
    return True


def _run_beside(message: Message, chain: Run, why: str) -> Outcome:
    log.warning("suspected of having crashed earlier processes, but %s: running beside other jobs", why)
    return chain(message)
