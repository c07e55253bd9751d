"""The part of limits in Redis: their ties and effects as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, TieInRedis
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.core.effect import Push
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import Slot, SlotClaim

LUA = Path(__file__).parent / "lua"


def part() -> RedisPart:
    return RedisPart(
        LUA,
        ties={SlotClaim: TieInRedis("slot", "slot_tie", "slot_check", 5, _tie, takes_back=False)},
        effects={LeaveSlot: _leave, HoldSlot: _hold},
        handlers={"slot_effects": ("leave", "hold")},
    )


def _tie(
    claim: SlotClaim, push: Push, keys: Keys, number_of: NumberOf, now: float
) -> tuple[int, Sequence[Argument]] | None:
    if push.at is not None:
        return None
    slot, jid = claim
    header = line_entry.written(b"", push.queue, now, jid=jid)
    return number_of(keys.places(slot.id)), (jid, header, *slot_arguments(slot, keys, number_of, [push.queue]))


def _leave(effect: LeaveSlot, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    place = slot_arguments(effect.slot, keys, number_of, effect.queues)
    yield from ("leave", number_of(keys.places(effect.slot.id)), effect.jid, len(place), *place)


def _hold(effect: HoldSlot, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    place = slot_arguments(effect.slot, keys, number_of, ())
    yield from ("hold", number_of(keys.places(effect.slot.id)), effect.jid, len(place), *place)


def slot_arguments(slot: Slot, keys: Keys, number_of: NumberOf, queues: Iterable[str]) -> list[Argument]:
    """`queues`: those into which jobs of the line are likely to be let go."""
    names = keys.limit(slot.limit), keys.places(slot.id), keys.line(slot.line), keys.limits_due, keys.lines
    told: list[Argument] = [*map(number_of, (*names, keys.schedule)), slot.line]
    known = [(queue, number_of(keys.queue(queue))) for queue in dict.fromkeys(queues)]
    return [*told, len(known), *(one for pair in known for one in pair)]
