"""The commands by which jobs go to Disque: which queue, with which options. No other module spells a queue's name."""

from __future__ import annotations

import math

from goworkers_py.brokers.disque.address import Address
from goworkers_py.brokers.redis.driver.exchange import RedisCommand

# ADDJOB waits for so long until as many nodes as asked for have the job; less than a connection waits for a reply.
REPLICATED_WITHIN_MS = 4_000


class DisqueCommands:
    def __init__(self, address: Address, namespace: str, dead_life_s: float) -> None:
        self._prefix = f"{namespace}:" if namespace else ""
        self._address = address
        self._dead_life_s = max(1, math.ceil(dead_life_s))
        self._copies = () if address.replicate is None else ("REPLICATE", address.replicate)
        self.dead = f"{self._prefix}pyworkers.dead"

    def name_of(self, queue: str) -> str:
        return self._prefix + queue

    def queue_of(self, name: str) -> str:
        return name.removeprefix(self._prefix)

    def add(self, queue: str, payload: bytes, at: float | None, now: float) -> RedisCommand:
        """Disque waits in whole seconds, so a job may be late by one. Its life begins when it is due."""
        delay_s = 0 if at is None else max(0, math.ceil(min(at, 4e9) - now))
        later = ("DELAY", delay_s) if delay_s else ()
        return self._add(self._prefix + queue, payload, self._address.ttl_s + delay_s, later)

    def add_dead(self, payload: bytes) -> RedisCommand:
        return self._add(self.dead, payload, self._dead_life_s, ())

    def _add(self, name: str, payload: bytes, ttl_s: int, more: tuple[str | int, ...]) -> RedisCommand:
        retry_s = min(self._address.retry_s, ttl_s)
        said = (*self._copies, "RETRY", retry_s, "TTL", ttl_s)
        return ("ADDJOB", name, payload, REPLICATED_WITHIN_MS, *said, *more)

    def end(self, job_id: bytes) -> RedisCommand:
        return (self._address.ack, job_id)
