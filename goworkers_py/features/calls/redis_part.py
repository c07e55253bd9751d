"""The part of calls and reports in Redis: their keys."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart


def calls_key(keys: Keys) -> str:
    """Holds the calls. Also the channel that tells a new one."""
    return f"{keys.prefix}pyworkers:calls"


def answers_key(keys: Keys, call_id: str) -> str:
    """Holds the answers of processes to a call. Also the channel that tells a new one."""
    return f"{keys.prefix}pyworkers:answers:{call_id}"


def reports_key(keys: Keys) -> str:
    return f"{keys.prefix}pyworkers:reports"


def _every_key(keys: Keys) -> dict[str, str]:
    return {"calls": calls_key(keys), "answers": answers_key(keys, "CALL"), "reports": reports_key(keys)}


def _types(keys: Keys) -> dict[str, str]:
    return {calls_key(keys): "stream", reports_key(keys): "stream"}


def part() -> RedisPart:
    return RedisPart(Path(__file__).parent / "lua", every_key=_every_key, types=_types)
