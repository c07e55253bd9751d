"""The ties and effects of the features that have no folder of their own yet: batches, groups and chains."""

from __future__ import annotations

from functools import partial

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.brokers.memory.parts import Decision, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PUSHED, PublishedPush
from goworkers_py.core.effect import EndSet
from goworkers_py.core.tie_effect import EndInBatch, EndLink
from goworkers_py.features.batches.batch import BatchTie
from goworkers_py.features.batches.batch_table import BatchTable
from goworkers_py.features.chains.chain_table import ChainTable
from goworkers_py.features.groups.group import GroupMembership
from goworkers_py.features.groups.group_table import GroupTable


class OwnPart(MemoryPart):
    def __init__(self, batches: BatchTable, groups: GroupTable, chains: ChainTable) -> None:
        self._batches = batches
        self._groups = groups
        self.ties = {
            BatchTie: TieInMemory(
                2, self._decide_batch, lambda tie, published: batches.join(tie.bid, published.number)
            ),
            GroupMembership: TieInMemory(4, self._decide_group, lambda tie, published: None, of_queue=True),
        }
        self.effects = {EndSet: self._end_set, EndInBatch: self._end_in_batch, EndLink: chains.end}

    def _decide_batch(self, tie: BatchTie, published: PublishedPush) -> Decision | None:
        return None if self._batches.takes(tie.bid, published.number) else Decision(Published.REFUSED)

    def _decide_group(self, tie: GroupMembership, published: PublishedPush) -> Decision:
        return Decision(PUSHED, partial(self._groups.join, published.number, tie, published.push.payload))

    def _end_set(self, effect: EndSet) -> None:
        self._groups.end_set(effect.group)

    def _end_in_batch(self, effect: EndInBatch) -> None:
        self._batches.end(effect.member.bid, effect.way, effect.name, effect.death)
