"""Effects as arguments of the scripts. Only this module writes them, and only effects.lua reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from goworkers_py.brokers.redis.batch_place import batch_place
from goworkers_py.brokers.redis.chain_place import chain_place
from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.group_entry import entry_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.queues.push_arguments import push_arguments
from goworkers_py.core.cursor import CURSOR_LIFE_S
from goworkers_py.core.effect import (
    ID_LIFE_S,
    Effect,
    EndMember,
    EndSet,
    FreeRubyLock,
    MeetTombstone,
    PostJobs,
    Push,
    PushEcho,
    PushJobs,
    ShowStatus,
    StoreCursor,
    StoreValue,
    TakeRubyLock,
)
from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.core.tie_effect import EndInBatch, EndLink
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.redis_slots import slot_arguments
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.wire import sidekiq_status


def encode(effects: Iterable[Effect], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """Each effect begins with a word, the number of its key, an option, and how many values follow. `number_of` gives
    the number of a key among the keys of the call; `now` is the time in the outbox."""
    for effect in effects:
        match effect:
            case PushJobs():
                yield from _pushes([push for push in effect.pushes if not push.tied], keys, number_of)
                yield from _births((push for push in effect.pushes if push.tied), keys, number_of, now)
            case PostJobs():
                yield from ("post", number_of(keys.outbox(effect.to)), effect.to, len(effect.pushes))
                for push in effect.pushes:
                    yield line_entry.written(push.payload, push.queue, now, id=push.id, due=push.at)
            case StoreValue():
                yield from ("value", number_of(keys.value(effect.kind, effect.jid)), effect.life_s)
                yield from (1, effect.value)
            case PushEcho() | EndSet() | EndMember() | EndInBatch() | EndLink():
                yield from _of_tie(effect, keys, number_of, now)
            case _:
                yield from _repeatable(effect, keys, number_of, now)


def _of_tie(
    effect: PushEcho | EndSet | EndMember | EndInBatch | EndLink, keys: Keys, number_of: NumberOf, now: float
) -> Iterator[Argument]:
    match effect:
        case PushEcho(_, queue, payload):
            yield from ("push", number_of(keys.queue(queue)), queue, 1, payload)
        case EndSet(_, group, others, into):
            values = [*encode(others, keys, number_of, now)]
            groups, registry = number_of(keys.groups_of(group.job_class)), number_of(keys.groups)
            to = (number_of(keys.group_set(into.set)), entry_of(into)) if into else (0, "")
            yield from ("endset", number_of(keys.group_set(group.set)), entry_of(group), 5 + len(values))
            yield from (groups, registry, group.job_class, *to, *values)
        case EndMember(_, group, member, ends):
            values = [*encode(ends, keys, number_of, now)]
            yield from ("member", number_of(keys.group_set(group.set)), member, len(values), *values)
        case EndLink(jid, link, result, why, job_class, bid, error):
            place = chain_place(link.cid, link.to, bid, keys, number_of)
            told = link.part, why, jid, job_class, error, result
            yield from ("link", number_of(keys.chain(link.cid)), link.number, len(told) + len(place))
            yield from (*told, *place)
        case EndInBatch(_, member, way, death):
            place = batch_place(member, keys, number_of)
            yield from ("end", number_of(keys.batch(member.bid)), way, 2 + len(place), death, effect.name, *place)


def _repeatable(effect: Effect, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    match effect:
        case NoteState():
            known = ("class", effect.job.job_class) if effect.job.job_class else ()
            index = number_of_index(effect.state, effect.life_s, keys, number_of)
            values = index, effect.state, effect.reason, *known, *chain.from_iterable(effect.fields)
            word = "renote" if effect.only_known else "note"
            yield from (word, number_of(keys.record(effect.jid)), effect.life_s, len(values), *values)
        case MeetTombstone():
            others = number_of(keys.tombstones_version), number_of(keys.cancelled(effect.jid))
            yield from ("meet", number_of(keys.tombstones), effect.jid, 3, *others, effect.state)
        case StoreCursor(jid, cursor, has_ended):
            told = cursor.run, int(has_ended), cursor.value, f"{cursor.runtime_s:.3f}", cursor.of
            yield from ("cursor", number_of(keys.iteration(jid)), CURSOR_LIFE_S, len(told), *told)
        case ShowStatus(jid, status, progress):
            shown = keys.prefix + sidekiq_status.CHANNEL, jid, *sidekiq_status.fields(status, progress, now)
            yield from ("status", number_of(keys.status(jid)), sidekiq_status.LIFE_S, len(shown), *shown)
        case FreeLock(jid, name):
            yield from ("free", number_of(keys.lock(name)), jid, 0)
        case KeepLock(jid, name, life_s, due):
            yield from ("keep", number_of(keys.lock(name)), jid, 2, life_s, "" if due is None else due)
        case LeaveSlot() | HoldSlot():
            yield from _of_slot(effect, keys, number_of)
        case _:
            yield from _of_ruby_lock(effect, keys, number_of)


def _of_ruby_lock(effect: Effect, keys: Keys, number_of: NumberOf) -> Iterator[Argument]:
    if not isinstance(effect, FreeRubyLock | TakeRubyLock):
        raise TypeError(f"{type(effect).__name__} is no effect in Redis")
    locked, *others = [number_of(key) for key in keys.ruby_lock(effect.digest)]
    values: list[Argument] = [*others, effect.digest]
    if isinstance(effect, TakeRubyLock):
        values += (effect.limit, effect.ttl_s)
    yield from ("unlock" if isinstance(effect, FreeRubyLock) else "relock", locked, effect.jid, len(values), *values)


def _of_slot(effect: LeaveSlot | HoldSlot, keys: Keys, number_of: NumberOf) -> Iterator[Argument]:
    word, queues = ("leave", effect.queues) if isinstance(effect, LeaveSlot) else ("hold", ())
    place = slot_arguments(effect.slot, keys, number_of, queues)
    yield from (word, number_of(keys.places(effect.slot.id)), effect.jid, len(place), *place)


def number_of_index(state: StateWord, life_s: int, keys: Keys, number_of: NumberOf) -> int:
    """The number of the index of tracked jobs that have ended so; 0 for a job that goes on, and for a dead one."""
    return number_of(keys.ended(state)) if state in INDEXED and life_s > 0 else 0


def encode_once(effects: Iterable[Effect], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """Like `encode`, and each effect happens only if none with its id has happened within a day. Not so those
    that are repeatable."""
    for effect in effects:
        values = list(encode([effect], keys, number_of, now))
        if effect.repeatable:
            yield from values
            continue
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


def _births(pushes: Iterable[Push], keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    for push in pushes:
        values = push_arguments(push, keys, number_of, now)
        yield from ("born", number_of(keys.schedule), "", len(values), *values)
