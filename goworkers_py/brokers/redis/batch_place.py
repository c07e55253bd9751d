"""The place of a batch as arguments of the scripts: its record, those of the batches around it, and where its callbacks
go. Only this module writes it, and only batch.lua reads it."""

from __future__ import annotations

from goworkers_py.brokers.redis.exchange import Argument
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.push_arguments import NumberOf
from goworkers_py.core.batch import Membership, line_of


def batch_place(member: Membership, keys: Keys, number_of: NumberOf) -> list[Argument]:
    levels = line_of(member.bid)
    place: list[Argument] = [len(levels)]
    for bid in levels:
        place += (bid, number_of(keys.batch(bid)), number_of(keys.deaths(bid)))
    shared = keys.tombstones, keys.tombstones_version, keys.schedule, keys.batches
    place += map(number_of, shared)
    place.append(len(member.to))
    for queue in member.to:
        place += (queue, number_of(keys.queue(queue)))
    return place
