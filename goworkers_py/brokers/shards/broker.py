"""The broker that spreads queues over several servers, each of which is a broker by itself: see docs/shards.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.transport import Pollable
from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.brokers.reliability import Reliability
from goworkers_py.brokers.shards.addresses import named_addresses
from goworkers_py.brokers.shards.admin import ShardedAdmin
from goworkers_py.brokers.shards.batches import ShardedBatches
from goworkers_py.brokers.shards.calls import ShardedCalls
from goworkers_py.brokers.shards.cancels import ShardedCancels
from goworkers_py.brokers.shards.chains import ShardedChains
from goworkers_py.brokers.shards.control import ShardedControl
from goworkers_py.brokers.shards.groups import ShardedGroups
from goworkers_py.brokers.shards.leases import ShardedLeases
from goworkers_py.brokers.shards.limits import ShardedLimits
from goworkers_py.brokers.shards.locks import ShardedLocks
from goworkers_py.brokers.shards.metrics import ShardedMetrics
from goworkers_py.brokers.shards.moves import Moves
from goworkers_py.brokers.shards.periodic import ShardedPeriodic
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.brokers.shards.store import ShardedStore
from goworkers_py.brokers.shards.transport import ShardedTransport
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import has_password
from goworkers_py.core.errors import BrokerUnavailable, ConfigError

ONE_GUARANTEE = "a job has one of lock, batch (or chain), group and limit"


class ShardsBroker(Broker):
    name = "every shard"  # it cannot serve when none can
    capabilities = frozenset(Capability) - {Capability.ORDER, Capability.LEADERSHIP}
    spreads = True
    reliability = Reliability(
        "nothing: other processes recover its jobs",
        "as one Redis, of that shard; the others go on",
        "as one Redis, of that shard; the others go on",
        "nothing; jobs of the shard that is cut off are late",
    )
    remarks: ClassVar[Mapping[Capability, str]] = {
        **dict.fromkeys((Capability.LOCKS, Capability.BATCHES, Capability.CHAINS, Capability.GROUPS), ONE_GUARANTEE),
        Capability.LIMITS: f"{ONE_GUARANTEE}; several limits only where all have one home",
        Capability.PERIODIC: "without unique_for; late while the shard of the schedule is away",
    }

    def __init__(self, brokers: Mapping[str, Broker], config: Config) -> None:
        made = [Shard(number, name, broker) for number, (name, broker) in enumerate(brokers.items())]
        self._shards = shards = ShardList(made)
        self._moves = Moves(shards)
        self.transport = self._transport = ShardedTransport(shards, self._moves)
        self.store = ShardedStore(shards)
        self.recoverable = ShardedLeases(shards, config.timing.steady_for_s, self._moves.relay.wake)
        self.control = ShardedControl(shards)
        self.cancels = ShardedCancels(shards)
        self.calls = ShardedCalls(shards)
        self.locks = ShardedLocks(shards)
        self.groups = ShardedGroups(shards)
        self.limits = ShardedLimits(shards, self._moves)
        self.chains = ShardedChains(shards)
        self.batches = ShardedBatches(shards)
        self.admin = ShardedAdmin(shards)
        self.metrics = ShardedMetrics(shards)
        self.periodic = ShardedPeriodic(shards)

    @classmethod
    def open(cls, config: Config) -> ShardsBroker:
        configs = configs_of_shards(config)
        return cls({name: kind_of_broker(one).open(one) for name, one in configs.items()}, config)

    @classmethod
    def check(cls, config: Config) -> None:
        for name, one in configs_of_shards(config).items():
            kind_of_broker(one).check(one)
            broker = kind_of_broker(one).open(one)
            can, lacking = isinstance(broker.transport, Pollable), cls.capabilities - set(broker.capabilities)
            broker.close()
            if lacking or not can:
                raise ConfigError(f"broker: shard {name} cannot be one: {broker.name} serves no shards; use redis://")

    @classmethod
    def access_rules(cls, config: Config, producer: bool = False) -> list[str]:
        """The same user on every shard."""
        first = next(iter(configs_of_shards(config).values()))
        return kind_of_broker(first).access_rules(first, producer)

    def warn_at_start(self) -> None:
        for shard in self._shards.all:
            if not shard.away:
                try:
                    shard.ask(lambda broker: broker.warn_at_start())
                except BrokerUnavailable:
                    continue  # the shard has told it

    def close(self) -> None:
        self._moves.relay.close()
        self._transport.close()
        for shard in self._shards.all:
            shard.close()


def configs_of_shards(config: Config) -> dict[str, Config]:
    """The configuration of each shard, by its name. Those without a password of their own have that of the file."""
    return {
        name: dataclasses.replace(
            config, broker=one, broker_password_file="" if has_password(one) else config.broker_password_file
        )
        for name, one in named_addresses(config.broker).items()
    }
