"""The broker on Redis: Sidekiq's keys for everything that Sidekiq and go-workers see, a few of our own for leases.

An owner of in-progress lists is in `pyworkers:owners` with its queues and its origin, and lives as long as its lease.
Its death is a fact only once it stands in `pyworkers:gone`, written in the same step that looked at the lease: from
then on the lease cannot be renewed, and whoever comes by moves the jobs, one by one, each only if it is still there.
The entry stays for a day, because a process that was frozen for hours may still, when it wakes, receive a job into
its old list.
"""

from __future__ import annotations

import datetime
import itertools
import json
import logging
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goworkers_py.brokers.base import (
    Batch,
    DeclaredDead,
    Forward,
    Promoted,
    Push,
    Recovered,
    Settled,
    WaitingSet,
)
from goworkers_py.connection import Argument, BlockingLine, Command, Connections, Script
from goworkers_py.errors import BrokerFull, BrokerRefused
from goworkers_py.identity import certainly_dead, origin
from goworkers_py.keys import Keys
from goworkers_py.outcome import Dead, Discard, Done, Keep, Outcome, Requeue, Retry

log = logging.getLogger(__name__)

LEASE_S = 60
# How long a fetch waits on the server. It bounds how long a connection that died unnoticed can still take a job.
BLOCK_S = 2
# How long the lists of an owner are looked at after its death, and after its farewell.
GONE_FOR_S = 86_400
LEFT_FOR_S = 60
DAY_COUNTER_LIFE_S = 5 * 365 * 86_400
RECEIPT_LIFE_S = 3_600
RECOVERED_AT_ONCE = 100

_LUA = Path(__file__).parent / "lua"
_FETCH, _SETTLE, _DUE, _PROMOTE, _BEAT, _BURY = (
    Script(_LUA / f"{name}.lua") for name in ("fetch", "settle", "due", "promote", "beat", "bury")
)


class RedisBroker:
    """Safe to share between threads, with one fetching thread a queue."""

    def __init__(
        self, connections: Connections, keys: Keys, *, dead_max_jobs: int = 10_000, dead_timeout: float = 15_552_000
    ) -> None:
        self._connections = connections
        self._keys = keys
        self._dead_limits = (dead_max_jobs, float(dead_timeout))
        self._origin = origin()
        # Each is used by its queue's fetcher alone; `wake` only reads. A dict operation is one step.
        self._lines: dict[str, BlockingLine] = {}
        self._likely_more: dict[str, bool] = {}

    # --- pushing

    def push(self, pushes: Sequence[Push]) -> None:
        self._connections.transaction(list(_push_commands(self._keys, pushes)))

    # --- fetching

    def fetch(self, owner: str, queue: str, most: int) -> list[bytes]:
        keys = (self._keys.queue(queue), self._keys.inprogress(queue, owner))
        if self._likely_more.get(queue, True):
            taken = self._grab(keys, queue, most)
            if taken:
                return taken
        raw = self._wait_for_one(keys, queue)
        self._likely_more[queue] = raw is not None
        return [] if raw is None else [raw]

    def _grab(self, keys: tuple[str, str], queue: str, most: int) -> list[bytes]:
        self._likely_more[queue] = True  # also when the reply gets lost
        taken: list[bytes] = self._connections.script(_FETCH, (*keys, self._keys.nothing), (most,))
        self._likely_more[queue] = len(taken) == most
        return taken

    def _wait_for_one(self, keys: tuple[str, str], queue: str) -> bytes | None:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = self._connections.blocking_line(BLOCK_S)
        try:
            raw: bytes | None = line.call("BRPOPLPUSH", *keys, BLOCK_S)
        except BrokerFull:
            self._likely_more[queue] = True  # only the script can fetch from a full server
            raise
        return raw

    def wake(self, queue: str) -> None:
        line = self._lines.get(queue)
        if line is not None:
            line.wake()

    def held(self, owner: str, queue: str) -> list[bytes]:
        held: list[bytes] = self._connections.call("LRANGE", self._keys.inprogress(queue, owner), 0, -1)
        return held

    # --- settling

    def settle(self, batch: Batch) -> list[Settled]:
        items = [(end.delivery.owner, end.delivery.raw, _place(end.outcome)) for end in batch.finished]
        return self._end(batch.settler, batch.number, batch.queue, items)

    def _end(self, settler: str, number: int, queue: str, items: Sequence[_Item]) -> list[Settled]:
        keys, today = self._keys, datetime.datetime.now(datetime.timezone.utc).date()
        lists: dict[str, int] = {}
        arguments: list[Argument] = [number, queue, *self._dead_limits, DAY_COUNTER_LIFE_S, RECEIPT_LIFE_S]
        for owner, raw, place in items:
            arguments += (lists.setdefault(owner, len(lists) + 1), raw, *place)
        fixed = (
            keys.queue(queue), keys.retry, keys.dead, keys.queues,
            keys.processed, keys.failed, keys.processed_on(today), keys.failed_on(today), keys.receipt(settler),
        )  # fmt: skip
        in_progress = (keys.inprogress(queue, owner) for owner in lists)
        answer = self._connections.script(_SETTLE, (*fixed, *in_progress), arguments)
        return [bool(result) if isinstance(result, int) else _text(result) for result in answer]

    # --- promoting

    def promote(self, waiting: WaitingSet, forward: Forward, most: int, skip: int = 0) -> Promoted:
        source = self._keys.schedule if waiting is WaitingSet.SCHEDULE else self._keys.retry
        now_text, next_score, due = self._connections.script(_DUE, (source,), (most, skip))
        now = float(now_text)
        stuck = self._move_due(source, due, forward, now) if due else []
        for error in dict.fromkeys(stuck):
            log.error("an entry of %s is due but cannot be moved: %s", waiting.value, error)
        next_in_s = max(0.0, float(next_score) - now) if next_score else None
        return Promoted(len(due), len(stuck), next_in_s)

    def _move_due(self, source: str, due: Sequence[bytes], forward: Forward, now: float) -> list[str]:
        queues: dict[str, int] = {}
        arguments: list[Argument] = [repr(now)]
        for entry in due:
            destination = forward(entry, now)
            if destination is None:
                arguments += (0, "", entry, b"")
            else:
                queue, payload = self._keys.bare(destination[0]), destination[1]
                arguments += (queues.setdefault(queue, len(queues) + 1), queue, entry, payload)
        keys = [source, self._keys.queues, self._keys.dead, self._keys.nothing, *map(self._keys.queue, queues)]
        return [_text(error) for error in self._connections.script(_PROMOTE, keys, arguments)]

    # --- leases

    def beat(self, owner: str, queues: Sequence[str], process: str) -> None:
        keys = self._keys
        entry = json.dumps({"queues": list(queues), "origin": self._origin})
        holder = keys.holder(process) if process else keys.nothing
        answer = self._connections.script(
            _BEAT, (keys.lease(owner), keys.owners, keys.gone, holder), (owner, entry, LEASE_S, keys.lease(""), process)
        )
        if answer[0] == b"gone":
            raise DeclaredDead(owner)
        if answer[0] == b"held":
            raise BrokerRefused(
                f"the process name {process!r} is in use by {_text(answer[1])}, which lives: stop that one or give "
                f"this one another name (after a crash on another machine the name is free within {LEASE_S} s)"
            )

    def recover(self, owner: str, by_lease: bool) -> list[Recovered]:
        owners, gone = self._connections.exchange([("HGETALL", self._keys.owners), ("HGETALL", self._keys.gone)])
        forget_at = _pairs(gone)
        dead: dict[str, list[str]] = {}
        for other, text in _pairs(owners).items():
            entry = json.loads(text)
            if other != owner and (other in forget_at or self._bury(other, entry["origin"], by_lease)):
                dead[other] = entry["queues"]
        recovered = self._move_back(dead)
        for other in dead.keys() & forget_at.keys():
            if float(forget_at[other]) < time.time():
                self._forget(other, dead[other])
        return recovered

    def _forget(self, owner: str, queues: Sequence[str]) -> None:
        """Unless there are jobs that could not be moved: nobody would find them again."""
        if not any(self._connections.exchange([("EXISTS", self._keys.inprogress(queue, owner)) for queue in queues])):
            self._connections.transaction([("HDEL", key, owner) for key in (self._keys.owners, self._keys.gone)])

    def leave(self, owner: str) -> list[Recovered]:
        text = self._connections.call("HGET", self._keys.owners, owner)
        if text is None:
            return []
        for line in self._lines.values():
            line.close()  # what the server still does for them goes into lists that the recoverers look at for a while
        keys = (self._keys.lease(owner), self._keys.gone)
        self._connections.script(_BURY, keys, (owner, "certain", LEFT_FOR_S))
        return self._move_back({owner: json.loads(text)["queues"]})

    def _bury(self, other: str, origin: Mapping[str, Any], by_lease: bool) -> bool:
        certain = certainly_dead(origin)
        if not certain and not by_lease:
            return False
        keys = (self._keys.lease(other), self._keys.gone)
        return bool(self._connections.script(_BURY, keys, (other, "certain" if certain else "", GONE_FOR_S)))

    def _move_back(self, dead: Mapping[str, Sequence[str]]) -> list[Recovered]:
        places = [(owner, queue) for owner, queues in dead.items() for queue in queues]
        lengths = self._connections.exchange([("LLEN", self._keys.inprogress(queue, owner)) for owner, queue in places])
        recovered: list[Recovered] = []
        for (owner, queue), length in zip(places, lengths, strict=True):
            if length:
                recovered += self._move_list_back(owner, queue)
        return recovered

    def _move_list_back(self, owner: str, queue: str) -> list[Recovered]:
        """Oldest first to the back of the queue, each only if it is still there: another recoverer is at it too."""
        key, mover, recovered = self._keys.inprogress(queue, owner), secrets.token_hex(6), []
        for number in itertools.count():
            listed = self._connections.call("LRANGE", key, -RECOVERED_AT_ONCE, -1)
            oldest_first = [(owner, raw, ("back", 0, b"")) for raw in reversed(listed)]
            if not oldest_first:
                break
            results = self._end(mover, number, queue, oldest_first)
            recovered += [
                Recovered(queue, owner, raw) for (_, raw, _), result in zip(oldest_first, results, strict=True)
                if result is True
            ]  # fmt: skip
            errors = [result for result in results if isinstance(result, str)]
            if errors:
                log.error("jobs of %s in queue %s cannot be recovered: %s", owner, queue, errors[0])
                break
        return recovered

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._connections.close()


_Place = tuple[str, float, bytes]
_Item = tuple[str, bytes, _Place]


def _place(outcome: Outcome) -> _Place:
    """What settle.lua calls it, with a score and a payload where it needs them."""
    match outcome:
        case Done():
            return "remove", 0, b""
        case Retry(at, payload):
            return "retry", at, payload
        case Dead(payload):
            return "dead", 0, payload
        case Discard():
            return "fail", 0, b""
        case Requeue():
            return "front", 0, b""
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


def _pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    return {_text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
