"""The indexes of tracked jobs that have ended, see lua/ended.lua: reads them, and removes entries that tell nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from goworkers_py.brokers.contracts.store import EndedPage, EndedPlace
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Script, text
from goworkers_py.brokers.redis.driver.replies import one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.errors import BrokerFull, BrokerRefused
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.tracking.redis import JobRecords

MOST = 1_000  # entries that are read in one command
_FORGET = Script(LUA / "forget_ended.lua", one_of(int))


class _Entry(NamedTuple):
    jid: bytes
    score: bytes

    @property
    def place(self) -> EndedPlace:
        return EndedPlace(float(self.score), text(self.jid))


class EndedIndex:
    def __init__(self, connections: Connections, keys: Keys, records: JobRecords) -> None:
        self._connections = connections
        self._keys = keys
        self._records = records

    def page(self, state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        key, limit = self._keys.ended(state), min(limit, MOST - 1)
        total, newer = self._connections.exchange(
            [("ZCARD", key), ("ZCOUNT", key, f"({after.at!r}" if after else "+inf", "+inf")]
        )
        entries, more = self._behind(key, after, newer if after else 0, limit)
        found, stale = [], []
        for entry, (known, record) in zip(
            entries, self._records.of_list([one.place.jid for one in entries]), strict=True
        ):
            if record is not None and (record.state, record.at) == (state, entry.place.at):
                found.append(record)
            elif record is not None or not known:
                stale.append(entry)
        self._forget(key, stale)
        return EndedPage(found, entries[-1].place if more else None, total - len(stale))

    def _behind(self, key: str, after: EndedPlace | None, start: int, limit: int) -> tuple[list[_Entry], bool]:
        """The entries behind a place, and whether more follow. Entries of the same time are before it and behind it."""
        found: list[_Entry] = []
        while len(found) <= limit:
            flat = self._connections.call("ZREVRANGE", key, start, start + limit, "WITHSCORES")
            listed = [*map(_Entry, flat[::2], flat[1::2])]
            found += [one for one in listed if after is None or (float(one.score), one.jid) < after.order]
            start += len(listed)
            if len(listed) <= limit:
                break
        return found[:limit], len(found) > limit

    def _forget(self, key: str, stale: Sequence[_Entry]) -> None:
        """Who only reads may not be allowed to write."""
        if stale:
            with suppress(BrokerRefused, BrokerFull):
                self._connections.script(_FORGET, [key], [part for entry in stale for part in entry])
