"""Effects as arguments of settle.lua. Only this module writes them, and only `each_effect` in settle.lua reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from goworkers_py.brokers.redis import line_entry
from goworkers_py.brokers.redis.exchange import Argument
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.effect import ID_LIFE_S, Effect, PostJobs, Push, PushJobs, StoreValue

NumberOf = Callable[[str], int]


def encode(effects: Iterable[Effect], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """Each effect begins with a word, the number of its key, an option, and how many values follow. `number_of` gives
    the number of a key among the keys of the call; `now` is the time in the outbox."""
    for effect in effects:
        match effect:
            case PushJobs():
                yield from _pushes(effect.pushes, keys, number_of)
            case PostJobs():
                yield from ("post", number_of(keys.outbox(effect.to)), effect.to, len(effect.pushes))
                for push in effect.pushes:
                    yield line_entry.written(push.payload, push.queue, now, id=push.id, due=push.at)
            case StoreValue():
                yield from ("value", number_of(keys.value(effect.kind, effect.jid)), effect.life_s)
                yield from (1, effect.value)


def encode_once(effects: Iterable[Effect], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """Like `encode`, and each effect happens only if none with its id has happened within a day."""
    for effect in effects:
        values = list(encode([effect], keys, number_of, now))
        yield from ("once", number_of(keys.applied(effect.kind, effect.jid)), ID_LIFE_S, len(values), *values)


def by_place(pushes: Iterable[Push]) -> tuple[dict[str, list[bytes]], list[Argument]]:
    """The payloads for each queue, and the times and payloads for the schedule."""
    now: dict[str, list[bytes]] = {}
    later: list[Argument] = []
    for push in pushes:
        if push.at is None:
            now.setdefault(push.queue, []).append(push.payload)
        else:
            later += (push.at, push.payload)
    return now, later


def _pushes(pushes: Iterable[Push], keys: Keys, number_of: NumberOf) -> Iterator[Argument]:
    now, later = by_place(pushes)
    for queue, payloads in now.items():
        yield from ("push", number_of(keys.queue(queue)), queue, len(payloads))
        yield from payloads
    if later:
        yield from ("later", number_of(keys.schedule), "", len(later))
        yield from later
