"""The place of a chain as arguments of the scripts. Only this module writes it, and only chain.lua reads it."""

from __future__ import annotations

from collections.abc import Collection

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.batches.batch_place import joined_place


def chain_place(cid: str, to: Collection[str], bid: str, keys: Keys, number_of: NumberOf) -> list[Argument]:
    """`to` are the queues of the next link, `bid` is the batch that it joins."""
    shared = keys.chain(cid), keys.tombstones, keys.tombstones_version, keys.schedule, keys.chains
    place: list[Argument] = [cid, *map(number_of, shared), len(to)]
    for queue in to:
        place += (queue, number_of(keys.queue(queue)))
    return [*place, *(joined_place(bid, keys, number_of) if bid else [0])]
