"""This process in the fleet, on every shard: people see it and reach it through each of them."""

from __future__ import annotations

from contextlib import suppress

from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.command import Command
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.observe.executions import ByQueue
from goworkers_py.wire.process_record import Member, ProcessSnapshot


class ShardedControl(Control):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def report(self, identity: str, member: Member, now: ProcessSnapshot) -> list[Command]:
        told = self._shards.answers(lambda broker: broker.control.report(identity, member, now))
        return [command for commands in told for command in commands]

    def record(self, total: ByQueue, at: float) -> None:
        """The history of the fleet is on the first shard. While that one is away, the executions are added later."""
        with suppress(BrokerUnavailable):
            self._shards.all[0].ask(lambda broker: broker.control.record(total, at))

    def leave(self) -> None:
        self._shards.answers(lambda broker: broker.control.leave())
