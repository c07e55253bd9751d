"""Consumes behind a fence, from one queue or several, by fetch.lua only: the server would do a blocking command also
for a process that is paused, or whose term is over. While the queues are empty, it looks at them again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.consumer import FETCHED_AT_ONCE, RedisConsumer, grab, names_of
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.policy.priorities import Ask

# Between two looks at empty queues: doubled with each, up to the second of them.
SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.005, 0.05


class FencedConsumer(RedisConsumer):
    """The thread of the fetcher uses it; any thread may call `wake`."""

    def __init__(self, connections: Connections, keys: Keys, block_s: float) -> None:
        self._keys = keys
        self._block_s = block_s
        self.line = connections.blocking_line(block_s)
        self._woken = machine.Event()

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        asks, limit = [(queue, most) for queue, most in asks if most > 0], min(limit, FETCHED_AT_ONCE)
        give_up_at, pause_s = machine.monotonic() + min(wait_s, self._block_s), SHORTEST_LOOK_S
        if not asks or limit <= 0:
            self._woken.wait(max(0.0, min(wait_s, self._block_s)))
            return self._awake([])
        taken, queues = self._grab(identity, asks, limit), [self._keys.queue(queue) for queue, _ in asks]
        while not taken and (left_s := give_up_at - machine.monotonic()) > 0:
            if self._woken.wait(min(pause_s, left_s)):
                break
            pause_s = min(2 * pause_s, LONGEST_LOOK_S)
            if self.line.call("EXISTS", *queues):
                taken = self._grab(identity, asks, limit)
        return self._awake(taken)

    def _awake(self, taken: list[Delivery]) -> list[Delivery]:
        self._woken.clear()
        return taken

    def _grab(self, identity: str, asks: Sequence[Ask], limit: int) -> list[Delivery]:
        queues = [*dict.fromkeys(queue for queue, _ in asks)]
        numbers = [number for queue, most in asks for number in (queues.index(queue) + 1, most)]
        taken = grab(self.line, names_of(self._keys, identity, queues), limit, numbers)
        return [
            Delivery(payload, queue, identity)
            for (queue, _), payloads in zip(asks, taken, strict=False)  # it may not have come to the last
            for payload in payloads
        ]

    def begin_waits(self, identity: str, queues: Sequence[str]) -> list[int]:
        raise NotImplementedError("behind a fence no waits are left running")

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return []  # its waits end before `consume` returns

    def wake(self) -> None:
        self._woken.set()

    def lines(self) -> Iterator[BlockingLine]:
        yield self.line

    def close(self) -> None:
        self._woken.set()
        self.line.close()
