"""The part of limits in Redis: their ties and effects as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, TieInRedis
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.server.key_patterns import literally
from goworkers_py.core.effect import Push
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import (
    BLOCK_S,
    LATE_S,
    LET_GO_MOST,
    LOOK_S,
    SOON_S,
    UNREADABLE_MOST,
    Slot,
    SlotClaim,
)

LUA = Path(__file__).parent / "lua"
V = "1"


# --- keys


def limits_key(keys: Keys) -> str:
    """Holds the names of all limits."""
    return f"{keys.prefix}pyworkers:limits"


def limits_due_key(keys: Keys) -> str:
    """Holds the lines in which jobs wait, by the times at which to look at them."""
    return f"{keys.prefix}pyworkers:limits:due"


def limit_key(keys: Keys, name: str) -> str:
    """Holds what a limit allows."""
    return f"{keys.prefix}pyworkers:limit:{name}"


def places_key(keys: Keys, slot: str) -> str:
    """Holds the places that jobs have in a slot of a limit."""
    return f"{keys.prefix}pyworkers:slot:{slot}"


def any_places(keys: Keys, limit: str) -> str:
    """A pattern for SCAN, for every slot of a limit that has keys."""
    return literally(places_key(keys, f"{limit}:")) + "*"


def slot_in(keys: Keys, key: str) -> str:
    """The id of the slot that has this key."""
    return key.removeprefix(places_key(keys, ""))


def _every_key(keys: Keys) -> dict[str, str]:
    return {
        "limits": limits_key(keys),
        "limits_due": limits_due_key(keys),
        "limit": limit_key(keys, "LIMIT"),
        "places": places_key(keys, "LIMIT:KEY"),
    }


def _types(keys: Keys) -> dict[str, str]:
    return {limits_key(keys): "set", limits_due_key(keys): "zset"}


# --- ties and effects


def part() -> RedisPart:
    return RedisPart(
        LUA,
        ties={SlotClaim: TieInRedis("slot", "slot_tie", "slot_check", _tie, takes_back=False)},
        effects={LeaveSlot: _leave, HoldSlot: _hold},
        handlers={"slot_effects": ("leave", "hold")},
        every_key=_every_key,
        types=_types,
        constants={
            "LIMIT_V": f"'{V}'", "LOOK_S": LOOK_S, "SOON_S": SOON_S, "LATE_S": LATE_S, "BLOCK_S": BLOCK_S,
            "LET_GO_MOST": LET_GO_MOST, "UNREADABLE_MOST": UNREADABLE_MOST,
        },
    )  # fmt: skip


def _tie(
    claim: SlotClaim, push: Push, keys: Keys, number_of: NumberOf, now: float
) -> tuple[int, Sequence[Argument]] | None:
    if push.at is not None:
        return None
    slot, jid = claim
    header = line_entry.written(b"", push.queue, now, jid=jid)
    return number_of(places_key(keys, slot.id)), (jid, header, *slot_arguments(slot, keys, number_of, [push.queue]))


def _leave(effect: LeaveSlot, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    place = slot_arguments(effect.slot, keys, number_of, effect.queues)
    yield from ("leave", number_of(places_key(keys, effect.slot.id)), effect.jid, len(place), *place)


def _hold(effect: HoldSlot, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    place = slot_arguments(effect.slot, keys, number_of, ())
    yield from ("hold", number_of(places_key(keys, effect.slot.id)), effect.jid, len(place), *place)


def slot_arguments(slot: Slot, keys: Keys, number_of: NumberOf, queues: Iterable[str]) -> list[Argument]:
    """`queues`: those into which jobs of the line are likely to be let go."""
    names = (
        limit_key(keys, slot.limit),
        places_key(keys, slot.id),
        keys.line(slot.line),
        limits_due_key(keys),
        keys.lines,
    )
    arguments: list[Argument] = [*map(number_of, (*names, keys.schedule)), slot.line]
    known = [(queue, number_of(keys.queue(queue))) for queue in dict.fromkeys(queues)]
    return [*arguments, len(known), *(part for pair in known for part in pair)]
