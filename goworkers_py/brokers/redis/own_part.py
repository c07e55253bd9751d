"""The part of the engine in Redis, and of the features that have no folder yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.driver.packing import packed_numbers
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, RowsInRedis, TieInRedis
from goworkers_py.brokers.redis.queues.effects import OWN
from goworkers_py.core.effect import KEPT_S, Push, ShowStatus
from goworkers_py.core.tie_effect import EndInBatch
from goworkers_py.features.batches.batch import BatchTie, Membership
from goworkers_py.features.batches.batch_place import batch_place, joined_place
from goworkers_py.features.groups import group_entry
from goworkers_py.features.groups.group import GroupMembership

# As many values as Lua's `unpack` takes, in each of several calls.
AT_ONCE = 1_000


class PushId:
    """The kind of the tie that is the id of a push."""


def part() -> RedisPart:
    return RedisPart(
        Path(__file__).parent / "lua",
        ties={
            PushId: TieInRedis("id", "id_tie", "id_check", 0, _no_tie),
            BatchTie: TieInRedis("batch", "batch_tie", "batch_check", 2, _batch),
            GroupMembership: TieInRedis("group", "group_tie", "group_check", 4, group_entry.tie, takes_back=False),
        },
        effects=OWN,
        elsewhere={ShowStatus: _elsewhere},
        rows={EndInBatch: RowsInRedis("ends", "batch_effects", _ends, lambda end: end.way == "succeeded", before=True)},
        handlers={
            "once_effects": ("once",),
            "queue_effects": ("push", "post", "later", "value"),
            "born_effects": ("born",),
            "group_effects": ("endset", "member"),
            "batch_effects": ("end",),
            "chain": ("link",),
            "tombstone_effects": ("meet",),
            "cursor_effects": ("cursor",),
            "sidekiq_status": ("status",),
            "ruby_lock_effects": ("unlock", "relock"),
        },
        finishers=("batch_effects",),
        constants={"KEPT_S": f"'{KEPT_S}'", "AT_ONCE": AT_ONCE},
    )


def _elsewhere(effect: ShowStatus, is_dead: bool, dead_life_s: int) -> ShowStatus:
    return dataclasses.replace(effect, status="failed" if is_dead else "queued")


def _no_tie(tie: PushId, push: Push, keys: Keys, number_of: NumberOf, now: float) -> None:
    """`push_arguments` writes the id."""


def _batch(tie: BatchTie, push: Push, keys: Keys, number_of: NumberOf, now: float) -> tuple[int, Sequence[Argument]]:
    place = joined_place(tie.bid, keys, number_of)
    return number_of(keys.batch(tie.bid)), place


def _ends(
    ends: Sequence[tuple[int, EndInBatch]], keys: Keys, number_of: NumberOf, number_of_first: object
) -> Iterator[Argument]:
    """Ends in one batch share one word."""
    groups: dict[Membership, list[int]] = {}
    for number, end in ends:
        groups.setdefault(end.member, []).append(number)
    for member, numbers in groups.items():
        yield from ("ends", packed_numbers(numbers), *batch_place(member, keys, number_of))
