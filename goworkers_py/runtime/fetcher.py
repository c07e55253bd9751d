"""One queue's fetcher thread: moves payloads from the server into the local buffer, as many as there is room for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.brokers.contracts import Broker
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerFull, LeaseGone
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.runtime.buffer import Buffer
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.unsettled import Unsettled, unheld

log = logging.getLogger(__name__)

# A reply can get lost while both sides live on. After an error the fetcher looks at once what the server thinks it
# has, and now and then without one.
RECONCILE_EVERY_S = 10.0
ROOM_WAIT_S = 5.0
# A paused queue's fetcher sleeps so long at a time.
PAUSED_LOOK_S = 5.0
FULL_SERVER_PAUSE_S = 0.5
# While a suspect runs alone, mostly for a moment.
QUARANTINE_LOOK_S = 0.02
LONGEST_RETURN_S = 0.5
# No job of the queue has ended for so long: the threads are held by long ones. As long as a reserve should last.
STALLED_AFTER_S = 0.02
# Jobs that ran but cannot be settled count against the next fetch when there are so many.
MOST_UNSETTLED = 1_000
# A list of more jobs is counted first: it is read only where it holds more than this process knows of.
MOST_READ_UNCOUNTED = 1_000

# Unlike every job, and unlike None, which means that none is done yet.
_NEVER = Delivery(b"", "", "")


class Fetcher(BrokerService):
    """The only one that adds to `held` and `buffer`."""

    def __init__(
        self,
        queue: str,
        broker: Broker,
        lease: Lease,
        buffer: Buffer,
        held: Unsettled,
        concurrency: int,
        pace: AdaptivePrefetch,
        give_back: Callable[[list[Delivery]], None],
        outage: Outage,
        quarantine: Quarantine,
    ) -> None:
        super().__init__(f"fetcher:{queue}", outage)
        self._quarantine = quarantine
        self._queue = queue
        self._broker = broker
        self._lease = lease
        self._buffer = buffer
        self._held = held
        self._concurrency = concurrency
        self._pace = pace
        self._give_back = give_back
        self._going_back: list[Delivery] = []  # the last that were given back
        # What was done last when the jobs of the buffer were given back: there is no reserve until another one is.
        self._stalled_at: Delivery | None = _NEVER
        self._reconcile_at = 0.0
        self._may_fetch = threading.Event()  # not while the queue is paused
        self._may_fetch.set()

    def run_once(self) -> float:
        if time.monotonic() >= self._reconcile_at:
            self._reconcile(self._lease.identity)
        last_done = self._buffer.last_done
        reserve = 0 if last_done is self._stalled_at else self._pace.reserve()
        self._buffer.resize(self._concurrency + reserve)
        jobs_wait = self._pace.adapts and len(self._buffer) > 0
        # What is in reserve keeps the workers busy meanwhile, so there is no hurry to fill it up one by one.
        at_least = max(1, reserve // 2) if self._pace.adapts else 1
        room = self._buffer.room(STALLED_AFTER_S if jobs_wait else ROOM_WAIT_S, at_least)
        if self.stopping.is_set():
            return 0.0
        if room == 0:
            if jobs_wait:
                self._look_for_stall(last_done)
            return 0.0
        if pause_s := self._not_now():
            return pause_s
        self._await_return()
        owner = self._lease.identity  # only now: another than before the wait for room, if it was declared dead
        try:
            taken = self._broker.fetch(owner, self._queue, room, wait=not jobs_wait)
        except (BrokerFull, LeaseGone):
            return FULL_SERVER_PAUSE_S
        self._take(owner, taken)
        # The server is not waited for while jobs wait here: those are watched until a worker is free for them.
        if not taken and jobs_wait and not self._buffer.room(STALLED_AFTER_S, at_least=reserve + 1):
            self._look_for_stall(last_done)
        return 0.0

    def _not_now(self) -> float:
        """For how many seconds nothing is to be fetched; 0 to go on."""
        if self._quarantine.closed:
            return QUARANTINE_LOOK_S
        if self._too_much_unsettled() or not self._lease.fresh or not self._may_fetch.is_set():
            return FULL_SERVER_PAUSE_S
        return 0.0

    def _look_for_stall(self, last_done: Delivery | None) -> None:
        """Jobs that wait behind long ones go back, to whoever is free: their reserve was meant for short ones."""
        if self._buffer.last_done is last_done and not self.stopping.is_set():
            self._stalled_at = last_done
            self._go_back(self._buffer.drain())

    def _go_back(self, deliveries: list[Delivery]) -> None:
        self._going_back = deliveries
        self._give_back(deliveries)

    def _too_much_unsettled(self) -> bool:
        # First the cheap look, then the exact one: the jobs of workers that are stuck for good are held too.
        if len(self._held) - self._held.kept - self._buffer.out <= MOST_UNSETTLED:
            return False
        return sum(delivery.ended for delivery in self._held.snapshot()) > MOST_UNSETTLED

    def _await_return(self) -> None:
        """What is fetched before they are back would run before them. A server that refuses them stops nothing else."""
        self._held.await_gone(self._going_back, LONGEST_RETURN_S)
        self._going_back = []

    def _take(self, owner: str, raws: list[bytes]) -> None:
        if raws:
            deliveries = [Delivery(raw, self._queue, owner) for raw in raws]
            self._held.add(deliveries)
            if not self._is_allowed():
                self._go_back(deliveries)  # they were on their way when the queue was paused
                return
            self._buffer.put(deliveries)
            if not self._is_allowed():
                self._go_back(self._buffer.drain())  # it was paused this very moment
            if len(raws) == 1:
                time.sleep(0)  # lets go of the interpreter, for which the worker that was just woken would wait

    def _reconcile(self, owner: str) -> None:
        """Runs what the server says is ours and we do not know of: the reply that brought it was lost."""
        held = self._held.snapshot()  # before the look at the server, see `unheld`
        if self._may_lack_some(owner, held):
            lost = unheld(owner, reversed(self._broker.held(owner, self._queue)), held)
            if lost:
                log.warning(
                    "queue %s: %d jobs were fetched but their reply was lost; running them", self._queue, len(lost)
                )
                self._take(owner, lost)
        self._reconcile_at = time.monotonic() + RECONCILE_EVERY_S

    def _may_lack_some(self, owner: str, held: list[Delivery]) -> bool:
        """Whether it is worth to read the whole list. Jobs that are just being settled may hide as many that were lost,
        until a later look; not from the look after an error."""
        if len(held) <= MOST_READ_UNCOUNTED or self._reconcile_at == 0.0:
            return True
        return self._broker.count_held(owner, self._queue) > sum(delivery.owner == owner for delivery in held)

    def look_once_more(self) -> None:
        """After the end of this thread: did the reply get lost to its last fetch?"""
        if self._reconcile_at == 0.0 and not self._outage.lasts:
            with suppress(BrokerError):  # then it is found at the farewell
                self._reconcile(self._lease.identity)

    def after_failure(self) -> None:
        self._reconcile_at = 0.0

    def wait_between(self, seconds: float) -> None:
        if self._may_fetch.is_set():
            super().wait_between(seconds)
        else:
            self._may_fetch.wait(PAUSED_LOOK_S)

    def _is_allowed(self) -> bool:
        """Not while the queue is paused, nor while a suspect runs alone in this process."""
        return self._may_fetch.is_set() and not self._quarantine.closed

    def pause(self) -> None:
        """Fetches nothing until `resume`. From any thread."""
        self._may_fetch.clear()
        self._end_fetch()

    def resume(self) -> None:
        self._may_fetch.set()

    def wake(self) -> None:
        self._buffer.close()
        self._may_fetch.set()  # which does no harm: it is stopping
        self._end_fetch()

    def _end_fetch(self) -> None:
        try:
            self._broker.wake(self._queue)
        except BrokerError:
            log.debug("cannot wake %s; its fetch ends by itself", self.name)
