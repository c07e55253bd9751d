"""Runs a suspect alone in its process, so that a death of the process proves that the suspect caused it.

A suspect was running when earlier processes died, see `poison`. The worker that takes one goes through these steps:

1. `closed` turns true. From then on no other worker begins a job and the fetchers fetch none; jobs that wait in this
   process go back to their queues.
2. The worker waits until no other job runs. If others run for longer than its patience, `closed` turns false, and the
   suspect goes into the schedule, to come back. After some such rounds it runs beside the others, which proves nothing;
   one that Ruby cannot read does so at once, because Ruby reads the schedule.
3. A beat tells the server the suspect's name. Only a name that the server has confirmed can convict.
4. The suspect runs. After a while, or when it has ended, a beat takes the name back.
5. When the server has confirmed that, `closed` turns false: no job begins while the name of another stands.

A crash before step 3 or after step 5 leaves no name, and a crash between them happens while nothing else runs. A stop
takes the name back too: a kill during a stop says nothing of the job.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.outcome import REQUEUE, REQUEUE_LAST, Outcome, Reschedule
from goworkers_py.links.chain import Run
from goworkers_py.observe.health_report import OF_SUSPECT
from goworkers_py.policy.poison import PoisonPolicy, name_of
from goworkers_py.runtime.lease import Lease
from goworkers_py.wire.message import Message
from goworkers_py.wire.payload import ruby_flaw

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.02
# After a wait of N seconds in vain, no suspect waits for REST * N seconds: other jobs are held up for a tenth of the
# time. A round in that time counts all the same, so that many suspects come to an end.
REST = 9
# From then on `trouble` tells of a process that is closed.
TOLD_AFTER_S = 20.0


@dataclass(eq=False, slots=True)
class _Suspect:
    delivery: Delivery
    name: str
    about: str  # for people
    announced: bool = False  # the name may stand on the server
    over: bool = False  # it has ended, or has run alone for long enough
    alone_until: float = math.inf  # monotonic

    @property
    def is_over(self) -> bool:
        # A worker that was struck by an exception from outside ends its delivery without coming back to `run`.
        return self.over or self.delivery.ended or self.delivery.kept or time.monotonic() >= self.alone_until


class Quarantine:
    """Shared by all workers, the fetchers and whoever beats."""

    def __init__(
        self,
        policy: PoisonPolicy,
        lease: Lease,
        wall: Callable[[], float],
        beat: Callable[[], None],
        others_run: Callable[[Delivery], bool],
        give_back_waiting: Callable[[], None],
    ) -> None:
        self._policy = policy
        self._lease = lease
        self._wall = wall
        self._beat = beat
        self._others_run = others_run
        self._give_back_waiting = give_back_waiting
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._suspect: _Suspect | None = None  # changed under the lock
        self.closed = False  # while there is a suspect; read without the lock, by each worker for each job
        self._closed_at = 0.0  # monotonic
        self._no_wait_until = -math.inf  # monotonic: a wait in vain is followed by a longer time without one
        self._stopping = False

    def stop(self) -> None:
        """A suspect that still waits for the others goes back to its queue, and none is told of any more."""
        self._stopping = True

    @property
    def trouble(self) -> str:
        """For people who wonder why this process fetches nothing."""
        seconds = time.monotonic() - self._closed_at
        suspect = self._suspect
        if suspect is None or seconds < TOLD_AFTER_S:
            return ""
        return f"has begun no other jobs for {seconds:.0f} s, {OF_SUSPECT} {suspect.about}"

    def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        """In a worker's thread. The outcome of the chain, which a job that is no suspect is given to at once."""
        if not self._policy.is_suspect(message):
            return chain(message)
        patience_s = self._policy.patience_s(message)
        if patience_s is None and self._others_run(delivery):
            return _run_beside(message, chain, "this process is never without other jobs")
        suspect = _Suspect(delivery, name_of(message), f"class={message.job_class} jid={message.jid}")
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
            if os.getpid() == self._pid:  # and this is not the child of a link that forks
                self._release(suspect)

    def _admit(self, suspect: _Suspect) -> bool:
        with self._lock:
            if self._suspect is not None:
                return False
            # Before the look at who runs. A worker marks its job as begun before it looks at `closed`: so of the two
            # at least one sees the other.
            self._suspect, self.closed, self._closed_at = suspect, True, time.monotonic()
            return True

    def _wait_until_alone(self, suspect: _Suspect, patience_s: float) -> bool:
        began = time.monotonic()
        give_up_at = began if began < self._no_wait_until else began + patience_s
        if give_up_at > began and self._others_run(suspect.delivery):
            log.warning("suspected of having crashed earlier processes: other jobs have %g s to end, that it may run "
                        "alone; none begins meanwhile", patience_s)  # fmt: skip
        while self._others_run(suspect.delivery):
            now = time.monotonic()
            if self._stopping or now >= give_up_at:
                self._no_wait_until = max(self._no_wait_until, now + REST * (now - began))
                return False
            # Not on an Event, whose lock an exception that is thrown into this thread could leave locked.
            time.sleep(LOOK_EVERY_S)
        return not self._stopping

    def _waited_in_vain(self, suspect: _Suspect, message: Message, chain: Run) -> Outcome:
        if self._stopping:
            return REQUEUE
        if flaw := ruby_flaw(message.raw):  # Ruby reads the schedule, where the job would wait for its next round
            self._release(suspect)
            return _run_beside(message, chain, f"it cannot wait in the schedule, because {flaw}")
        away_s, raw = self._policy.away_s(message), self._policy.next_round(message)
        log.info("suspected of having crashed earlier processes: other jobs run here, comes back in %g s to run alone",
                 away_s)  # fmt: skip
        return Reschedule(self._wall() + away_s, raw)

    def _announce(self, suspect: _Suspect, alone_s: float) -> bool:
        with self._lock:
            suspect.announced, suspect.alone_until = True, time.monotonic() + alone_s
        try:
            self._beat()
        except BrokerError as error:
            log.warning("cannot tell Redis of a suspect, so it is not run now: %s", error)
            return False
        # Otherwise the suspect lies in the list of an identity that was declared dead, and others have it.
        return self._lease.surely_of(suspect.delivery.owner)

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
            log.debug("the next beat takes the name back: %s", error)

    def announcement(self) -> str:
        """The name to be told with the beat that is about to be sent."""
        with self._lock:
            suspect = self._suspect
            if suspect is None or not suspect.announced or suspect.is_over or self._stopping:
                return ""
            return suspect.name

    def announced(self, name: str) -> None:
        """The server has confirmed the beat that told this name."""
        with self._lock:
            suspect = self._suspect
            if name or suspect is None or not suspect.is_over:
                return
            self._open()
        if not (suspect.over or suspect.delivery.ended):
            log.warning("a suspect has run alone for long; other jobs run beside it now: %s", suspect.about)

    def _open(self) -> None:
        """Under the lock."""
        self._suspect, self.closed = None, False


def _run_beside(message: Message, chain: Run, why: str) -> Outcome:
    log.warning("suspected of having crashed earlier processes, but %s: running beside other jobs", why)
    return chain(message)
