"""The place of a batch as arguments of the scripts: its record, those of the batches around it, and where its callbacks
go. Only this module writes it, and only batch.lua reads it."""

from __future__ import annotations

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.batches.batch import Membership, line_of


def joined_place(bid: str, keys: Keys, number_of: NumberOf) -> list[Argument]:
    """Of a batch that a job joins."""
    levels = line_of(bid)
    place: list[Argument] = [number_of(keys.batches), len(levels)]
    for level in levels:
        place += (level, number_of(keys.batch(level)), number_of(keys.deaths(level)))
    return place


def batch_place(member: Membership, keys: Keys, number_of: NumberOf) -> list[Argument]:
    """Of a batch that may end."""
    shared = keys.tombstones, keys.tombstones_version, keys.schedule
    place = [*joined_place(member.bid, keys, number_of), *map(number_of, shared), len(member.to)]
    for queue in member.to:
        place += (queue, number_of(keys.queue(queue)))
    return place
