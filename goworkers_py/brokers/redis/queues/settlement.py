"""Takes jobs off in-progress lists and moves them, any number in one call of settle.lua."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any

from goworkers_py.brokers.contracts.transport import Settled
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, NumberOf, Script, text
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import elsewhere, words_for
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.queues.effects import encode, encode_once
from goworkers_py.brokers.redis.queues.places import SettledRow
from goworkers_py.brokers.redis.queues.row_effects import encode_rows
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect, PushJobs
from goworkers_py.core.outcome import (
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Joined,
    Lost,
    Moved,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
    Unacknowledged,
)
from goworkers_py.core.values import NamedTuple
from goworkers_py.wire import enclosure
from goworkers_py.wire.failure import error_class, error_text

DAY_COUNTER_LIFE_S = 5 * 365 * 86_400  # as Sidekiq's
RECEIPT_LIFE_S = 3_600


class SettleTarget(NamedTuple):
    """The step for one job, as settle.lua names it, and what the step needs."""

    what: str
    payload: bytes = b""  # empty: the payload of the delivery
    at: float = 0
    line: str = ""


class Item(NamedTuple):
    queue: str
    owner: str  # empty: the job is in progress on another server, and its effects happen once for each id
    payload: bytes
    target: SettleTarget
    effects: tuple[Effect, ...] = ()
    newest_first: bool = False  # from which end of the list to look for it


NO_EFFECTS: Mapping[Delivery, Effect] = MappingProxyType({})


@cache
def _script(name: str, words: frozenset[str] | None) -> Script:
    return Script(LUA / name, lambda reply: list_of(int, bytes)(reply) and len(reply) % 2 == 0, words=words)


class _MoreKeys:
    """The keys that a call needs beside the fixed ones, numbered from 1 on."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}

    def number_of(self, key: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = self.number_of_first([key])
        return self._numbers[key]

    def number_of_first(self, keys: Sequence[str]) -> int:
        """Adds these keys, and returns the number of the first one. The others follow it."""
        self.keys.extend(keys)
        return len(self.keys) - len(keys) + 1


class RedisSettlement:
    """Used by settlers and by recoveries, each with a settler name and batch numbers of its own."""

    def __init__(self, connections: Connections, keys: Keys, dead_limits: tuple[int, float]) -> None:
        self._connections = connections
        self._keys = keys
        self._dead_limits = dead_limits

    def settle(
        self,
        settler: str,
        number: int,
        rows: Sequence[SettledRow],
        items: Sequence[Item],
        effects: Mapping[Delivery, Effect] = NO_EFFECTS,
    ) -> dict[int, Settled]:
        """Settles `rows`, then `items`. `effects` are those of deliveries in rows. Returns the results of
        those that were not settled, by their number."""
        keys, now = self._keys, machine.time()
        today = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).date()
        more_keys = _MoreKeys()
        number_of = more_keys.number_of
        before, behind = list[Argument](), list[Argument]()
        if effects:
            deliveries = chain.from_iterable(row.deliveries for row in rows)
            before, behind = encode_rows(deliveries, effects, keys, number_of, more_keys.number_of_first)
        arguments: list[Argument] = [number, *self._dead_limits, DAY_COUNTER_LIFE_S, RECEIPT_LIFE_S, *before]
        for row in rows:
            word, how = ("large", machine.token_hex(16)) if row.large else ("row", row.places)
            place = number_of(keys.inprogress(row.queue, row.owner)), 1 if row.newest_first else -1
            arguments += (word, *place, how, len(row.deliveries), *row.payloads)
        arguments += behind
        for item in items:
            arguments += self._encoded(item, number_of, now)
        fixed = (
            keys.dead, keys.queues, keys.lines, keys.outboxes,
            keys.processed, keys.failed, keys.processed_on(today), keys.failed_on(today), keys.receipt(settler),
            keys.nothing,
        )  # fmt: skip
        kinds: set[type[Any]] = {type(effect) for effect in effects.values()}
        for item in items:
            # Without an owner the effects happen once for each id, which the sets of single features do not know.
            kinds.update([type(effect) for effect in item.effects] if item.owner else [PushJobs])
        script = _script("settle.lua" if items else "settle_rows.lua", words_for(frozenset(kinds)))
        answer = self._connections.script(script, (*fixed, *more_keys.keys), arguments)
        errors = self._explained(script, answer[1::2]) if answer else {}
        return {
            at - 1: False if result == 0 else errors[result]
            for at, result in zip(answer[::2], answer[1::2], strict=True)
        }

    def flaw(self, item: Item) -> str:
        """Why no command can be made of this item; empty for one that can be settled."""
        try:
            arguments = self._encoded(item, _MoreKeys().number_of, machine.time())
            for _ in packed([("EVALSHA", *arguments)]):
                pass
        except Exception as error:
            return f"{error_class(error)}: {error_text(error)}"
        return ""

    def _encoded(self, item: Item, number_of: NumberOf, now: float) -> list[Argument]:
        keys, (what, payload, at, line) = self._keys, _readable(item, now)
        of_list = number_of(keys.inprogress(item.queue, item.owner)) if item.owner else 0
        goal, name, item_effects = self._goal(what, line or item.queue), line or item.queue, item.effects
        if what != item.target.what:
            item_effects = tuple(
                elsewhere(effect, what == "dead", max(1, int(self._dead_limits[1]))) for effect in item_effects
            )
        effects = list((encode if item.owner else encode_once)(item_effects, keys, number_of, now))
        end = 1 if item.newest_first else -1
        place = what, of_list, end, item.payload, number_of(goal) if goal else 0, name, at, payload
        return [*place, len(effects), *effects]

    def _goal(self, what: str, name: str) -> str:
        """The key to which the step moves a job; empty when it only removes it."""
        if what == "park":
            return self._keys.line(name)
        if what in ("front", "back"):
            return self._keys.queue(name)
        return {"retry": self._keys.retry, "schedule": self._keys.schedule, "dead": self._keys.dead}.get(what, "")

    def _explained(self, script: Script, results: Sequence[int | bytes]) -> dict[int | bytes, str]:
        """The error texts among the results of the script, each with its text in our words."""
        return {
            result: self._connections.explained(script, text(result)) for result in results if isinstance(result, bytes)
        }


# The steps that only remove a job differ in what they count.
_REMOVED: dict[type[Outcome], str] = {
    Done: "remove",
    Discard: "fail",
    Expired: "drop",
    Cancelled: "drop",
    Joined: "drop",
}


def target_of(outcome: Outcome) -> SettleTarget:
    match outcome:
        case Done() | Discard() | Expired() | Cancelled() | Joined():
            return SettleTarget(_REMOVED[type(outcome)])
        case Retry(at, payload):
            return SettleTarget("retry", payload, at)
        case Reschedule(at, payload):
            return SettleTarget("schedule", payload, at)
        case Dead(payload):
            return SettleTarget("dead", payload)
        case Requeue(payload, last):
            return SettleTarget("back" if last else "front", payload or b"")
        case Park(line, payload):
            return SettleTarget("park", payload or b"", line=line)
        case Unacknowledged() | Lost() | Moved():
            raise ValueError("no broker settles an outcome of NOT_SETTLED")


def _readable(item: Item, now: float) -> SettleTarget:
    """Ruby reads the sets too, so no payload that Ruby cannot read goes there as it is. A retry or a dead job with such
    a payload goes to the dead set, enclosed as text; a scheduled one goes to the back of its queue."""
    target = item.target
    if target.what == "park":
        return target._replace(payload=line_entry.written(target.payload or item.payload, item.queue, now))
    if target.what not in ("retry", "schedule", "dead"):
        return target
    readable = enclosure.readable(target.payload, item.queue, now)
    if readable is target.payload:
        return target
    return SettleTarget("back", target.payload) if target.what == "schedule" else SettleTarget("dead", readable)
