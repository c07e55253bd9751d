"""A slot of a limit as arguments of the scripts. Only this module writes them, and only limit.lua reads them."""

from __future__ import annotations

from collections.abc import Iterable

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.limits.limit import Slot


def slot_arguments(slot: Slot, keys: Keys, number_of: NumberOf, queues: Iterable[str]) -> list[Argument]:
    """`queues`: those into which jobs of the line are likely to be let go."""
    names = keys.limit(slot.limit), keys.places(slot.id), keys.line(slot.line), keys.limits_due, keys.lines
    told: list[Argument] = [*map(number_of, (*names, keys.schedule)), slot.line]
    known = [(queue, number_of(keys.queue(queue))) for queue in dict.fromkeys(queues)]
    return [*told, len(known), *(one for pair in known for one in pair)]
