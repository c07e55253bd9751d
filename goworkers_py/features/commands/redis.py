"""Calls in Redis: a stream, whose name is also the channel that tells a new one. Answers: a list for each call. Reports
and the audit list: a stream each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.commands.call import Answer, Call, Report
from goworkers_py.features.commands.contract import Calls
from goworkers_py.features.commands.record import (
    first_of_each,
    living_call,
    read_answer,
    read_report,
    written_answer,
    written_call,
    written_report,
)
from goworkers_py.wire.audit_record import read_entry

KEPT = 1_000  # calls in the stream
ANSWERS_KEPT_S = 120
BEGINNING = "0-0"
FIELD, REPORT = "call", "report"
REPORTS_KEPT = 5_000
ENTRY = "entry"
ACTIONS_KEPT = 10_000
AT_ONCE = 1_000  # entries that are read in one step
_POSITION = r"[0-9]{1,19}(-[0-9]{1,19})?"


class RedisCalls(Calls):
    def __init__(self, connections: Connections, keys: Keys, listener: Listener) -> None:
        self._connections = connections
        self._keys = keys
        self._listener = listener

    def give(self, call: Call) -> None:
        stream = self._keys.calls
        added = ("XADD", stream, "MAXLEN", "~", KEPT, "*", FIELD, written_call(call))
        self._connections.transaction([added, ("PUBLISH", stream, call.id)])

    def end(self) -> str:
        last = self._connections.call("XREVRANGE", self._keys.calls, "+", "-", "COUNT", 1)
        return text(last[0][0]) if last else BEGINNING

    def after(self, position: str) -> tuple[str, Sequence[Call]]:
        # One step: a call is judged by the time at which it was read.
        entries, (seconds, micros) = self._connections.transaction(
            [("XRANGE", self._keys.calls, f"({position}", "+"), ("TIME",)]
        )
        now = int(seconds) + int(micros) / 1e6
        calls = [living_call(_field(fields), now - given_at(name)) for name, fields in entries]
        return (text(entries[-1][0]) if entries else position), [call for call in calls if call is not None]

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(self._keys.calls, lambda message: changed())

    def answer(self, call_id: str, answer: Answer) -> None:
        key = self._keys.answers(call_id)
        self._connections.transaction(
            [("RPUSH", key, written_answer(answer)), ("EXPIRE", key, ANSWERS_KEPT_S), ("PUBLISH", key, "")]
        )

    def answers(self, call_id: str) -> Sequence[Answer]:
        raw = self._connections.call("LRANGE", self._keys.answers(call_id), 0, -1)
        return first_of_each([read_answer(record) for record in raw])

    def report(self, name: str, identity: str, body: str) -> None:
        record = written_report(name, identity, body)
        self._connections.call("XADD", self._keys.reports, "MAXLEN", "~", REPORTS_KEPT, "*", REPORT, record)

    def reports(self, after: str, limit: int) -> Sequence[Report]:
        _check("after", after)
        if after:
            entries = self._listed("XRANGE", self._keys.reports, f"({after}", "+", limit)
        else:
            entries = self._listed("XREVRANGE", self._keys.reports, "+", "-", limit)[::-1]
        found = [read_report(_field(fields, REPORT), text(name), given_at(name)) for name, fields in entries]
        return [report for report in found if report is not None]

    def note_action(self, entry: str) -> None:
        self._connections.call("XADD", self._keys.audit, "MAXLEN", "~", ACTIONS_KEPT, "*", ENTRY, entry)

    def actions(self, before: str, limit: int) -> Sequence[AuditEntry]:
        _check("before", before)
        end = f"({before}" if before else "+"
        entries = self._listed("XREVRANGE", self._keys.audit, end, "-", limit)
        found = [read_entry(_field(fields, ENTRY), text(name), given_at(name)) for name, fields in entries]
        return [entry for entry in found if entry is not None]

    def _listed(self, command: str, stream: str, begin: str, end: str, limit: int) -> list[Any]:
        """Up to `limit` entries, from `begin` on."""
        found: list[Any] = []
        while (count := min(AT_ONCE, limit - len(found))) > 0:
            listed = self._connections.call(command, stream, begin, end, "COUNT", count)
            found += listed
            if len(listed) < count:
                break
            begin = f"({text(listed[-1][0])}"
        return found

    def watch(self, call_id: str, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(self._keys.answers(call_id), lambda message: changed())


def _check(parameter: str, position: str) -> None:
    if position and not re.fullmatch(_POSITION, position):
        raise ArgumentError(f"{parameter}: {position[:100]!r} is not the position of an entry")


def given_at(name: bytes) -> float:
    """The time in the name of an entry, by the server's clock."""
    return int(name.partition(b"-")[0]) / 1000


def _field(fields: Sequence[bytes], name: str = FIELD) -> bytes:
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(name.encode(), b"")
