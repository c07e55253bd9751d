"""Jobs that wait for a time, in a line or in an outbox; the values of jobs; the ends of jobs of another server."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cache

from goworkers_py.brokers.contracts.store import Forward, Posted, Store
from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch
from goworkers_py.brokers.redis.admin.moved_jobs import MovedJobs
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, Script, text
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import words_of_moves
from goworkers_py.brokers.redis.queues.lines import LineMove, outboxes, parking
from goworkers_py.brokers.redis.queues.settlement import Item, RedisSettlement, SettleTarget, target_of
from goworkers_py.core.effect import ID_LIFE_S
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import Outcome, Requeue
from goworkers_py.policy.consequences import buried
from goworkers_py.policy.step_size import StepSize
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import describe_job

log = logging.getLogger(__name__)

# A limit for one call of due.lua, because the server serves nobody else meanwhile.
PROMOTED_BYTES = 1_000_000

_DUE = Script(LUA / "due.lua", lambda reply: list_of(bytes, list, int)(reply) and len(reply) == 4)
_BURY = Script(LUA / "move.lua")


@cache
def _promote(with_effects: bool) -> Script:
    return Script(LUA / "promote.lua", list_of(bytes), words=words_of_moves() if with_effects else ())


class RedisStore(Store):
    def __init__(
        self, connections: Connections, keys: Keys, settlement: RedisSettlement, dead_limits: tuple[int, float]
    ) -> None:
        """`dead_limits`: how many jobs the dead set keeps at most, and for how many seconds."""
        self._connections = connections
        self._keys = keys
        self._settlement = settlement
        self._dead_limits = dead_limits
        self._lines = parking(connections, keys, dead_limits)
        self._outboxes = outboxes(connections, keys, dead_limits)

    def promote(self, state: JobState, forward: Forward, at_once: int) -> Iterator[float | None]:
        source = {JobState.SCHEDULED: self._keys.schedule, JobState.RETRY: self._keys.retry}[state]
        skip, more = 0, True  # `skip`: entries that could not be moved; the next look begins after them
        while more:
            now_text, next_score, due, more = self._connections.script(_DUE, (source,), (at_once, skip, PROMOTED_BYTES))
            now = float(now_text)
            errors = self._move(source, due, forward, now, skip) if due else []
            for error in dict.fromkeys(errors):
                log.error("%s: a due job cannot be moved: %s", state.value, error)
            skip += len(errors)
            yield max(0.0, float(next_score) - now) if next_score else None

    def release(self, line: str, count: int) -> int:
        released = passed = 0  # `passed`: jobs that cannot be moved
        step = StepSize()
        while released < count:
            oldest = self._lines.readable(line, min(count - released, step.count), passed)
            if not oldest:
                break
            step.moved(len(oldest), sum(len(entry.raw) for entry in oldest))
            # The newest comes first: each goes to the front of its queue, so the oldest of them is consumed next.
            moves = [LineMove(entry, "front", entry.queue, entry.payload) for entry in reversed(oldest)]
            answer = self._lines.move(line, moves)
            released += answer.count(1)
            for move, result in zip(moves, answer, strict=True):
                if isinstance(result, str):
                    passed += 1
                    job = describe_job(move.payload, move.queue)
                    log.error("not released from line %s: %s: %s", line, job, result)
        return released

    def posted(self, to: str, limit: int, passed: int = 0) -> list[Posted]:
        return [Posted(entry.push, entry) for entry in self._outboxes.readable(to, limit, passed)]

    def sent(self, to: str, posted: Sequence[Posted]) -> None:
        answer = self._outboxes.move(to, [LineMove(post.receipt, "delete") for post in posted])
        if errors := [result for result in answer if isinstance(result, str)]:
            raise BrokerRefused(f"pushes that were sent cannot be removed from the outbox: {errors[0]}")

    def apply(self, batch: SettlementBatch) -> list[Settled]:
        items = [
            Item(delivery.queue, "", delivery.payload, _stored(outcome), outcome.effects)
            for delivery, outcome in batch.finished
        ]
        failed = self._settlement.settle(f"{batch.settler}:store", batch.number, (), items)
        return [failed.get(at, True) for at in range(len(items))]

    def note_ends(self, messages: Sequence[str]) -> None:
        self._connections.exchange(
            [("SET", self._keys.ended_message(message), "", "EX", ID_LIFE_S) for message in messages]
        )

    def known_ends(self, messages: Sequence[str]) -> set[str]:
        there = self._connections.exchange([("EXISTS", self._keys.ended_message(message)) for message in messages])
        return {message for message, found in zip(messages, there, strict=True) if found}

    def value(self, kind: str, jid: str) -> bytes | None:
        stored: bytes | None = self._connections.call("GET", self._keys.value(kind, jid))
        return stored

    def _move(self, source: str, due: Sequence[bytes], forward: Forward, now: float, skip: int) -> list[str]:
        """Moves the due entries. Returns an error for each entry that stays."""
        queues: dict[str, int] = {}
        jobs = MovedJobs(self._keys)
        moves: list[Argument] = []
        dying: list[tuple[bytes, bytes]] = []
        for entry in due:
            queue, payload = forward(entry, now)
            if queue is None:
                dying.append((entry, payload))
            else:
                name = self._keys.bare(queue)
                number = queues.setdefault(name, len(queues) + 1)
                moves += (number, entry, payload, *jobs.notes(entry, "due", name))
        errors = self._bury(source, dying, now) if dying else []
        if not moves:
            return errors
        keys = [source, self._keys.queues, self._keys.nothing, *map(self._keys.queue, queues), *jobs.names]
        arguments = (repr(now), skip, len(queues), *queues, *moves)
        script = _promote(bool(jobs.names))
        reply = self._connections.script(script, keys, arguments)
        return [*errors, *self._explained(script, reply)]

    def _bury(self, source: str, dying: Sequence[tuple[bytes, bytes]], now: float) -> list[str]:
        """Moves due entries, each with its payload there, to the dead jobs, with all that this means for their ties.
        Returns an error for each entry that stays."""
        jobs = MovedJobs(self._keys, self._dead_limits[1])
        moves: list[Argument] = []
        for entry, payload in dying:
            dead = enclosure.readable(buried(payload), "", now)
            moves += (0, "", entry, dead, *jobs.effects(payload, "dead", "due"))
        keys = [source, self._keys.queues, self._keys.dead, self._keys.nothing, *jobs.names]
        reply = self._connections.script(_BURY, keys, (*self._dead_limits, 0, *moves))
        return self._explained(_BURY, [error for error in reply if isinstance(error, bytes)])

    def _explained(self, script: Script, errors: Sequence[bytes]) -> list[str]:
        texts = {error: self._connections.explained(script, text(error)) for error in set(errors)}
        return [texts[error] for error in errors]


def _stored(outcome: Outcome) -> SettleTarget:
    """A requeued job stays on the server of its queue."""
    return SettleTarget("none") if isinstance(outcome, Requeue) else target_of(outcome)
