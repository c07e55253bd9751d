"""A queue service, such as RabbitMQ, with a store beside it: `broker = amqp://...` and `store = redis://...`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.recoverable import Beat, Judge, LiveProcess, Presence, Recoverable, Recovered
from goworkers_py.brokers.forwarded import forwarded
from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.brokers.two_servers.transport import TwoServerTransport, is_stored
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import feature_of

# Of the store, but not of both servers together.
NOT_OF_BOTH = {Capability.ORDER, Capability.FRONT}

P = TypeVar("P")


class TwoServers(Broker):
    redelivers = True
    one_consumer = False  # the store gives the jobs of a queue to several processes
    remedy = Broker.remedy  # not that of the service, which is to set a store
    fence = None  # the service checks no epoch, and would let a former leader end jobs
    store = forwarded("_store")
    control = forwarded("_store")
    admin = forwarded("_store")
    metrics = forwarded("_store")
    neighbours = forwarded("_store")
    death_clues = forwarded("_service")

    def __init__(self, service: Broker, store: Broker) -> None:
        self._service, self._store = service, store
        self.name = f"{service.name} with {store.name}"
        both = frozenset(service.capabilities) & {Capability.SHARED, Capability.LASTING}
        lacking = {Capability.SHARED, Capability.LASTING} - both
        self.capabilities = frozenset(store.capabilities) - NOT_OF_BOTH - lacking
        self.transport = self._transport = TwoServerTransport(
            service.name, service.transport, store.transport, store.store
        )
        self.recoverable = StoreLeases(store.recoverable)

    def part(self, contract: type[P]) -> P | None:
        return self._store.part(contract) if feature_of(contract).kept_beside else None

    @classmethod
    def open(cls, config: Config) -> TwoServers:
        service, store = _configs(config)
        cls.check(config)
        return cls(kind_of_broker(service).open(service), kind_of_broker(store).open(store))

    @classmethod
    def check(cls, config: Config) -> None:
        service, store = _configs(config)
        spelled = config.spelling("store")
        if not kind_of_broker(service).redelivers:
            raise ConfigError(
                f"{spelled}: {kind_of_broker(service).name} at `broker` keeps all itself; leave `store` out, "
                "or set broker = amqp://... or disque://..."
            )
        kind = kind_of_broker(store)
        needed = {Capability.STORE, Capability.LEASES, Capability.CONTROL, Capability.SHARED}
        if not needed.issubset(kind.capabilities):
            raise ConfigError(f"{spelled}: {kind.name} cannot be a store: name a Redis, such as redis://localhost/0")
        kind_of_broker(service).check(service)
        kind.check(store)

    @classmethod
    def access_rules(cls, config: Config, producer: bool = False) -> list[str]:
        _, store = _configs(config)
        return kind_of_broker(store).access_rules(store, producer)

    def warn_at_start(self) -> None:
        self._service.warn_at_start()
        self._store.warn_at_start()

    def close(self) -> None:
        self._transport.close()
        self._service.close()
        self._store.close()


class StoreLeases(Recoverable):
    """Leases in the store. They guard its jobs. The queue service delivers its own again by itself."""

    deaths = forwarded("_leases")

    def __init__(self, leases: Recoverable) -> None:
        self._leases = leases

    def beat(self, presence: Presence) -> Beat:
        return self._leases.beat(presence)

    def live_processes(self) -> list[LiveProcess]:
        return self._leases.live_processes()

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        return self._leases.recover(identity, judge, proof)

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        self._leases.declare_dead(identity, proof, owners)

    def end_blocks(self, identity: str) -> None:
        self._leases.end_blocks(identity)

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return self._leases.lost([delivery for delivery in deliveries if is_stored(delivery)])

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        return self._leases.leave(identity, silent)


def _configs(config: Config) -> tuple[Config, Config]:
    """Of the queue service, and of the store, which has no lists of other programs."""
    in_store = tuple(replace(queue, bare_list="") for queue in config.queues)
    store = replace(config, broker=config.store, store="", broker_password_file="", queues=in_store)
    return replace(config, store=""), store
