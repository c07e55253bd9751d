"""The part of cancelling in Redis: its effect as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart
from goworkers_py.features.cancelling.effects import MeetTombstone

LUA = Path(__file__).parent / "lua"


# --- keys


def tombstones_key(keys: Keys) -> str:
    """Holds the tombstones by the jids. Also the channel on which new ones are told."""
    return f"{keys.prefix}pyworkers:tombstones"


def version_key(keys: Keys) -> str:
    """Holds a value that is another one after each change of the tombstones."""
    return f"{keys.prefix}pyworkers:tombstones:version"


def cancelled_key(keys: Keys, jid: str) -> str:
    """Holds how a job has ended that was to be cancelled. Also the channel on which that is told."""
    return f"{keys.prefix}pyworkers:cancelled:{jid}"


def _every_key(keys: Keys) -> dict[str, str]:
    return {
        "tombstones": tombstones_key(keys),
        "tombstones_version": version_key(keys),
        "cancelled": cancelled_key(keys, "JID"),
    }


# --- the effect


def part() -> RedisPart:
    return RedisPart(
        LUA,
        effects={MeetTombstone: _meet},
        handlers={"tombstone_effects": ("meet",)},
        every_key=_every_key,
        types=lambda keys: {tombstones_key(keys): "hash"},
    )


def _meet(effect: MeetTombstone, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    others = number_of(version_key(keys)), number_of(cancelled_key(keys, effect.jid))
    yield from ("meet", number_of(tombstones_key(keys)), effect.jid, 3, *others, effect.state)
