"""Calls in Redis: a stream, whose name is also the channel that tells a new one. Answers: a list for each call.
Reports: a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.streams import added_at, check_position, field_of, listed
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.calls.call import ANSWERS_KEPT_S, CALLS_KEPT, REPORTS_KEPT, Answer, Call, Report
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.calls.record import (
    first_of_each,
    living_call,
    read_answer,
    read_report,
    written_answer,
    written_call,
    written_report,
)
from goworkers_py.features.calls.redis_part import answers_key, calls_key, reports_key

BEGINNING = "0-0"
FIELD, REPORT = "call", "report"


class RedisCalls(Calls):
    def __init__(self, connections: Connections, keys: Keys, listener: Listener) -> None:
        self._connections = connections
        self._keys = keys
        self._listener = listener

    def give(self, call: Call) -> None:
        stream = calls_key(self._keys)
        added = ("XADD", stream, "MAXLEN", "~", CALLS_KEPT, "*", FIELD, written_call(call))
        self._connections.transaction([added, ("PUBLISH", stream, call.id)])

    def end(self) -> str:
        last = self._connections.call("XREVRANGE", calls_key(self._keys), "+", "-", "COUNT", 1)
        return text(last[0][0]) if last else BEGINNING

    def after(self, position: str) -> tuple[str, Sequence[Call]]:
        # One step: a call is judged by the time at which it was read.
        entries, (seconds, micros) = self._connections.transaction(
            [("XRANGE", calls_key(self._keys), f"({position}", "+"), ("TIME",)]
        )
        now = int(seconds) + int(micros) / 1e6
        calls = [living_call(field_of(fields, FIELD), now - added_at(name)) for name, fields in entries]
        return (text(entries[-1][0]) if entries else position), [call for call in calls if call is not None]

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(calls_key(self._keys), lambda message: changed())

    def answer(self, call_id: str, answer: Answer) -> None:
        key = answers_key(self._keys, call_id)
        self._connections.transaction(
            [("RPUSH", key, written_answer(answer)), ("EXPIRE", key, ANSWERS_KEPT_S), ("PUBLISH", key, "")]
        )

    def answers(self, call_id: str) -> Sequence[Answer]:
        raw = self._connections.call("LRANGE", answers_key(self._keys, call_id), 0, -1)
        return first_of_each([read_answer(record) for record in raw])

    def report(self, name: str, identity: str, body: str) -> None:
        record = written_report(name, identity, body)
        self._connections.call("XADD", reports_key(self._keys), "MAXLEN", "~", REPORTS_KEPT, "*", REPORT, record)

    def reports(self, after: str, limit: int) -> Sequence[Report]:
        check_position("after", after)
        stream = reports_key(self._keys)
        if after:
            entries = listed(self._connections, "XRANGE", stream, f"({after}", "+", limit)
        else:
            entries = listed(self._connections, "XREVRANGE", stream, "+", "-", limit)[::-1]
        found = [read_report(field_of(fields, REPORT), text(name), added_at(name)) for name, fields in entries]
        return [report for report in found if report is not None]

    def watch(self, call_id: str, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(answers_key(self._keys, call_id), lambda message: changed())
