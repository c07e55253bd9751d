"""The part of the engine in Redis, and of the features that have no folder yet."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, TieInRedis
from goworkers_py.brokers.redis.queues.effects import OWN
from goworkers_py.core.effect import KEPT_S, Push, ShowStatus
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
            GroupMembership: TieInRedis("group", "group_tie", "group_check", 4, group_entry.tie, takes_back=False),
        },
        effects=OWN,
        elsewhere={ShowStatus: _elsewhere},
        handlers={
            "once_effects": ("once",),
            "queue_effects": ("push", "post", "later", "value"),
            "born_effects": ("born",),
            "group_effects": ("endset", "member"),
            "tombstone_effects": ("meet",),
            "sidekiq_status": ("status",),
        },
        constants={"KEPT_S": f"'{KEPT_S}'", "AT_ONCE": AT_ONCE},
    )


def _elsewhere(effect: ShowStatus, is_dead: bool, dead_life_s: int) -> ShowStatus:
    return dataclasses.replace(effect, status="failed" if is_dead else "queued")


def _no_tie(tie: PushId, push: Push, keys: Keys, number_of: NumberOf, now: float) -> None:
    """`push_arguments` writes the id."""
