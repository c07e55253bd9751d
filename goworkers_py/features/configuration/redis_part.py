"""The part of central configurations in Redis: their scripts and keys."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart

LUA = Path(__file__).parent / "lua"


def configs_key(keys: Keys) -> str:
    """Holds the number of the newest version of each. Also the channel that tells a push."""
    return f"{keys.prefix}pyworkers:configs"


def config_key(keys: Keys, name: str) -> str:
    """Holds the versions of one."""
    return f"{keys.prefix}pyworkers:config:{name}"


def _every_key(keys: Keys) -> dict[str, str]:
    return {"configs": configs_key(keys), "config": config_key(keys, "NAME")}


def _types(keys: Keys) -> dict[str, str]:
    return {configs_key(keys): "hash"}


def part() -> RedisPart:
    return RedisPart(LUA, every_key=_every_key, types=_types)
