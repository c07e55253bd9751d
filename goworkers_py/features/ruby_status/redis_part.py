"""The part in Redis: the state of a job, as the gem sidekiq-status finds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import ForeignCancel, RedisPart
from goworkers_py.features.ruby_status.effects import ShowStatus
from goworkers_py.features.ruby_status.status import CHANNEL, LIFE_S, fields

LUA = Path(__file__).parent / "lua"


def status_key(keys: Keys, jid: str) -> str:
    """The gem's: what it shows of a job."""
    return f"{keys.prefix}sidekiq:status:{jid}"


def part() -> RedisPart:
    return RedisPart(
        LUA,
        effects={ShowStatus: _show},
        elsewhere={ShowStatus: _elsewhere},
        handlers={"status_effects": ("status",)},
        every_key=lambda keys: {"status": status_key(keys, "JID")},
        foreign_cancels=[ForeignCancel(status_key, "stop", b"true", of_shown=True)],
    )


def channel(keys: Keys) -> str:
    return keys.prefix + CHANNEL


def _show(effect: ShowStatus, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    shown = channel(keys), effect.jid, *fields(effect.status, effect.progress, now)
    yield from ("status", number_of(status_key(keys, effect.jid)), LIFE_S, len(shown), *shown)


def _elsewhere(effect: ShowStatus, is_dead: bool, dead_life_s: int) -> ShowStatus:
    return dataclasses.replace(effect, status="failed" if is_dead else "queued")
