"""Effects as arguments of the scripts, see lua/fragments/effects.lua."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import EncodeEffect, effect_kinds
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.queues.push_arguments import push_arguments
from goworkers_py.core.effect import (
    ID_LIFE_S,
    Effect,
    PostJobs,
    Push,
    PushJobs,
    StoreValue,
    by_place,
)


def encode(effects: Iterable[Effect], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """Each effect begins with a word, the number of its key, an option, and how many values follow. `number_of` gives
    the number of a key among the keys of the call; `now` is the time in the outbox."""
    for effect in effects:
        encode_kind = _OWN.get(type(effect)) or effect_kinds().get(type(effect))
        if encode_kind is None:
            raise TypeError(f"{type(effect).__name__} is no effect in Redis")
        yield from encode_kind(effect, keys, number_of, now)


def encode_once(effects: Iterable[Effect], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """Like `encode`, and each effect happens only if none with its id has happened within a day. Not so those
    that are repeatable."""
    for effect in effects:
        values = list(encode([effect], keys, number_of, now))
        if effect.repeatable:
            yield from values
            continue
        yield from ("once", number_of(keys.applied(effect.kind, effect.jid)), ID_LIFE_S, len(values), *values)


def _pushes(pushes: Iterable[Push], keys: Keys, number_of: NumberOf) -> Iterator[Argument]:
    now, later = by_place(pushes)
    for queue, payloads in now.items():
        yield from ("push", number_of(keys.queue(queue)), queue, len(payloads))
        yield from payloads
    if later:
        yield from ("later", number_of(keys.schedule), "", len(later))
        yield from later


def _births(pushes: Iterable[Push], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    for push in pushes:
        values = push_arguments(push, keys, number_of, now)
        yield from ("born", number_of(keys.schedule), "", len(values), *values)


# --- the engine's own


def _push_jobs(effect: PushJobs, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    yield from _pushes([push for push in effect.pushes if not push.tied], keys, number_of)
    yield from _births((push for push in effect.pushes if push.tied), keys, number_of, now)


def _post_jobs(effect: PostJobs, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    yield from ("post", number_of(keys.outbox(effect.to)), effect.to, len(effect.pushes))
    for push in effect.pushes:
        yield line_entry.written(push.payload, push.queue, now, id=push.id, due=push.at)


def _store_value(effect: StoreValue, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    yield from ("value", number_of(keys.value(effect.kind, effect.jid)), effect.life_s, 1, effect.value)


_OWN: dict[type[Any], EncodeEffect] = {
    PushJobs: _push_jobs,
    PostJobs: _post_jobs,
    StoreValue: _store_value,
}
