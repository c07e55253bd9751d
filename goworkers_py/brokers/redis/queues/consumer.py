"""Consumes from one queue, over one connection: fetch.lua while the queue is busy, BRPOPLPUSH while it is idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Script
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.places import LARGE
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerFull, LeaseGone
from goworkers_py.policy.priorities import Ask

# Limits for one fetch, because the server serves nobody else meanwhile.
FETCHED_AT_ONCE = 1_000
FETCHED_BYTES = 1_000_000
# Large payloads are fetched without Lua, which would count their bytes. The next ones may be far larger.
LARGE_AT_ONCE = 50

NO_LEASE = "the server has no lease of this process: it fetches again after its next beat"

_payloads = list_of(bytes)
FETCH = Script(
    LUA / "fetch.lua",
    lambda reply: reply is None or (type(reply) is list and all(map(_payloads, reply))),
    typed=-2,
)


class RedisConsumer(Protocol):
    """Consumes from certain queues. The fetcher's thread uses it; `wake` may be called by any thread."""

    line: BlockingLine  # over which no command is on its way between two calls

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]: ...

    def begin_waits(self, identity: str, queues: Sequence[str]) -> list[int]: ...

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]: ...

    def wake(self) -> None: ...

    def lines(self) -> Iterator[BlockingLine]: ...

    def close(self) -> None: ...


def names_of(keys: Keys, identity: str, queues: Sequence[str]) -> list[str]:
    """The keys of fetch.lua."""
    names = [key for queue in queues for key in (keys.queue(queue), keys.inprogress(queue, identity))]
    return [*names, keys.nothing, keys.lease(identity)]


def grab(line: BlockingLine, names: Sequence[str], limit: int, asks: Sequence[int]) -> list[list[bytes]]:
    """One call of fetch.lua. `asks` has two numbers for each: of its queue in `names`, from 1 on, and how many at most.
    Returns the payloads for each ask that it came to. Afterwards the line is trusted."""
    taken: list[list[bytes]] | None = line.script(FETCH, names, (limit, FETCHED_BYTES, *asks))
    if taken is None:
        raise LeaseGone(NO_LEASE)
    line.trusted = True
    return taken


class QueueConsumer(RedisConsumer):
    def __init__(self, connections: Connections, keys: Keys, block_s: float, queue: str) -> None:
        self._keys = keys
        self._queue = queue
        self._block_s = block_s
        self._likely_more = True
        self._size = 0  # average size of the payloads that were fetched last
        self._names = "", [""]  # the identity of the last call, and the keys
        self.line = connections.blocking_line(block_s)

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        at_once = FETCHED_AT_ONCE
        if self._size > LARGE:
            at_once = max(1, min(LARGE_AT_ONCE, FETCHED_BYTES // self._size))
        limit = min(limit, sum(most for _, most in asks), at_once)
        if limit <= 0:
            return []
        if self._names[0] != identity:
            self._names = identity, names_of(self._keys, identity, [self._queue])
        queue, names = self._queue, self._names[1]
        # fetch.lua looks at the lease; a blocking command cannot. So a connection that is not trusted calls fetch.lua.
        if self._likely_more or not self.line.trusted:
            self._likely_more = True  # before the exchange: its reply may be lost
            taken = self._grab(names, limit)
            fetched = sum(map(len, taken))
            self._likely_more = len(taken) == limit or fetched >= FETCHED_BYTES
            self._size = fetched // len(taken) if taken else 0
            if taken:
                return [Delivery(payload, queue, identity) for payload in taken]
        if wait_s <= 0:
            return []
        payload = self._wait_for_one(names, min(wait_s, self._block_s))
        self._likely_more = payload is not None
        return [] if payload is None else [Delivery(payload, queue, identity)]

    def _grab(self, names: Sequence[str], limit: int) -> list[bytes]:
        if self._size <= LARGE or not self.line.trusted:
            [taken] = grab(self.line, names, limit, (1, limit))
            return taken
        # Without Lua, which copies every byte several times. A job that is moved although the lease has expired a
        # moment before is found by `lost_replies`, or by a recovery.
        queue, in_progress, _, lease = names
        try:
            leased, *moved = self.line.exchange([("EXISTS", lease), *[("RPOPLPUSH", queue, in_progress)] * limit])
        except BrokerFull:
            self._size = 0  # fetch.lua can move jobs on a full server
            raise
        if not leased:
            raise LeaseGone(NO_LEASE)
        return [payload for payload in moved if payload is not None]

    def _wait_for_one(self, names: Sequence[str], wait_s: float) -> bytes | None:
        try:
            payload: bytes | None = self.line.block("BRPOPLPUSH", *names[:2], wait_s, trusted=True)
        except BrokerFull:
            self._likely_more = True  # a full server refuses BRPOPLPUSH, but not fetch.lua
            raise
        return payload

    def begin_waits(self, identity: str, queues: Sequence[str]) -> list[int]:
        raise NotImplementedError("waits are left running only after `leave_waits`")

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return []  # its waits end before `consume` returns

    def wake(self) -> None:
        self.line.wake()

    def lines(self) -> Iterator[BlockingLine]:
        yield self.line

    def close(self) -> None:
        self.line.close()
