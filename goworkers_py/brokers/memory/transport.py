"""Publishes, consumes and settles jobs. There is no connection, so no reply is ever lost."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from queue import Empty

from goworkers_py.brokers.contracts.transport import PublishResult, Settled, SettlementBatch, Transport
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.state import Bell, State
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused, LeaseGone
from goworkers_py.core.outcome import Outcome, Requeue
from goworkers_py.policy.priorities import Ask

WAIT_S = 2.0


class MemoryTransport(Transport):
    def __init__(self, state: State, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        # Threads use both only under the lock of the state.
        self._bells: dict[str, Bell] = {}  # by the first queue of those that are consumed together
        self._woken: set[str] = set()  # queues whose next `consume` does not wait

    def publish(self, pushes: Sequence[Push]) -> list[PublishResult]:
        if os.getpid() != self._state.pid:
            raise BrokerRefused(
                f"the jobs of this memory broker are in process {self._state.pid}; this is a forked child, whose "
                f"copy no other process sees: publish in that process, or set a broker that processes share"
            )
        return self._state.publish(pushes)

    # --- consuming

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        give_up_at = machine.monotonic() + min(wait_s, WAIT_S)
        queues = {queue for queue, _ in asks}
        while True:
            with self._state.lock:
                taken = self._take(identity, asks, limit)
                left_s = give_up_at - machine.monotonic()
                if taken or left_s <= 0 or queues & self._woken:
                    self._woken -= queues
                    return taken
                bell = self._bells.setdefault(min(queues), machine.SimpleQueue())
                self._state.bells[bell] = None
            with suppress(Empty):
                bell.get(timeout=left_s)

    def _take(self, identity: str, asks: Sequence[Ask], limit: int) -> list[Delivery]:
        record = self._state.leases.get(identity)
        if record is None or not record.is_alive(self._state.clock()):
            raise LeaseGone(f"{identity} has no lease: it consumes again after its next beat")
        taken: list[Delivery] = []
        for queue, most in asks:
            waiting = self._state.queues.get(queue)
            if not waiting:
                continue
            in_progress = record.in_progress.setdefault(queue, {})
            for receipt in list(itertools.islice(waiting, min(most, limit - len(taken)))):
                in_progress[receipt] = payload = waiting.pop(receipt)
                taken.append(Delivery(payload, queue, identity, receipt))
        return taken

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return []  # all waits end before `consume` returns

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        """A reply of this broker is lost only if it is used through a network, as that of a simulated fleet is."""
        receipts = {delivery.receipt for delivery in known}
        with self._state.lock:
            record = self._state.leases.get(identity)
            jobs = {} if record is None else record.in_progress.get(queue, {})
            lost = [(receipt, payload) for receipt, payload in jobs.items() if receipt not in receipts]
        return [Delivery(payload, queue, identity, receipt) for receipt, payload in lost]

    def paused(self) -> set[str]:
        with self._state.lock:
            return set(self._state.paused)

    def wake(self, queue: str) -> None:
        with self._state.lock:
            self._woken.add(queue)
            self._state.ring()

    # --- settling

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        return self._endings.settle(batch.settler, batch, self._settle_one)

    def _settle_one(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Under the lock."""
        if not self._state.take_from_progress(delivery.identity, delivery.queue, delivery.receipt):
            return False
        if isinstance(outcome, Requeue):
            payload = delivery.payload if outcome.payload is None else outcome.payload
            self._state.put(delivery.queue, payload, first=not outcome.last)
        self._endings.put_into_place(delivery, outcome)
        self._endings.apply(outcome.effects)
        return True
