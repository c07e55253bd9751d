"""The fetcher of a pool of several queues. It differs from that of one queue while there is no room in the buffer.

A job of a higher queue must not wait there behind jobs of lower queues. So the fetcher still waits for the queues that
outrank a buffered job, and puts what comes before that job, beyond the capacity if need be. When too many lower jobs
were overtaken, or for too long, they go back: another process may be free for them.

The broker may leave waits running, see `Transport.consume`. A job that such a wait brings while there is no room goes
back as well, unless it outranks a buffered one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.runtime.fetching.fetcher import Fetcher
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.shared import Shared


class PoolFetcher(Fetcher):
    # Its thread wakes up sooner than that of one queue: a ring frees the interpreter for a moment. So it waits for more
    # room, or it would fetch fewer jobs at a time.
    refill_share = 0.75

    def __init__(
        self, transport: Transport, pool: Pool, shared: Shared, give_back: Callable[[Sequence[Delivery]], None]
    ) -> None:
        super().__init__(transport, pool, shared, give_back)
        self._lowest = 0  # the rank of the lowest job in the buffer; too low a job when workers have taken it since
        pool.buffer.ring = self._end_fetch

    def run(self) -> None:
        super().run()
        try:
            self._go_back_unseen(self._transport.end_waits(self._queues))
        except BrokerError:
            self.after_failure()  # `look_once_more` finds the jobs that the waits took

    def _not_now(self) -> float | None:
        pause_s = super()._not_now()
        if pause_s is not None:
            self._go_back_unseen(self._transport.end_waits(self._queues))
        return pause_s

    def _go_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._unsettled.add(deliveries)
        self._go_back(deliveries)

    def _consume(self, room: int, wait_s: float) -> int:
        self._end_waits_of_paused()
        return super()._consume(room, wait_s)

    def _end_waits_of_paused(self) -> None:
        if paused := sorted(self._paused):
            self._go_back_unseen(self._transport.end_waits(paused))

    # --- while there is no room

    def _await_room(self, timeout_s: float, at_least: int) -> int:
        give_up_at = machine.monotonic() + timeout_s
        while not self.stopping.is_set():
            if room := self._buffer.expect_room(at_least):
                return room
            left_s = give_up_at - machine.monotonic()
            if left_s <= 0:
                self._go_back_overtaken(most=0)
                return 0
            if (pause_s := self._not_now()) is not None:
                return self._buffer.room(min(left_s, pause_s), at_least)
            self._take_higher(left_s)
        return 0

    def _take_higher(self, wait_s: float) -> None:
        """Waits for jobs that outrank a buffered one, and for a worker that rings because there is room."""
        self._end_waits_of_paused()
        self._await_return()
        asks = [(queue, self._concurrency if self._outranks(queue) else 0) for queue in self._queues]
        taken = self._transport.consume(self._lease.identity, asks, self._concurrency, wait_s)
        self._take(taken, room=0)

    def _outranks(self, queue: str) -> bool:
        return len(self._buffer) > 0 and self._priorities.rank(queue) < self._lowest and queue not in self._paused

    def _put(self, deliveries: list[Delivery], room: int) -> None:
        if len({delivery.queue for delivery in deliveries}) > 1:
            deliveries = self._priorities.in_turn(deliveries)
        if len(self._buffer) == 0:
            self._lowest = 0
        late = deliveries[room:]
        if late:
            self._go_back([delivery for delivery in late if self._rank(delivery) >= self._lowest])
            deliveries = deliveries[:room] + [delivery for delivery in late if self._rank(delivery) < self._lowest]
        if deliveries:
            if self._rank(deliveries[0]) < self._lowest:
                self._buffer.put_by_rank(deliveries, self._rank)
            else:
                self._buffer.put(deliveries)
            self._lowest = max(self._lowest, self._rank(deliveries[-1]))
            self._go_back_overtaken(most=self._concurrency)

    def _rank(self, delivery: Delivery) -> int:
        return self._priorities.rank(delivery.queue)

    def _go_back_overtaken(self, most: int) -> None:
        """When more than `most` jobs are out beyond the capacity: gives back as many of the lowest ones."""
        beyond = self._buffer.out - self._buffer.capacity
        if beyond > most:
            self._go_back(self._buffer.rearrange(lambda waiting: self._without_lowest(waiting, beyond)))

    def _without_lowest(self, waiting: list[Delivery], how_many: int) -> tuple[list[Delivery], list[Delivery]]:
        tail = waiting[-how_many:]
        back = [delivery for delivery in tail if self._rank(delivery) > self._rank(waiting[0])]
        return waiting[: len(waiting) - len(back)], back
