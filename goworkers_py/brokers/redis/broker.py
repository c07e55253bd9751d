"""The broker on Redis: Sidekiq's keys for everything that Sidekiq and go-workers see, a few of our own for leases."""

from __future__ import annotations

import datetime
import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.contracts import (
    Batch,
    Beat,
    Forward,
    Judge,
    Presence,
    Promoted,
    Push,
    Recovered,
    Settled,
    WaitingSet,
    WorkerEntry,
)
from goworkers_py.brokers.redis.connection import Argument, BlockingLine, Command, Connections, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.leases import REMOVE, Item, Leases, Place
from goworkers_py.brokers.redis.replies import list_of
from goworkers_py.core.errors import BrokerFull, LeaseGone
from goworkers_py.core.outcome import DONE, Dead, Discard, Done, Keep, Outcome, Requeue, Reschedule, Retry
from goworkers_py.wire import enclosure as burial

log = logging.getLogger(__name__)

# How long a fetch waits on the server. It bounds how long a connection that died unnoticed can still take a job.
BLOCK_S = 2
# fetch.lua gives them all to one LPUSH, and Lua's `unpack` takes some thousands at most.
FETCHED_AT_ONCE = 1_000
# The server does nothing else while it hands out jobs or due entries.
FETCHED_BYTES = PROMOTED_BYTES = 1_000_000
DAY_COUNTER_LIFE_S = 5 * 365 * 86_400
RECEIPT_LIFE_S = 3_600

_LUA = Path(__file__).parent / "lua"
_FETCH = Script(_LUA / "fetch.lua", lambda reply: reply is None or list_of(bytes)(reply), typed=2)
_SETTLE = Script(_LUA / "settle.lua", lambda reply: list_of(int, bytes)(reply) and len(reply) % 2 == 0)
_DUE = Script(_LUA / "due.lua", lambda reply: list_of(bytes, list, int)(reply) and len(reply) == 4)
_PROMOTE = Script(_LUA / "promote.lua", list_of(bytes))


class RedisBroker:
    """Safe to share between threads, with one fetching thread a queue."""

    def __init__(
        self, connections: Connections, keys: Keys, *, dead_max_jobs: int = 10_000, dead_timeout: float = 15_552_000
    ) -> None:
        self._connections = connections
        self._keys = keys
        self._dead_limits = (dead_max_jobs, float(dead_timeout))
        self._leases = Leases(connections, keys, self._end)
        # Each is used by its queue's fetcher alone; `wake` only reads. A dict operation is one step.
        self._lines: dict[str, BlockingLine] = {}
        self._likely_more: dict[str, bool] = {}

    # --- pushing

    def push(self, pushes: Sequence[Push]) -> None:
        self._connections.transaction(list(_push_commands(self._keys, pushes)))

    # --- fetching

    def fetch(self, owner: str, queue: str, most: int, wait: bool = True) -> list[bytes]:
        keys = (self._keys.queue(queue), self._keys.inprogress(queue, owner))
        # The script looks at the lease, which a blocking command cannot.
        if self._likely_more.get(queue, True) or not self._line(queue).trusted:
            taken = self._grab((*keys, self._keys.nothing, self._keys.lease(owner)), queue, most)
            if taken:
                return taken
        if not wait:
            return []
        raw = self._wait_for_one(keys, queue)
        self._likely_more[queue] = raw is not None
        return [] if raw is None else [raw]

    def _grab(self, keys: Sequence[str], queue: str, most: int) -> list[bytes]:
        self._likely_more[queue] = True  # also when the reply gets lost
        most = min(most, FETCHED_AT_ONCE)
        line = self._line(queue)
        taken: list[bytes] | None = line.script(_FETCH, keys, (most, FETCHED_BYTES))
        if taken is None:
            raise LeaseGone("the server has no lease of this process, which fetches again after its next beat")
        line.trusted = True
        self._likely_more[queue] = len(taken) == most or sum(map(len, taken)) >= FETCHED_BYTES
        return taken

    def _wait_for_one(self, keys: tuple[str, str], queue: str) -> bytes | None:
        try:
            raw: bytes | None = self._line(queue).block("BRPOPLPUSH", *keys, BLOCK_S, trusted=True)
        except BrokerFull:
            self._likely_more[queue] = True  # only the script can fetch from a full server
            raise
        return raw

    def _line(self, queue: str) -> BlockingLine:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = self._connections.blocking_line(BLOCK_S)
        return line

    def paused(self) -> set[str]:
        return {text(name) for name in self._connections.call("SMEMBERS", self._keys.paused)}

    def wake(self, queue: str) -> None:
        line = self._lines.get(queue)
        if line is not None:
            line.wake()

    def held(self, owner: str, queue: str) -> list[bytes]:
        held: list[bytes] = self._line(queue).call("LRANGE", self._keys.inprogress(queue, owner), 0, -1)
        return held

    def count_held(self, owner: str, queue: str) -> int:
        return int(self._line(queue).call("LLEN", self._keys.inprogress(queue, owner)))

    # --- settling

    def settle(self, batch: Batch) -> list[Settled]:
        items = [
            (delivery.owner, delivery.raw, REMOVE if outcome is DONE else _place(outcome))
            for delivery, outcome in batch.finished
        ]
        return self._end(batch.settler, batch.number, batch.queue, items, batch.newest_first)

    def _end(
        self, settler: str, number: int, queue: str, items: Sequence[Item], newest_first: bool = False
    ) -> list[Settled]:
        keys, today = self._keys, datetime.datetime.now(datetime.timezone.utc).date()
        lists: dict[str, int] = {}
        arguments: list[Argument] = [
            number, queue, *self._dead_limits, DAY_COUNTER_LIFE_S, RECEIPT_LIFE_S, 1 if newest_first else -1,
        ]  # fmt: skip
        for owner, row in itertools.groupby(items, _removed_from):
            if owner is not None:
                raws = [raw for _, raw, _ in row]
                arguments += (lists.setdefault(owner, len(lists) + 1), len(raws), *raws)
                continue
            for other, raw, place in row:
                what, score, payload = _readable(place, queue)
                arguments += (what, lists.setdefault(other, len(lists) + 1), raw, score, payload)
        fixed = (
            keys.queue(queue), keys.retry, keys.dead, keys.queues,
            keys.processed, keys.failed, keys.processed_on(today), keys.failed_on(today), keys.receipt(settler),
            keys.schedule, keys.nothing,
        )  # fmt: skip
        in_progress = (keys.inprogress(queue, owner) for owner in lists)
        answer = self._connections.script(_SETTLE, (*fixed, *in_progress), arguments)
        settled: list[Settled] = [True] * len(items)
        errors = self._explained(_SETTLE, answer[1::2]) if answer else {}
        for at, result in zip(answer[::2], answer[1::2], strict=True):
            settled[at - 1] = False if result == 0 else errors[result]
        return settled

    def _explained(self, script: Script, answers: Sequence[int | bytes]) -> dict[int | bytes, str]:
        """Each text of an error among the answers of a script, in our words."""
        return {told: self._connections.explained(script, text(told)) for told in answers if isinstance(told, bytes)}

    # --- promoting

    def promote(self, waiting: WaitingSet, forward: Forward, most: int, skip: int = 0) -> Promoted:
        source = self._keys.schedule if waiting is WaitingSet.SCHEDULE else self._keys.retry
        now_text, next_score, due, more = self._connections.script(_DUE, (source,), (most, skip, PROMOTED_BYTES))
        now = float(now_text)
        stuck = self._move_due(source, due, forward, now, skip) if due else []
        for error in dict.fromkeys(stuck):
            log.error("an entry of %s is due but cannot be moved: %s", waiting.value, error)
        next_in_s = max(0.0, float(next_score) - now) if next_score else None
        return Promoted(len(due), len(stuck), next_in_s, bool(more))

    def _move_due(self, source: str, due: Sequence[bytes], forward: Forward, now: float, skip: int) -> list[str]:
        queues: dict[str, int] = {}
        moves: list[Argument] = []
        for entry in due:
            queue, payload = forward(entry, now)
            number = 0 if queue is None else queues.setdefault(self._keys.bare(queue), len(queues) + 1)
            moves += (number, entry, payload)
        keys = [source, self._keys.queues, self._keys.dead, self._keys.nothing, *map(self._keys.queue, queues)]
        told = self._connections.script(_PROMOTE, keys, (repr(now), skip, *queues, *moves))
        errors = self._explained(_PROMOTE, told)
        return [errors[error] for error in told]

    # --- leases

    def beat(self, presence: Presence) -> Beat:
        return self._leases.beat(presence)

    def workers(self) -> list[WorkerEntry]:
        return self._leases.workers()

    def recover(self, owner: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        return self._leases.recover(owner, judge, proof)

    def leave(self, owner: str, silent: bool = True) -> Iterator[Recovered]:
        lines = [line.end() for line in list(self._lines.values())]
        return self._leases.leave(owner, ended=silent and all(lines))

    def close(self) -> None:
        for line in list(self._lines.values()):
            line.close()
        self._connections.close()


def _removed_from(item: Item) -> str | None:
    """The owner from whose list it is just removed. Neighbours of one answer go to settle.lua as a row."""
    return item[0] if item[2] is REMOVE else None


def _readable(place: Place, queue: str) -> Place:
    """To the sets, which Ruby reads too, goes nothing that it cannot read. The dead set holds such a payload as text;
    one that was only to wait goes to the back of its queue."""
    what, _, payload = place
    if what not in ("retry", "schedule", "dead"):
        return place
    buried = burial.readable(payload, queue, time.time())
    if buried is payload:
        return place
    return ("back", 0, payload) if what == "schedule" else ("dead", 0, buried)


def _place(outcome: Outcome) -> Place:
    """What settle.lua calls it, with a score and a payload where it needs them."""
    match outcome:
        case Done():
            return REMOVE
        case Retry(at, payload):
            return "retry", at, payload
        case Reschedule(at, payload):
            return "schedule", at, payload
        case Dead(payload):
            return "dead", 0, payload
        case Discard():
            return "fail", 0, b""
        case Requeue(last):
            return ("back" if last else "front"), 0, b""
        case Keep():
            raise ValueError("a delivery that is kept is not settled")


def _push_commands(keys: Keys, pushes: Sequence[Push]) -> Iterator[Command]:
    now: dict[str, list[Argument]] = {}
    later: list[Argument] = []
    for push in pushes:
        if push.at is None:
            now.setdefault(push.queue, []).append(push.payload)
        else:
            later += (push.at, push.payload)
    if now:
        yield ("SADD", keys.queues, *now)
    for queue, payloads in now.items():
        yield ("LPUSH", keys.queue(queue), *payloads)
    if later:
        yield ("ZADD", keys.schedule, *later)
