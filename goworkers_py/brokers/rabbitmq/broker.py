"""The broker on RabbitMQ: a queue service. Without a store beside it, RabbitMQ itself holds what waits for a time."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from goworkers_py.brokers.broker import Broker, Capability, Reliability
from goworkers_py.brokers.rabbitmq.names import Names
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerRefused, ConfigError
from goworkers_py.core.levels import bare_level

if TYPE_CHECKING:
    from goworkers_py.brokers.rabbitmq.transport import RabbitTransport


class RabbitBroker(Broker):
    name = "RabbitMQ"
    remedy = "set a Redis beside it (store = redis://host:port/db), or another broker"
    reliability = Reliability(
        "nothing: RabbitMQ delivers its jobs again at once",
        "nothing: a push is confirmed when a majority of the nodes has it on disk",
        "nothing: a push is confirmed when a majority of the nodes has it on disk",
        "nothing: RabbitMQ delivers again what was not acknowledged",
    )
    capabilities: Collection[Capability] = frozenset({Capability.DELAYS, Capability.SHARED, Capability.LASTING})
    redelivers = True
    one_consumer = True

    def __init__(self, transport: RabbitTransport) -> None:
        self.transport = self._transport = transport
        self.death_clues = transport.clues

    @classmethod
    def open(cls, config: Config) -> RabbitBroker:
        parameters = _parameters(config)
        from goworkers_py.brokers.rabbitmq.transport import RabbitTransport  # without pika it cannot be imported

        return cls(RabbitTransport(parameters, _names(config), leaves_clues=config.poison_limit > 0))

    @classmethod
    def check(cls, config: Config) -> None:
        _parameters(config)
        _names(config)

    def close(self) -> None:
        self._transport.close()


def _names(config: Config) -> Names:
    names = Names(
        config.namespace,
        (config.dead_max_jobs, config.dead_timeout),
        config.poison_window,
        one_consumer=config.standby,
        bare_lists={queue.name: queue.bare_list for queue in config.queues if queue.bare_list},
    )
    for queue in config.queues:
        try:
            names.of(queue.name)
            names.of(bare_level(queue.name, queue.bare_list))
        except BrokerRefused as error:
            raise ConfigError(f"a queue has a name that RabbitMQ cannot have: {error}") from None
    return names


def _parameters(config: Config) -> Any:
    try:
        from goworkers_py.brokers.rabbitmq.address import parameters_of
    except ModuleNotFoundError as error:
        if error.name != "pika":
            raise
        raise ConfigError(
            f"{config.spelling('broker')}: amqp:// needs pika: pip install 'goworkers-py[rabbitmq]'"
        ) from None
    return parameters_of(config)
