"""The part of chains in Redis: their effect as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart
from goworkers_py.features.batches.redis_part import joined_place
from goworkers_py.features.cancelling.redis_part import tombstones_key, version_key
from goworkers_py.features.chains.effects import EndLink

LUA = Path(__file__).parent / "lua"
V = "1"


# --- keys


def chains_key(keys: Keys) -> str:
    """Holds the names of all chains, by the times at which they are forgotten."""
    return f"{keys.prefix}pyworkers:chains"


def chain_key(keys: Keys, cid: str) -> str:
    """Holds the record of a chain, with its links that are still to come."""
    return f"{keys.prefix}pyworkers:chain:{cid}"


def _every_key(keys: Keys) -> dict[str, str]:
    return {"chains": chains_key(keys), "chain": chain_key(keys, "CID")}


# --- effects


def part() -> RedisPart:
    return RedisPart(
        LUA,
        effects={EndLink: _end},
        handlers={"chain": ("link",)},
        every_key=_every_key,
        types=lambda keys: {chains_key(keys): "zset"},
        constants={"CHAIN_V": f"'{V}'"},
    )


def chain_place(cid: str, to: Collection[str], bid: str, keys: Keys, number_of: NumberOf) -> list[Argument]:
    """The place of a chain, which only chain.lua reads. `to` are the queues of the next link, `bid` is the batch that
    it joins."""
    shared = chain_key(keys, cid), tombstones_key(keys), version_key(keys), keys.schedule, chains_key(keys)
    place: list[Argument] = [cid, *map(number_of, shared), len(to)]
    for queue in to:
        place += (queue, number_of(keys.queue(queue)))
    return [*place, *(joined_place(bid, keys, number_of) if bid else [0])]


def _end(effect: EndLink, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    jid, link, result, why, job_class, bid, error = effect
    place = chain_place(link.cid, link.to, bid, keys, number_of)
    values = link.part, why, jid, job_class, error, result, *place
    yield from ("link", number_of(chain_key(keys, link.cid)), link.number, len(values), *values)
