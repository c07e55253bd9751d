"""A pool's fetcher thread: consumes deliveries from the broker into the local buffer, while there is room."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import BrokerError, BrokerFull, LeaseGone
from goworkers_py.policy.priorities import Priorities
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)

# How long a fetcher whose queues are all paused sleeps at a time.
PAUSED_LOOK_S = 5.0
FULL_SERVER_PAUSE_S = 0.5
# Between two looks while a suspect is in quarantine, which mostly takes a moment.
QUARANTINE_LOOK_S = 0.02
LONGEST_RETURN_S = 0.5
# When no job of the queue has ended for this long, long jobs hold its workers, and the jobs in reserve are given back.
# It is the time for which a reserve should last.
STALLED_AFTER_S = 0.02
# When more jobs than this have ended and cannot be settled, no more are fetched.
MOST_UNSETTLED = 1_000
UNSETTLED_LOOK_S = 0.1

# A marker: differs from every delivery, and from None, which means that no job is done yet.
_NEVER = Delivery(b"", "", "")


class Fetcher(BrokerService):
    """Its thread is the only one that adds deliveries to `Unsettled` and `Buffer`. After its end, the thread that stops
    the process does so once, in `look_once_more`."""

    # The reply to a fetch can get lost while the process and the broker live on. So the fetcher asks the broker which
    # deliveries this process holds: in its next step after an error, and this often without an error.
    reconcile_every_s = 10.0
    room_wait_s = 5.0
    # How much of the reserve must have been taken before more is fetched.
    refill_share = 0.5

    def __init__(
        self, transport: Transport, pool: Pool, shared: Shared, give_back: Callable[[Sequence[Delivery]], None]
    ) -> None:
        super().__init__(f"fetcher:{pool.label}", shared.outage)
        self._transport = transport
        self._queues = pool.queues
        self._concurrency = pool.concurrency
        self._buffer = pool.buffer
        self._unsettled = pool.unsettled
        self._prefetch = pool.prefetch
        self._priorities = pool.priorities
        self._lease = shared.lease
        self._quarantine = shared.quarantine
        self._give_back = give_back
        self._going_back: list[Delivery] = []  # the deliveries that were given back last
        # `Buffer.last_done` when the buffered jobs were given back. No reserve is fetched until another job is done.
        self._stalled_at: Delivery | None = _NEVER
        self._reconcile_at = 0.0
        # Changed by the thread that pauses. Each change, and each look of the fetcher's thread, is one step of C code.
        self._paused: set[str] = set()
        self._held = False  # nothing is fetched until `release`; changed under `_switching`
        self._may_fetch = machine.Event()  # cleared while all queues are paused, or `_held`
        self._may_fetch.set()
        self._switching = machine.Lock()  # the threads that pause, hold and release

    def run_once(self) -> float:
        try:
            return self._fetch()
        except (BrokerFull, LeaseGone):
            self.after_failure()  # the broker may have moved jobs before it said no
            return FULL_SERVER_PAUSE_S

    def _fetch(self) -> float:
        if machine.monotonic() >= self._reconcile_at:
            self._reconcile()
        last_done = self._buffer.last_done
        reserve = 0 if last_done is self._stalled_at else self._prefetch.reserve()
        self._buffer.resize(self._concurrency + reserve)
        jobs_wait = self._prefetch.adapts and len(self._buffer) > 0
        # The jobs in reserve keep the workers busy, so the fetcher waits for room for several jobs at once.
        at_least = max(1, int(reserve * self.refill_share)) if self._prefetch.adapts else 1
        room = self._await_room(STALLED_AFTER_S if jobs_wait else self.room_wait_s, at_least)
        if self.stopping.is_set():
            return 0.0
        if room == 0:
            if jobs_wait:
                self._look_for_stall(last_done)
            return 0.0
        if (pause_s := self._not_now()) is not None:
            return pause_s
        taken = self._consume(room, 0 if jobs_wait else math.inf)
        # While jobs wait in the buffer, `consume` does not wait at the broker. Instead the fetcher waits here until a
        # worker is free for those jobs, or until they have waited too long.
        if not taken and jobs_wait and not self._await_room(STALLED_AFTER_S, at_least=reserve + 1):
            self._look_for_stall(last_done)
        return 0.0

    def _await_room(self, timeout_s: float, at_least: int) -> int:
        """The fetcher of several queues waits for higher jobs meanwhile."""
        return self._buffer.room(timeout_s, at_least)

    def _consume(self, room: int, wait_s: float) -> int:
        """Consumes as many jobs as there is room for, by priority. Returns how many came."""
        self._await_return()
        paused = self._paused.copy()
        asks = self._priorities.asks([queue for queue in self._queues if queue not in paused], room)
        # `identity` is read after the wait for room, because it may have changed meanwhile.
        taken = self._transport.consume(self._lease.identity, [*asks, *((queue, 0) for queue in paused)], room, wait_s)
        self._priorities.note(delivery.queue for delivery in taken)
        self._take(taken, room)
        return len(taken)

    def _not_now(self) -> float | None:
        """Seconds to pause because nothing may be fetched now; None to fetch."""
        if self._quarantine.closed:
            return QUARANTINE_LOOK_S
        if not self._lease.fresh or not self._may_fetch.is_set():
            return FULL_SERVER_PAUSE_S
        if self._too_much_unsettled():
            self._unsettled.await_removal(UNSETTLED_LOOK_S)
            return 0.0
        return None

    def _look_for_stall(self, last_done: Delivery | None) -> None:
        """Gives back jobs that wait here behind long ones: another process may be free. A reserve is for short jobs."""
        if self.stopping.is_set():
            return
        if self._buffer.last_done is last_done:
            self._stalled_at = last_done
            self._go_back(self._buffer.take_back())
            return
        reserve = self._prefetch.reserve()
        if len(self._buffer) > 2 * reserve + self._concurrency:  # the jobs have become longer since they were fetched
            self._go_back(self._buffer.rearrange(lambda waiting: (waiting[:reserve], waiting[reserve:])))

    def _go_back(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            before = [delivery for delivery in self._going_back if delivery in self._unsettled.deliveries]
            self._going_back = [*before, *deliveries]
            self._give_back(deliveries)

    def _too_much_unsettled(self) -> bool:
        # First a cheap count. It also counts the jobs of replaced workers, which are stuck; the exact count does not.
        if len(self._unsettled) - self._unsettled.kept - self._buffer.out <= MOST_UNSETTLED:
            return False
        stages = [delivery.stage for delivery in self._unsettled.snapshot()]
        return stages.count(Stage.ENDED) > MOST_UNSETTLED

    def _await_return(self) -> None:
        """Waits until the deliveries that were given back are in their queue: jobs fetched before would overtake them.
        The wait is short, so that a broker that refuses to take them back does not stop the queue."""
        if self._going_back:
            self._unsettled.await_gone(self._going_back, LONGEST_RETURN_S)
            self._going_back = []

    def _take(self, deliveries: list[Delivery], room: int) -> None:
        if deliveries:
            self._unsettled.add(deliveries)
            if closed := self._closed_queues():  # paused while the reply was on its way
                self._go_back([delivery for delivery in deliveries if delivery.queue in closed])
                deliveries = [delivery for delivery in deliveries if delivery.queue not in closed]
            if deliveries:
                self._put(deliveries, room)
            if closed := self._closed_queues():
                # Paused after the check above: the pausing thread may have drained the buffer before `put`.
                self._go_back(self._buffer.take_back(closed))
            if len(deliveries) == 1:
                machine.sleep(0)  # releases the interpreter's lock, for which the woken worker waits

    def _put(self, deliveries: list[Delivery], room: int) -> None:
        """The fetcher of several queues gives back those for which there is no `room`."""
        self._buffer.put(deliveries)

    def _closed_queues(self) -> Collection[str]:
        """The paused queues; all queues while nothing is fetched, or this process is closed for a suspect."""
        return self._queues if self._held or self._quarantine.closed else self._paused.copy()

    def _reconcile(self) -> None:
        """Runs the deliveries that are in progress here by the broker's account only: their reply was lost."""
        after_failure = self._reconcile_at == 0.0
        self._take(self._transport.end_waits(self._queues), self._buffer.room(0))
        for queue in self._queues:
            known = self._unsettled.of_queue(queue)  # read before the broker is asked, see `Transport.lost_replies`
            lost = self._transport.lost_replies(self._lease.identity, queue, known, thorough=after_failure)
            if lost:
                log.warning("queue %s: %d jobs were fetched but their reply was lost; running them", queue, len(lost))
                self._take(lost, len(lost))
        self._reconcile_at = machine.monotonic() + self.reconcile_every_s

    def look_once_more(self) -> None:
        """Called after the end of this thread: finds the deliveries of its last fetch if their reply was lost."""
        if self._reconcile_at == 0.0 and not self._outage.lasts:
            with suppress(BrokerError):  # then they are requeued when the process deregisters
                self._reconcile()

    def after_failure(self) -> None:
        self._reconcile_at = 0.0

    def wait_between(self, seconds: float) -> None:
        if self._may_fetch.is_set():
            super().wait_between(seconds)
        else:
            self._may_fetch.wait(PAUSED_LOOK_S)

    def pause(self, queue: str) -> None:
        """Fetches nothing from this queue until `resume`. From any thread."""
        with self._switching:
            self._paused.add(queue)
            self._admit()
        self._end_fetch()

    def resume(self, queue: str) -> None:
        with self._switching:
            self._paused.discard(queue)
            if self._may_fetch.is_set():
                self._end_fetch()  # which waits for the other queues of the pool only
            self._admit()

    def hold(self) -> None:
        """Fetches nothing until `release`. Jobs of a fetch that is on its way go back. From any thread."""
        with self._switching:
            self._held = True
            self._admit()
        self._end_fetch()

    def release(self) -> None:
        with self._switching:
            self._held = False
            self._admit()

    def _admit(self) -> None:
        if self._held or len(self._paused) == len(self._queues):
            self._may_fetch.clear()
        else:
            self._may_fetch.set()

    def resize(self, concurrency: int) -> None:
        """In the watchdog's thread: from now on the pool has so many workers."""
        self._concurrency = concurrency  # before the buffer: each fetch resizes it by this field
        self._prefetch.resize(concurrency)
        self._buffer.resize(concurrency)
        self._end_fetch()  # it waits for as many jobs as there was room for

    def prioritize(self, priorities: Priorities) -> None:
        """From any thread: one assignment, and each step of the fetcher's thread uses the new priorities."""
        self._priorities = priorities

    def wake(self) -> None:
        self._buffer.close()
        self._may_fetch.set()  # only ends `wait_between`: nothing is fetched, because `stopping` is set
        self._end_fetch()

    def _end_fetch(self) -> None:
        try:
            self._transport.wake(self._queues[0])
        except BrokerError:
            log.debug("cannot wake %s; its fetch ends by itself", self.name)
