"""A push with ties as arguments of the scripts. Only this module writes them, and only push.lua reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.redis import group_entry
from goworkers_py.brokers.redis.batch_place import joined_place
from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.core import machine
from goworkers_py.core.batch import BatchTie
from goworkers_py.core.effect import ID_LIFE_S, Push
from goworkers_py.core.group import GroupMembership
from goworkers_py.features.limits.limit import SlotClaim
from goworkers_py.features.limits.redis_slots import slot_arguments
from goworkers_py.features.tracking.record import live_s
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.lock import RESCHEDULED_S, LockClaim, lock_life_s

# Of one call of publish_unique.lua, which gives all payloads to one command.
MOST_UNIQUE = 1_000
_WAITS_FOR_NOTHING = ("skip", "raise")


def are_plainly_unique(pushes: Sequence[Push]) -> bool:
    """Whether publish_unique.lua does these pushes: all to one place, of jobs that have a lock and no other tie."""
    queue, at = pushes[0].queue, pushes[0].at
    for push in pushes:  # all() takes twice as long for one
        if push.id or len(push.ties) != 1 or type(lock := push.ties[0]) is not LockClaim:
            return False
        if lock.on_conflict not in _WAITS_FOR_NOTHING or push.queue != queue or push.at != at:
            return False
    return len(pushes) <= MOST_UNIQUE


def unique_pushes(pushes: Sequence[Push], keys: Keys) -> tuple[list[str], list[Argument]]:
    """The keys and arguments of publish_unique.lua."""
    now, queue, at = machine.time(), pushes[0].queue, pushes[0].at
    names = [keys.queues, keys.queue(queue) if at is None else keys.schedule]
    arguments: list[Argument] = [queue, "" if at is None else at, now]
    for push in pushes:
        if (claim := push.tie(LockClaim)) is not None:  # each has one
            names.append(keys.lock(claim.name))
            arguments += (claim.jid, push.payload, lock_life_s(claim.for_s, at, now), claim.instead_of)
    return names, arguments


def push_arguments(push: Push, keys: Keys, number_of: NumberOf, now: float) -> list[Argument]:
    if push.at is None:
        goal: tuple[Argument, ...] = "back", number_of(keys.queue(push.queue)), push.queue
    else:
        goal = "schedule", number_of(keys.schedule), push.at
    ties, record = [*_ties(push, keys, number_of, now)], push.tie(RecordTie)
    return [*goal, record.job.job_class if record else "", push.payload, len(ties), *ties]


def _ties(push: Push, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    """For each tie a word, the number of its key, how many values follow, and these."""
    if push.id:
        yield from ("id", number_of(keys.pushed(push.id)), 1, ID_LIFE_S)
    if (tracked := push.tie(RecordTie)) is not None:
        record = number_of(keys.record(tracked.job.jid))
        yield from ("record", record, 2, live_s(push.at, now), tracked.instead_of)
    if (claim := push.tie(LockClaim)) is not None:
        life_s, schedule = lock_life_s(claim.for_s, push.at, now), number_of(keys.schedule)
        known = claim.jid, life_s, claim.on_conflict, claim.instead_of
        yield from ("lock", number_of(keys.lock(claim.name)), 8, *known)
        yield from (schedule, RESCHEDULED_S, claim.fields, push.queue)
    if (place_in := push.tie(SlotClaim)) is not None and push.at is None:
        slot, jid = place_in
        header = line_entry.written(b"", push.queue, now, jid=jid)
        told = jid, header, *slot_arguments(slot, keys, number_of, [push.queue])
        yield from ("slot", number_of(keys.places(slot.id)), len(told), *told)
    if (batch := push.tie(BatchTie)) is not None:
        place = joined_place(batch.bid, keys, number_of)
        yield from ("batch", number_of(keys.batch(batch.bid)), len(place), *place)
    if (membership := push.tie(GroupMembership)) is not None:
        yield from group_entry.tie(membership, keys, number_of)
