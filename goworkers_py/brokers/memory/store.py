"""Jobs that wait for a time or in a line are moved into their queues; and the values that jobs store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.store import Forward, Posted, Store
from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.parts import MemoryMoved
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import Outcome
from goworkers_py.policy.consequences import buried


class MemoryStore(Store):
    def __init__(self, state: State, endings: Endings, dead_limits: DeadLimits) -> None:
        self._state = state
        self._endings = endings
        self._dead_limits = dead_limits

    def promote(self, state: JobState, forward: Forward, at_once: int) -> Iterator[float | None]:
        more = True
        while more:
            with self._state.lock:
                now = self._state.clock()
                due = self._state.timed[state].until(now, at_once)
            # Without the lock: `forward` rewrites payloads, which takes long. Another process may move jobs meanwhile.
            moves = [(job, *forward(job.payload, now)) for job in due]
            with self._state.lock:
                for job, queue, payload in moves:
                    if self._state.timed[state].remove(job):
                        self._move(queue, payload)
                        self._state.moved(MemoryMoved(job.payload, "waiting" if queue else "dead", "due", queue or ""))
                next_at = self._state.timed[state].next_after(now)
            more = len(due) == at_once
            yield None if next_at is None else next_at - now

    def release(self, line: str, count: int) -> int:
        with self._state.lock:
            first = list(self._state.lines.get(line, ()))[:count]
            for number in reversed(first):
                if job := self._state.unpark(line, number):
                    self._state.put(job.queue, job.payload, first=True)
                    self._state.moved(MemoryMoved(job.payload, "waiting", "released", job.queue))
            return len(first)

    def apply(self, batch: SettlementBatch) -> Sequence[Settled]:
        return self._endings.settle(f"{batch.settler}:store", batch, self._apply_one)

    def _apply_one(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Under the lock."""
        self._endings.put_into_place(delivery, outcome)
        self._endings.apply_once(outcome.effects)
        return True

    def posted(self, to: str, limit: int, passed: int = 0) -> list[Posted]:
        with self._state.lock:
            jobs = list(self._state.outboxes.get(to, {}).values())[passed : passed + limit]
            return [Posted(job.push, job.number) for job in jobs]

    def sent(self, to: str, posted: Sequence[Posted]) -> None:
        with self._state.lock:
            for post in posted:
                self._state.unpost(to, post.receipt)

    def value(self, kind: str, jid: str) -> bytes | None:
        with self._state.lock:
            return self._state.values.get((kind, jid))

    def _move(self, queue: str | None, payload: bytes) -> None:
        if queue is None:
            self._state.bury(buried(payload), self._dead_limits)
        else:
            self._state.put(queue, payload)
