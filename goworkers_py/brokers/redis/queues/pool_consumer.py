"""Consumes from the queues of a pool: asks all of them in one call of fetch.lua, and waits for each of them on a
connection of its own.

A wait is a BRPOPLPUSH that was sent and not answered. When one queue brings a job, `consume` returns, and the waits for
the other queues go on. While a wait for a queue goes on, that queue is empty, so fetch.lua is not asked for it.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence

from goworkers_py.brokers.bell import Bell
from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.waiting_line import WaitingLine
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.consumer import FETCHED_AT_ONCE, FETCHED_BYTES, RedisConsumer, grab, names_of
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, BrokerUnavailable
from goworkers_py.policy.priorities import Ask

# How soon a wait is ended again if an answer has not come.
UNBLOCKED_AFTER_S = 0.05


class PoolConsumer(RedisConsumer):
    """The thread of the fetcher uses it; any thread may call `wake`."""

    def __init__(self, connections: Connections, keys: Keys, block_s: float, queues: Sequence[str]) -> None:
        self._keys = keys
        self._block_s = block_s
        self._longest_s = block_s + connections.reply_margin_s
        self.line = connections.blocking_line(block_s)
        self._waits = {queue: connections.waiting_line(block_s) for queue in queues}
        self._identity = dict.fromkeys(queues, "")  # under which the wait of a queue takes its job
        self._likely_more = dict.fromkeys(queues, True)
        self._bell = Bell()

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        # Jobs that waits have brought are returned at once: if fetch.lua failed now, they would be lost here.
        taken = self._answers(self._poll(0)) or self._grab(identity, asks, min(limit, FETCHED_AT_ONCE))
        if taken or wait_s <= 0:
            return taken
        self.begin_waits(identity, [queue for queue, most in asks if most > 0])
        return self._answers(self._poll(min(wait_s, self._block_s)))

    def _grab(self, identity: str, asks: Sequence[Ask], limit: int) -> list[Delivery]:
        asks = [(queue, most) for queue, most in asks if most > 0 and not self._waits[queue].waits]
        queues = list(dict.fromkeys(queue for queue, _ in asks))
        if limit <= 0 or not any(self._likely_more[queue] for queue in queues):
            return []
        for queue in queues:  # before the exchange: its reply may be lost
            self._likely_more[queue] = True
        taken: list[Delivery] = []
        bytes_taken = 0
        places = {queue: place for place, queue in enumerate(queues, 1)}
        numbers = [number for queue, most in asks for number in (places[queue], most)]
        payloads_of_asks = grab(self.line, names_of(self._keys, identity, queues), limit, numbers)
        for (queue, most), payloads in zip(asks, payloads_of_asks, strict=False):  # it may not have come to the last
            bytes_taken += sum(map(len, payloads))
            stopped = len(payloads) == min(most, limit - len(taken)) or bytes_taken >= FETCHED_BYTES
            self._likely_more[queue] = stopped
            taken += [Delivery(payload, queue, identity) for payload in payloads]
        return taken

    # --- waits

    def begin_waits(self, identity: str, queues: Sequence[str]) -> list[int]:
        """Returns the file numbers of all waits that go on."""
        for queue in queues:
            line = self._waits[queue]
            if line.waits:
                continue
            line.connect(lambda line: self._trust(line, identity))
            line.begin("BRPOPLPUSH", self._keys.queue(queue), self._keys.inprogress(queue, identity), self._block_s)
            self._identity[queue] = identity
            self._likely_more[queue] = False
        return [line.fileno() for line in self._waits.values() if line.waits]

    def _trust(self, line: WaitingLine, identity: str) -> None:
        """fetch.lua looks at the lease; a blocking command cannot."""
        grab(line, names_of(self._keys, identity, ()), 0, ())

    def _poll(self, wait_s: float) -> list[str]:
        """The queues whose wait has an answer. Ends early when the bell rings."""
        waiting = {line.fileno(): queue for queue, line in self._waits.items() if line.waits}
        if not waiting and wait_s <= 0:
            return []
        if self._bell.fileno() < 0:
            raise BrokerUnavailable("the broker was closed")
        poll = select.poll()
        for number in (self._bell.fileno(), *waiting):
            poll.register(number, select.POLLIN)
        ready = [number for number, _ in poll.poll(wait_s * 1000)]
        if self._bell.fileno() in ready and wait_s > 0:
            self._bell.silence()
        return [waiting[number] for number in ready if number in waiting]

    def _answers(self, queues: Sequence[str]) -> list[Delivery]:
        """Reads the answers of these queues' waits. When one of them is an error, the jobs of the others are dropped
        here, and `lost_replies` finds them. A full server is no error while there are jobs."""
        caught: list[Delivery] = []
        failed: BrokerError | None = None
        for queue in queues:
            try:
                payload = self._waits[queue].answer()
            except BrokerError as error:
                self._likely_more[queue] = True  # a full server refuses BRPOPLPUSH, but not fetch.lua
                failed = error if failed is None or isinstance(failed, BrokerFull) else failed
            else:
                if payload is not None:
                    self._likely_more[queue] = True
                    caught.append(Delivery(payload, queue, self._identity[queue]))
        if failed is not None and not (caught and isinstance(failed, BrokerFull)):
            raise failed
        for line in self._waits.values():
            if line.is_overdue(self._longest_s):
                line.give_up()
        return caught

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        caught: list[Delivery] = []
        # An UNBLOCK does nothing when it overtakes the command that is to block. Then it is sent again.
        while waiting := [queue for queue in queues if self._waits[queue].waits]:
            caught += self._answers(self._unblocked(waiting))
        return caught

    def _unblocked(self, waiting: Sequence[str]) -> Sequence[str]:
        """The ones of these queues whose wait has an answer within a moment."""
        try:
            self.line.exchange([("CLIENT", "UNBLOCK", self._waits[queue].client_id) for queue in waiting])
        except BrokerRefused:
            return waiting  # by the access rules: the waits end by themselves soon
        except BaseException:
            for queue in waiting:
                self._waits[queue].close()
            raise
        poll = select.poll()
        queues = {self._waits[queue].fileno(): queue for queue in waiting}
        for number in queues:
            poll.register(number, select.POLLIN)
        return [queues[number] for number, _ in poll.poll(UNBLOCKED_AFTER_S * 1000)]

    def wake(self) -> None:
        self._bell.ring()

    def lines(self) -> Iterator[BlockingLine]:
        yield from (self.line, *self._waits.values())

    def close(self) -> None:
        for line in self.lines():
            line.close()
        self._bell.close()
