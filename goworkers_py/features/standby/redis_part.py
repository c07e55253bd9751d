"""The part of elections in Redis: their scripts and keys. The lease of the leader is the lease of a fence."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart

LUA = Path(__file__).parent / "lua"


def election_key(keys: Keys, election: str) -> str:
    """Holds the last epoch of an election, and who won it."""
    return f"{keys.prefix}pyworkers:election:{election}"


def _every_key(keys: Keys) -> dict[str, str]:
    return {"election": election_key(keys, "ELECTION")}


def part() -> RedisPart:
    return RedisPart(LUA, every_key=_every_key)
