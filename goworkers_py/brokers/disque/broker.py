"""The broker on Disque, a queue service. Without a store beside it, Disque itself holds what waits for a time."""

from __future__ import annotations

from collections.abc import Collection

from goworkers_py.brokers.address import address_of
from goworkers_py.brokers.broker import Broker, Capability, Reliability
from goworkers_py.brokers.disque.address import Address, read_address
from goworkers_py.brokers.disque.commands import DisqueCommands
from goworkers_py.brokers.disque.transport import DisqueTransport
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ConfigError


class DisqueBroker(Broker):
    name = "Disque"
    remedy = "set a Redis beside it (store = redis://host:port/db), or another broker"
    reliability = Reliability(
        "nothing: Disque delivers its jobs again after a time",
        "nothing while another node has a copy; of a single node all, unless it has appendonly yes",
        "as when the server is killed, and what its file had not got",
        "nothing: Disque delivers again what was not acknowledged",
    )
    capabilities: Collection[Capability] = frozenset({Capability.DELAYS, Capability.SHARED, Capability.LASTING})
    redelivers = True

    def __init__(self, address: Address, config: Config) -> None:
        commands = DisqueCommands(address, config.namespace, config.dead_timeout)
        self.transport = self._transport = DisqueTransport(address, commands, config.poison_limit)

    @classmethod
    def open(cls, config: Config) -> DisqueBroker:
        return cls(_address_in(config), config)

    @classmethod
    def check(cls, config: Config) -> None:
        _address_in(config)

    def close(self) -> None:
        self._transport.close()


def _address_in(config: Config) -> Address:
    if (plain := next((queue.name for queue in config.queues if queue.bare_list), None)) is not None:
        raise ConfigError(f"[queue:{plain}] format = plain: Disque has no such queues; Redis and RabbitMQ have")
    try:
        return read_address(address_of(config))
    except ValueError as error:
        raise ConfigError(f"{config.spelling('broker')}: {error}") from None
