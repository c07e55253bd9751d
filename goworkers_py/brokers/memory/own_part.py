"""The ties and effects of the features that have no folder of their own yet: groups."""

from __future__ import annotations

from functools import partial

from goworkers_py.brokers.memory.parts import Decision, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PUSHED, PublishedPush
from goworkers_py.core.effect import EndSet
from goworkers_py.features.groups.group import GroupMembership
from goworkers_py.features.groups.group_table import GroupTable


class OwnPart(MemoryPart):
    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups
        self.ties = {
            GroupMembership: TieInMemory(4, self._decide_group, lambda tie, published: None, of_queue=True),
        }
        self.effects = {EndSet: self._end_set}

    def _decide_group(self, tie: GroupMembership, published: PublishedPush) -> Decision:
        return Decision(PUSHED, partial(self._groups.join, published.number, tie, published.push.payload))

    def _end_set(self, effect: EndSet) -> None:
        self._groups.end_set(effect.group)
