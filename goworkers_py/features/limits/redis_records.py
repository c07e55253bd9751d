"""The records of limits in Redis as values, see lua/limit.lua."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from goworkers_py.brokers.redis.driver.exchange import Argument, text
from goworkers_py.features.limits.limit import ANY_RATE, LimitEntry, LimitSettings, Rate, Slot, SlotHolder

V = "1"
_ANY = "any"  # limit.lua takes it for no rate


def fields_of(limit: LimitSettings) -> list[Argument]:
    concurrent = "" if limit.concurrent is None else limit.concurrent
    rate = "" if limit.rate is None else rate_text(limit.rate)
    return ["v", V, "concurrent", concurrent, "rate", rate, "holds", "1" if limit.holds else ""]


def rate_text(rate: Rate) -> str:
    if rate == ANY_RATE:
        return _ANY
    return f"{rate.amount} {rate.per_s!r} {rate.burst}"


def limit_entry(name: str, told: Sequence[bytes]) -> LimitEntry | None:
    """None for a record of another version."""
    fields = dict(zip(map(text, told[::2]), map(text, told[1::2]), strict=True))
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


def slot_of_id(told: str) -> Slot:
    limit, _, key = told.partition(":")
    return Slot(limit, key)
