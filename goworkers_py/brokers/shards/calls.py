"""Calls on shards: each is given to all shards that serve, and read from all of them, so one that is away matters to
nobody. A process obeys it once, by its id."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.calls import Calls
from goworkers_py.brokers.shards.shard_list import ShardList, Verb
from goworkers_py.brokers.shards.watches import watch_all
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.call import Answer, Call, Report
from goworkers_py.core.errors import ArgumentError, BrokerUnavailable
from goworkers_py.wire.call_record import first_of_each

# So many ids of calls that were read last stand in a position: another shard may bring one of them later.
REMEMBERED = 300
AUDIT = "audit"


class ShardedCalls(Calls):
    """A position is JSON: `at` has that of each shard, by its number, `read` the ids of the last calls."""

    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def give(self, call: Call) -> None:
        self._shards.answers(lambda broker: broker.calls.give(call))

    def end(self) -> str:
        ends = self._shards.each(lambda broker: broker.calls.end())
        return _position({str(shard.number): end for shard, end in ends}, [])

    def after(self, position: str) -> tuple[str, Sequence[Call]]:
        told = simplejson.loads(position)
        at: dict[str, str] = told["at"]
        of = {shard.broker: at.get(str(shard.number)) for shard in self._shards.all}

        def read(broker: Broker) -> tuple[str, Sequence[Call]]:
            known = of[broker]
            # A shard that was away at the start of the process: what it holds may have been given before that.
            return (broker.calls.end(), []) if known is None else broker.calls.after(known)

        found: dict[str, Call] = {}
        for shard, (now, calls) in self._shards.each(read):
            at[str(shard.number)] = now
            found |= {call.id: call for call in calls if call.id not in told["read"] and call.id not in found}
        return _position(at, [*told["read"], *found][-REMEMBERED:]), list(found.values())

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        return watch_all(self._shards, lambda broker, told: broker.calls.listen(told), changed)

    def answer(self, call_id: str, answer: Answer) -> None:
        self._shards.answers(lambda broker: broker.calls.answer(call_id, answer))

    def answers(self, call_id: str) -> Sequence[Answer]:
        told = self._shards.answers(lambda broker: broker.calls.answers(call_id))
        return first_of_each([answer for several in told for answer in several])

    def report(self, name: str, identity: str, body: str) -> None:
        """On the home of its name; on the next shard while that one is away."""
        self._on_one(name, lambda broker: broker.calls.report(name, identity, body))

    def _on_one(self, key: str, verb: Verb[None]) -> None:
        failed: BrokerUnavailable | None = None
        for number in self._shards.placement.order(key):
            try:
                self._shards.all[number].ask(verb)
                return
            except BrokerUnavailable as error:
                failed = error
        if failed is not None:
            raise failed

    def reports(self, after: str, limit: int) -> Sequence[Report]:
        """A position has those of all shards, of the reports until it."""
        at, of = _positions("after", after), {shard.broker: str(shard.number) for shard in self._shards.all}
        told = self._shards.each(lambda broker: broker.calls.reports(at.get(of[broker], ""), limit))
        entries = [(one.at, shard.number, one) for shard, several in told for one in several]
        found = sorted(entries, key=lambda entry: entry[:2])
        chosen = found[:limit] if after else found[-limit:]
        reports = []
        for entry in chosen if after else found:  # the first positions are beyond the older reports, too
            _, number, one = entry
            at[str(number)] = one.position
            if entry in chosen:
                reports.append(dataclasses.replace(one, position=simplejson.dumps(at)))
        return reports

    def note_action(self, entry: str) -> None:
        """All on one shard, in one order; on the next one while that is away."""
        self._on_one(AUDIT, lambda broker: broker.calls.note_action(entry))

    def actions(self, before: str, limit: int) -> Sequence[AuditEntry]:
        """A position has those of all shards, of the entries from it on."""
        at, of = _positions("before", before), {shard.broker: str(shard.number) for shard in self._shards.all}
        told = self._shards.each(lambda broker: broker.calls.actions(at.get(of[broker], ""), limit))
        entries = [(str(shard.number), one) for shard, several in told for one in several]
        found: list[AuditEntry] = []
        for number, one in sorted(entries, key=lambda entry: entry[1].at, reverse=True)[:limit]:
            at[number] = one.position
            found.append(dataclasses.replace(one, position=simplejson.dumps(at)))
        return found

    def watch(self, call_id: str, changed: Callable[[], None]) -> Callable[[], None]:
        return watch_all(self._shards, lambda broker, told: broker.calls.watch(call_id, told), changed)


def _positions(parameter: str, told: str) -> dict[str, str]:
    with suppress(ValueError, AttributeError, RecursionError):
        return {str(number): str(position) for number, position in simplejson.loads(told or "{}").items()}
    raise ArgumentError(f"{parameter}: {told[:100]!r} is not the position of an entry")


def _position(at: Any, read: Sequence[str]) -> str:
    return simplejson.dumps({"at": {number: at[number] for number in sorted(at)}, "read": list(read)})
