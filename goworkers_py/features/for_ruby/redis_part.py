"""The part of locks of the gem sidekiq-unique-jobs in Redis: their effects as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock

LUA = Path(__file__).parent / "lua"


def ruby_lock_keys(keys: Keys, digest: str) -> tuple[str, ...]:
    """The keys of a lock, in the order of lua/fragments/ruby_lock.lua."""
    lock, all_locks = keys.prefix + digest, f"{keys.prefix}uniquejobs"
    parts = f"{lock}:LOCKED", lock, f"{lock}:QUEUED", f"{lock}:PRIMED", f"{lock}:INFO"
    return *parts, f"{all_locks}:digests", f"{all_locks}:expiring_digests"


def _every_key(keys: Keys) -> dict[str, str]:
    names = "ruby_lock", "last", "queued", "primed", "info", "digests", "expiring_digests"
    return dict(zip(names, ruby_lock_keys(keys, "uniquejobs:DIGEST"), strict=True))


def part() -> RedisPart:
    return RedisPart(
        LUA,
        effects={FreeRubyLock: _free, TakeRubyLock: _take},
        handlers={"ruby_lock_effects": ("unlock", "relock")},
        every_key=_every_key,
    )


def _free(effect: FreeRubyLock, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    locked, *others = [number_of(key) for key in ruby_lock_keys(keys, effect.digest)]
    values: list[Argument] = [*others, effect.digest]
    yield from ("unlock", locked, effect.jid, len(values), *values)


def _take(effect: TakeRubyLock, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    locked, *others = [number_of(key) for key in ruby_lock_keys(keys, effect.digest)]
    values: list[Argument] = [*others, effect.digest, effect.limit, effect.ttl_s]
    yield from ("relock", locked, effect.jid, len(values), *values)
