"""The part of iterable jobs in Redis: their effect as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import ForeignCancel, RedisPart
from goworkers_py.core import machine
from goworkers_py.features.iteration.cursor import CURSOR_LIFE_S
from goworkers_py.features.iteration.effects import StoreCursor

LUA = Path(__file__).parent / "lua"


def iteration_key(keys: Keys, jid: str) -> str:
    """Sidekiq's: where an iterable job is, and whether it was cancelled."""
    return f"{keys.prefix}it-{jid}"


def part() -> RedisPart:
    return RedisPart(
        LUA,
        effects={StoreCursor: _store},
        handlers={"cursor_effects": ("cursor",)},
        foreign_cancels=[ForeignCancel(iteration_key, "cancelled", ask=_ask_sidekiq)],
        every_key=lambda keys: {"iteration": iteration_key(keys, "JID")},
    )


def _store(effect: StoreCursor, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    cursor = effect.cursor
    values = cursor.run, int(effect.has_ended), cursor.value, f"{cursor.runtime_s:.3f}", cursor.of
    yield from ("cursor", number_of(iteration_key(keys, effect.jid)), CURSOR_LIFE_S, len(values), *values)


def _ask_sidekiq(connections: Connections, keys: Keys, jid: str) -> bool:
    """Sidekiq stumbles over a hash with `cancelled` alone, so the other fields are written where it has not written
    them yet."""
    key = iteration_key(keys, jid)
    runs, *_ = connections.transaction(
        [
            ("HGET", key, "ex"),
            ("HSETNX", key, "ex", 0),
            ("HSETNX", key, "c", "null"),
            ("HSETNX", key, "rt", 0),
            ("HSETNX", key, "cancelled", int(machine.time())),
            ("EXPIRE", key, CURSOR_LIFE_S),
        ]
    )
    return runs not in (None, b"0")
