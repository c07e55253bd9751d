"""Limits in Redis, see lua/fragments/limit.lua."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from goworkers_py.brokers.redis.driver.begin_calls import BeginCalls
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import words_for
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.queues.effects import encode
from goworkers_py.core import machine
from goworkers_py.core.effect import Effect
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.limit import (
    ANY_RATE,
    LET_GO_MOST,
    UNREADABLE_MOST,
    Begins,
    DueSlots,
    GivenAway,
    LimitEntry,
    LimitSettings,
    Looked,
    Rate,
    Slot,
    SlotEntry,
    SlotHolder,
    Undeclared,
    Waits,
    slot_of_line,
)
from goworkers_py.features.limits.redis_part import (
    LUA,
    V,
    any_places,
    limit_key,
    limits_due_key,
    limits_key,
    places_key,
    slot_arguments,
    slot_in,
)

PAGE, DUE_PAGE = 500, 1_000
_ANY = "any"  # limit.lua takes it for no rate

_LOOK = Script(LUA / "look.lua", words=())
_FREE = Script(LUA / "free_place.lua", words=())


@cache
def _begin_script(words: frozenset[str] | None) -> Script:
    return Script(LUA / "begin_limits.lua", words=words)


class _Numbers:
    """The keys of a call beyond the fixed ones, numbered from 1 on."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def __call__(self, key: str) -> int:
        return self.names.setdefault(key, len(self.names) + 1)


class RedisLimits(Limits):
    def __init__(self, connections: Connections, keys: Keys, begins: BeginCalls) -> None:
        self._connections = connections
        self._keys = keys
        self._begins = begins

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        limits = self._of_this_version(limits)
        if not limits:
            return
        known = {entry.name: entry.declared for entry in self._entries([limit.name for limit in limits])}
        hashes = [("HSET", limit_key(self._keys, limit.name), *fields_of(limit)) for limit in limits]
        # First the hashes: a name without one is shown to people.
        self._connections.exchange([*hashes, ("SADD", limits_key(self._keys), *(limit.name for limit in limits))])
        for limit in limits:
            if known.get(limit.name, limit) != limit:
                self._look_now(limit.name)

    def _of_this_version(self, limits: Sequence[LimitSettings]) -> list[LimitSettings]:
        """Without those whose records a newer release has written."""
        if not limits:
            return []
        versions = self._connections.answers([("HGET", limit_key(self._keys, limit.name), "v") for limit in limits])
        return [limit for limit, v in zip(limits, versions, strict=True) if not v or text(v) == V]

    # --- jobs that begin

    def begin(self, wish: SlotWish) -> Begins | Waits | GivenAway | Undeclared:
        delivery = wish.delivery
        entry = line_entry.written(wish.parked, delivery.queue, machine.time(), jid=wish.jid)
        asked = wish.jid, delivery.identity, delivery.queue, delivery.payload, entry
        answer = self._begin(
            self._keys.inprogress(delivery.queue, delivery.identity), asked, wish.slots, wish.queues, wish.effects
        )
        if answer[0] == b"waits":
            return Waits(text(answer[1]))
        if answer[0] == b"run":
            return Begins()
        return GivenAway() if answer[0] == b"lost" else Undeclared()

    def take(self, slot: Slot, jid: str, owner: str) -> bool | Undeclared:
        answer = self._begin(self._keys.nothing, (jid, owner, "", "", ""), (slot,))
        return Undeclared() if answer[0] == b"undeclared" else bool(answer[0] == b"run")

    def _begin(
        self,
        held: str,
        asked: tuple[Argument, str, Argument, Argument, Argument],
        slots: Sequence[Slot],
        queues: Sequence[str] = (),
        effects: Sequence[Effect] = (),
    ) -> list[Any]:
        number_of, keys = _Numbers(), self._keys
        more: list[Argument] = [len(slots)]
        for slot in slots:
            more += slot_arguments(slot, keys, number_of, queues)
        more += encode(effects, keys, number_of, 0.0)
        names = keys.queues, held, keys.nothing, *number_of.names
        script = _begin_script(words_for(frozenset([type(effect) for effect in effects])))
        answer: list[Any] = self._begins.call(script, asked[1], names, (*asked, *more))
        return answer

    def leave(self, slot: Slot, jid: str, queues: Sequence[str] = (), owner: str = "") -> None:
        number_of = _Numbers()
        arguments = jid, *slot_arguments(slot, self._keys, number_of, queues)
        self._begins.call(_FREE, owner, (self._keys.queues, *number_of.names), arguments)

    # --- looks

    def due(self, limit: int, within_s: float = 0.0) -> DueSlots:
        seconds, micro = self._connections.call("TIME")
        clock = int(seconds) + int(micro) / 1e6
        now = clock + within_s
        lines = self._lines_due(min(limit + 1, DUE_PAGE))
        readable = ((slot, at) for name, at in lines if (slot := slot_of_line(name)) is not None)
        found = [*itertools.islice(readable, limit + 1)]
        due = [slot for slot, at in found[:limit] if at <= now]
        later = [at for _, at in found if at > now]
        if later:
            return DueSlots(due, later[0] - now, clock)
        return DueSlots(due, 0.0 if len(found) > limit else None, clock)

    def _lines_due(self, page: int = DUE_PAGE) -> Iterator[tuple[str, float]]:
        """Each line with the time at which it is due, in the order of these. A line that moves between two pages is
        looked at later, as any."""
        since, passed = "-inf", 0
        while True:
            asked = ("ZRANGEBYSCORE", limits_due_key(self._keys), since, "+inf", "WITHSCORES", "LIMIT", passed, page)
            reply = self._connections.call(*asked)
            yield from ((text(name), float(at)) for name, at in zip(reply[::2], reply[1::2], strict=True))
            if len(reply) < 2 * page:
                return
            same = reply[1::2].count(reply[-1])
            passed = same + (passed if text(reply[-1]) == since else 0)
            since = text(reply[-1])

    def look(
        self, slot: Slot, queues: Sequence[str] = (), gone: Sequence[SlotHolder] = (), most: int = LET_GO_MOST
    ) -> Looked:
        number_of, keys = _Numbers(), self._keys
        oldest = self._connections.call("LRANGE", keys.line(slot.line), -UNREADABLE_MOST, -1)
        known = [*queues, *(line_entry.read(entry).queue for entry in oldest)]
        arguments: list[Argument] = [0, most, *slot_arguments(slot, keys, number_of, filter(None, known))]
        for holder in gone:
            arguments += (holder.jid, value_of(holder), 0)
        for holder in self.holders(slot):
            if holder.owner:
                arguments += (holder.jid, value_of(holder), number_of(keys.lease(holder.owner)))
            elif not holder.queue:  # of a block whose owner had died: release 0.4.0 kept its place for a recovered job
                arguments += (holder.jid, value_of(holder), 0)
        registries = keys.owners, keys.blocks, keys.gone
        let_go, waiting = self._connections.script(_LOOK, (keys.queues, *registries, *number_of.names), arguments)
        return Looked(let_go, waiting)

    def holders(self, slot: Slot) -> list[SlotHolder]:
        return self._holders([slot])[0]

    def _holders(self, slots: Sequence[Slot]) -> list[list[SlotHolder]]:
        replies = self._connections.answers([("HGETALL", places_key(self._keys, slot.id)) for slot in slots])
        return [_read_holders(reply or ()) for reply in replies]

    # --- people

    def set(self, name: str, concurrent: int | None = None, rate: Rate | None = None) -> bool:
        if not self._connections.call("EXISTS", limit_key(self._keys, name)):
            return False
        fields: list[Argument] = []
        if concurrent is not None:
            fields += ("set_concurrent", concurrent)
        if rate is not None:
            fields += ("set_rate", rate_text(rate))
        if fields:
            self._connections.call("HSET", limit_key(self._keys, name), *fields)
            self._look_now(name)
        return True

    def unset(self, name: str) -> bool:
        removed = bool(self._connections.call("HDEL", limit_key(self._keys, name), "set_concurrent", "set_rate"))
        self._look_now(name)
        return removed

    def _look_now(self, name: str) -> None:
        """More jobs of its lines may be allowed to go now."""
        slots = enumerate(self._waiting(name))
        due = [part for number, slot in slots for part in (number / 1e6, slot.line)]  # few are due at the same time
        for start in range(0, len(due), 2 * PAGE):
            self._connections.call("ZADD", limits_due_key(self._keys), "XX", *due[start : start + 2 * PAGE])

    def entries(self) -> list[LimitEntry]:
        return self._entries(sorted(map(text, self._connections.call("SMEMBERS", limits_key(self._keys)))))

    def _entries(self, names: Sequence[str]) -> list[LimitEntry]:
        replies = self._connections.answers([("HGETALL", limit_key(self._keys, name)) for name in names])
        return [
            entry for name, fields in zip(names, replies, strict=True) if (entry := limit_entry(name, fields or ()))
        ]

    def slots(self, name: str) -> Iterator[SlotEntry]:
        lines = self._waiting(name)
        seen = {Slot(name), *lines}
        yield from self._slots([*seen])
        cursor = b"0"
        while True:
            asked = ("SCAN", cursor, "MATCH", any_places(self._keys, name), "COUNT", PAGE)
            cursor, found = self._connections.call(*asked)
            fresh = {slot_of_id(slot_in(self._keys, text(key))) for key in found} - seen
            seen |= fresh
            yield from self._slots([*fresh])
            if cursor == b"0":
                return

    def _waiting(self, name: str) -> list[Slot]:
        """Its slots for which jobs wait."""
        slots = (slot_of_line(line) for line, _ in self._lines_due())
        return [slot for slot in slots if slot is not None and slot.limit == name]

    def _slots(self, slots: Sequence[Slot]) -> Iterator[SlotEntry]:
        for start in range(0, len(slots), PAGE):
            yield from self._read_slots(slots[start : start + PAGE])

    def _read_slots(self, slots: Sequence[Slot]) -> list[SlotEntry]:
        lines = [self._keys.line(slot.line) for slot in slots]
        replies = self._connections.answers([ask for line in lines for ask in (("LLEN", line), ("LINDEX", line, -1))])
        rows = zip(slots, replies[::2], replies[1::2], self._holders(slots), strict=True)
        return [
            SlotEntry(slot, size or 0, holders, line_entry.read(oldest).payload if oldest else b"")
            for slot, size, oldest, holders in rows
            if size or holders
        ]

    def forget(self, name: str) -> bool:
        replies = self._connections.exchange(
            [("SREM", limits_key(self._keys), name), ("DEL", limit_key(self._keys, name))]
        )
        return bool(replies[1])


def _read_holders(reply: Sequence[bytes]) -> list[SlotHolder]:
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [holder_of(text(name).removeprefix("s:"), text(value)) for name, value in pairs if name.startswith(b"s:")]


# --- records


def fields_of(limit: LimitSettings) -> list[Argument]:
    concurrent = "" if limit.concurrent is None else limit.concurrent
    rate = "" if limit.rate is None else rate_text(limit.rate)
    return ["v", V, "concurrent", concurrent, "rate", rate, "holds", "1" if limit.holds else ""]


def rate_text(rate: Rate) -> str:
    if rate == ANY_RATE:
        return _ANY
    return f"{rate.amount} {rate.per_s!r} {rate.burst}"


def limit_entry(name: str, reply: Sequence[bytes]) -> LimitEntry | None:
    """None for a record of another version."""
    fields = dict(zip(map(text, reply[::2]), map(text, reply[1::2]), strict=True))
    if fields.get("v") != V:
        return None
    declared = LimitSettings(name, _number(fields, "concurrent"), _rate(fields, "rate"), fields.get("holds") == "1")
    return LimitEntry(name, declared, _number(fields, "set_concurrent"), _rate(fields, "set_rate"))


def _number(fields: dict[str, str], name: str) -> int | None:
    with suppress(ValueError):
        return int(fields.get(name, ""))
    return None


def _rate(fields: dict[str, str], name: str) -> Rate | None:
    if fields.get(name) == _ANY:
        return ANY_RATE
    with suppress(ValueError):
        amount, per_s, burst = fields.get(name, "").split(" ")
        return Rate(int(amount), float(per_s), int(burst))
    return None


def holder_of(jid: str, value: str) -> SlotHolder:
    found = re.fullmatch(r"(\S*) (\S+) (.*)", value, re.DOTALL)
    since = 0.0
    with suppress(ValueError):
        since = float(found[2]) if found else 0.0
    return SlotHolder(jid, found[1] if found else "", since, found[3] if found else "")


def value_of(holder: SlotHolder) -> str:
    return f"{holder.owner} {holder.since:.6f} {holder.queue}"


def slot_of_id(slot_id: str) -> Slot:
    limit, _, key = slot_id.partition(":")
    return Slot(limit, key)
