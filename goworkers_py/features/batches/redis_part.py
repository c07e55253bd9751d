"""The part of batches in Redis: their ties and effects as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.driver.packing import packed_numbers
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, RowsInRedis, TieInRedis
from goworkers_py.core.effect import Push
from goworkers_py.features.batches.batch import MOST_DEATHS, BatchTie, Membership, line_of
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.cancelling.redis_part import tombstones_key, version_key

LUA = Path(__file__).parent / "lua"
V = "1"


# --- keys


def batches_key(keys: Keys) -> str:
    """Holds the names of all batches, by the times at which they are forgotten."""
    return f"{keys.prefix}pyworkers:batches"


def batch_key(keys: Keys, bid: str) -> str:
    """Holds the record of a batch."""
    return f"{keys.prefix}pyworkers:batch:{bid}"


def deaths_key(keys: Keys, bid: str) -> str:
    """Holds the newest deaths of the jobs of a batch."""
    return f"{keys.prefix}pyworkers:deaths:{bid}"


def _every_key(keys: Keys) -> dict[str, str]:
    return {"batches": batches_key(keys), "batch": batch_key(keys, "BID"), "deaths": deaths_key(keys, "BID")}


# --- the place of a batch: its record, those of the batches around it, and where its callbacks go. Only batch.lua reads
# these arguments.


def joined_place(bid: str, keys: Keys, number_of: NumberOf) -> list[Argument]:
    """Of a batch that a job joins."""
    levels = line_of(bid)
    place: list[Argument] = [number_of(batches_key(keys)), len(levels)]
    for level in levels:
        place += (level, number_of(batch_key(keys, level)), number_of(deaths_key(keys, level)))
    return place


def batch_place(member: Membership, keys: Keys, number_of: NumberOf) -> list[Argument]:
    """Of a batch that may end."""
    shared = tombstones_key(keys), version_key(keys), keys.schedule
    place = [*joined_place(member.bid, keys, number_of), *map(number_of, shared), len(member.to)]
    for queue in member.to:
        place += (queue, number_of(keys.queue(queue)))
    return place


# --- ties and effects


def part() -> RedisPart:
    return RedisPart(
        LUA,
        ties={BatchTie: TieInRedis("batch", "batch_tie", "batch_check", _tie)},
        effects={EndInBatch: _end},
        rows={EndInBatch: RowsInRedis("ends", "batch_effects", _ends, lambda end: end.way == "succeeded", before=True)},
        handlers={"batch_effects": ("end",)},
        finishers=("batch_effects",),
        every_key=_every_key,
        types=lambda keys: {batches_key(keys): "zset"},
        constants={"BATCH_V": f"'{V}'", "BATCH_DEATHS": MOST_DEATHS},
    )


def _tie(tie: BatchTie, push: Push, keys: Keys, number_of: NumberOf, now: float) -> tuple[int, Sequence[Argument]]:
    place = joined_place(tie.bid, keys, number_of)
    return number_of(batch_key(keys, tie.bid)), place


def _end(effect: EndInBatch, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    place = batch_place(effect.member, keys, number_of)
    values = effect.death, effect.name, *place
    yield from ("end", number_of(batch_key(keys, effect.member.bid)), effect.way, len(values), *values)


def _ends(
    ends: Sequence[tuple[int, EndInBatch]], keys: Keys, number_of: NumberOf, number_of_first: object
) -> Iterator[Argument]:
    """Ends in one batch share one word."""
    groups: dict[Membership, list[int]] = {}
    for number, end in ends:
        groups.setdefault(end.member, []).append(number)
    for member, numbers in groups.items():
        yield from ("ends", packed_numbers(numbers), *batch_place(member, keys, number_of))
