"""The records of tracked jobs in Redis: reads them, and writes which jobs run. The index of those that have ended, see
lua/fragments/ended.lua: reads it, and removes entries that tell nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.replies import list_of, one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import words_for
from goworkers_py.brokers.redis.queues.effects import encode
from goworkers_py.core import machine
from goworkers_py.core.effect import KEPT_S
from goworkers_py.core.errors import BrokerFull, BrokerRefused
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.tracking.contract import EndedPage, EndedPlace, Records, RunningMark
from goworkers_py.features.tracking.record import read
from goworkers_py.features.tracking.redis_part import LUA, PIECE, ended_key, record_key
from goworkers_py.wire.job_record import JobRecord

_FORGET = Script(LUA / "forget_ended.lua", one_of(int))


@cache
def _mark_running(words: frozenset[str] | None) -> Script:
    """`words` are those of the effects of other features that happen in the same step."""
    return Script(LUA / "mark_running.lua", list_of(int), words=words)


MOST = 1_000  # entries of an index that are read in one command


class _Entry(NamedTuple):
    jid: bytes
    score: bytes

    @property
    def place(self) -> EndedPlace:
        return EndedPlace(float(self.score), text(self.jid))


class RedisRecords(Records):
    def __init__(self, connections: Connections, keys: Keys, listener: Listener) -> None:
        self._connections = connections
        self._keys = keys
        self._listener = listener

    def record(self, jid: str) -> JobRecord | None:
        flat = self._connections.call("HGETALL", record_key(self._keys, jid))
        return read(jid, _whole({text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}))

    def watch(self, jid: str, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(record_key(self._keys, jid), lambda message: changed())

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        numbers: dict[str, int] = {}

        def number_of(key: str) -> int:
            return numbers.setdefault(key, len(numbers) + 1)

        arguments, kinds, now = list[Argument]((KEPT_S,)), set[type[Any]](), machine.time()
        for job, delivery, progress, first, also in marks:
            of_list = number_of(self._keys.inprogress(delivery.queue, delivery.identity)) if first else 0
            arguments += (number_of(record_key(self._keys, job.jid)), of_list, delivery.payload if first else "")
            arguments += (delivery.identity, delivery.queue, job.job_class, progress or "")
            effects = [*encode(also, self._keys, number_of, now)]
            arguments += (len(effects), *effects)
            kinds.update(map(type, also))
        script = _mark_running(words_for(frozenset(kinds)))
        return [reply == 1 for reply in self._connections.script(script, list(numbers), arguments)]

    # --- jobs that have ended

    def ended(self, state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        key, limit = ended_key(self._keys, state), min(limit, MOST - 1)
        total, newer = self._connections.exchange(
            [("ZCARD", key), ("ZCOUNT", key, f"({after.at!r}" if after else "+inf", "+inf")]
        )
        entries, more = self._behind(key, after, newer if after else 0, limit)
        found, stale = [], []
        for entry, (known, record) in zip(entries, self._of_list([entry.place.jid for entry in entries]), strict=True):
            if record is not None and (record.state, record.at) == (state, entry.place.at):
                found.append(record)
            elif record is not None or not known:
                stale.append(entry)
        self._forget(key, stale)
        return EndedPage(found, entries[-1].place if more else None, total - len(stale))

    def _of_list(self, jids: Sequence[str]) -> list[tuple[bool, JobRecord | None]]:
        """For each jid whether a record is there, and the record, if this release can read it. A result may be large:
        it is not read, and `result` is b"" where there is one."""
        keys = [record_key(self._keys, jid) for jid in jids]
        replies = self._connections.answers([("HKEYS", key) for key in keys])
        wanted = [[name for name in names or () if not _is_of_result(name)] for names in replies]
        asked = [("HMGET", key, *names) for key, names in zip(keys, wanted, strict=True) if names]
        values = iter(self._connections.answers(asked))
        found: list[tuple[bool, JobRecord | None]] = []
        for jid, all_names, names in zip(jids, replies, wanted, strict=True):
            fields = _fields(names, next(values) or ()) if names else {}
            if fields and b"result" in all_names:
                fields["result"] = b""
            found.append((all_names != [], read(jid, _whole(fields))))
        return found

    def _behind(self, key: str, after: EndedPlace | None, start: int, limit: int) -> tuple[list[_Entry], bool]:
        """The entries behind a place, and whether more follow. Entries of the same time are before it and behind it."""
        found: list[_Entry] = []
        while len(found) <= limit:
            flat = self._connections.call("ZREVRANGE", key, start, start + limit, "WITHSCORES")
            listed = [*map(_Entry, flat[::2], flat[1::2])]
            found += [entry for entry in listed if after is None or (float(entry.score), entry.jid) < after.order]
            start += len(listed)
            if len(listed) <= limit:
                break
        return found[:limit], len(found) > limit

    def _forget(self, key: str, stale: Sequence[_Entry]) -> None:
        """A program that only reads may not be allowed to write."""
        if stale:
            with suppress(BrokerRefused, BrokerFull):
                self._connections.script(_FORGET, [key], [part for entry in stale for part in entry])


def _is_of_result(name: bytes) -> bool:
    return name == b"result" or name.startswith(b"result:")


def _fields(names: Sequence[bytes], values: Sequence[bytes | None]) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(names, values, strict=True) if value is not None}


def _whole(pieces: Mapping[str, bytes]) -> dict[str, bytes]:
    """The fields of a record. A value goes on in the next field after a piece of exactly 64 bytes."""
    fields = {name: piece for name, piece in pieces.items() if ":" not in name}
    for name, piece in fields.items():
        number = 0
        while len(piece) == PIECE:
            number += 1
            piece = pieces.get(f"{name}:{number}", b"")
            fields[name] += piece
    return fields
