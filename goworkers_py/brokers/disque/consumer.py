"""Consumes from the queues of one pool, by GETJOB.

Disque has no command that ends the wait of another connection. So each consumer also waits for a queue of its own, and
`wake` puts a job into that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from goworkers_py.brokers.disque.commands import DisqueCommands
from goworkers_py.brokers.disque.nodes import Nodes, checked
from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.values import dataclass
from goworkers_py.policy.priorities import Ask

WAIT_S = 5.0
# The server serves nobody else during one command.
AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Fetched:
    queue: str
    job_id: bytes
    payload: bytes
    node: int  # that handed it out
    deliveries: int  # how often it was delivered before, and not ended within its RETRY


class DisqueConsumer:
    """The fetcher's thread uses it; `wake` may be called by any thread."""

    def __init__(self, nodes: Nodes, commands: DisqueCommands) -> None:
        self._nodes, self._commands = nodes, commands
        self._lines: dict[int, BlockingLine] = {}  # by node; fetcher thread only
        self._bell = commands.name_of(f"pyworkers.wake.{machine.token_hex(8)}")
        # The waking thread sets `_wanted`, then reads `_waits_at`. The fetcher's thread sets `_waits_at`, then reads
        # `_wanted`. So at least one of them sees what the other one has set, and no wake is lost.
        self._wanted = False
        self._waits_at: int | None = None  # the node at which GETJOB may wait now

    def consume(self, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Fetched]:
        taken: list[Fetched] = []
        for queue, most in asks:
            count = min(most, limit - len(taken), AT_ONCE)
            if count > 0:
                try:
                    taken += self._get([queue], "NOHANG", "COUNT", count)
                except BrokerError:
                    if not taken:
                        raise
                    break  # the next call meets the error
        if taken or wait_s <= 0:
            return taken
        return self._wait([queue for queue, most in asks if most > 0], min(wait_s, WAIT_S))

    def _wait(self, queues: Sequence[str], wait_s: float) -> list[Fetched]:
        self._waits_at = self._nodes.current
        try:
            if self._wanted:
                return []
            return self._get(queues, "TIMEOUT", max(1, round(wait_s * 1000)), "COUNT", 1, bell=(self._bell,))
        finally:
            self._waits_at = None
            self._wanted = False

    def _get(self, queues: Sequence[str], *options: str | int, bell: Sequence[str] = ()) -> list[Fetched]:
        node = self._nodes.current
        line = self._lines.get(node)
        if line is None:
            line = self._lines[node] = self._nodes.line(node, WAIT_S)
        names = [*map(self._commands.name_of, queues), *bell]
        try:
            [reply] = line.replies([("GETJOB", *options, "WITHCOUNTERS", "FROM", *names)])
        except BrokerUnavailable:
            self._nodes.leave(node)
            raise
        self._nodes.heed(node, [reply])
        return list(self._fetched(checked(reply) or (), node))

    def _fetched(self, jobs: Sequence[Sequence[Any]], node: int) -> Iterator[Fetched]:
        for name, job_id, payload, *counters in jobs:
            counts = dict(zip(counters[::2], counters[1::2], strict=True))
            queue = name.decode("utf-8", "surrogateescape")
            if queue != self._bell:
                yield Fetched(self._commands.queue_of(queue), job_id, payload, node, counts[b"additional-deliveries"])

    def wake(self) -> None:
        self._wanted = True
        node = self._waits_at
        if node is not None:
            with suppress(BrokerError):  # then the wait ends by its own time limit
                ring = ("REPLICATE", 1, "RETRY", 0, "TTL", 1)
                self._nodes.call_at(node, "ADDJOB", self._bell, b"", 0, *ring)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
