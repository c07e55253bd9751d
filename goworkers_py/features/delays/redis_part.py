"""The part of delay queues in Redis: their keys and their scripts."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart

LUA = Path(__file__).parent / "lua"


def delay_keys(keys: Keys, name: str) -> tuple[str, str, str, str]:
    """Of a delay queue: the records of its tasks, their due times, the claims on them, and who may claim them."""
    kinds = ("delay-tasks", "delay-due", "delay-claims", "delay-owners")
    tasks, due, claims, owners = (f"{keys.prefix}pyworkers:{kind}:{name}" for kind in kinds)
    return tasks, due, claims, owners


def listed_task_key(keys: Keys, task_id: str) -> str:
    """A task in the layout of a Go program; the list of `list_key` holds the ids."""
    return f"{keys.prefix}delaytk_{task_id}"


def list_key(keys: Keys, name: str = "") -> str:
    return f"{keys.prefix}{name or '__delay_queue_list__'}"


def _every_key(keys: Keys) -> dict[str, str]:
    names = ("delays", "delay_due", "delay_claims", "delay_owners")
    ours = dict(zip(names, delay_keys(keys, "QUEUE"), strict=True))
    return {**ours, "delay_list": list_key(keys), "delay_task": listed_task_key(keys, "ID")}


def part() -> RedisPart:
    return RedisPart(LUA, every_key=_every_key)
