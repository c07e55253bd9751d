"""The broker on Redis. Queues, schedule, retries, dead jobs and processes are in the keys of Sidekiq and go-workers.
The keys that begin with `pyworkers:` are our own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar, cast

from goworkers_py.brokers.address import address_of
from goworkers_py.brokers.broker import Broker, Capability, Reliability
from goworkers_py.brokers.redis.driver.begin_calls import BeginCalls
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.fencing import FencedConnections
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.server_info import eviction_policy
from goworkers_py.brokers.redis.fleet.leases import RedisLeases
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.settlement import RedisSettlement
from goworkers_py.brokers.redis.queues.store import RedisStore
from goworkers_py.brokers.redis.queues.transport import RedisTransport
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.fence import Fence
from goworkers_py.features import FEATURES

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.admin.admin import RedisAdmin
    from goworkers_py.brokers.redis.fleet.control import RedisControl
    from goworkers_py.brokers.redis.fleet.metric_reader import MetricReader
    from goworkers_py.brokers.redis.neighbours import RedisNeighbours

log = logging.getLogger(__name__)

T = TypeVar("T")


class _LatePart:
    """A part that a push or a plain worker does without, made when it is first used. Two threads at once may each make
    it: one stays. Without a lock, which another thread may hold in the moment of a fork."""

    def __init__(self, make: Callable[[RedisBroker], object]) -> None:
        self._make = make

    def __set_name__(self, kind: type[object], name: str) -> None:
        self._name = name

    def __get__(self, broker: RedisBroker | None, kind: type[object]) -> Any:
        return self if broker is None else broker.__dict__.setdefault(self._name, self._make(broker))


def _late(make: Callable[[RedisBroker], T]) -> T:
    return cast(T, _LatePart(make))


def _admin(broker: RedisBroker) -> RedisAdmin:
    from goworkers_py.brokers.redis.admin.admin import RedisAdmin

    follow = [found for feature in FEATURES if (found := feature.moves().of_people(broker.config)) is not None]
    return RedisAdmin(broker.connections, broker.keys, broker.dead_limits, follow)


def _control(broker: RedisBroker) -> RedisControl:
    from goworkers_py.brokers.redis.fleet.control import RedisControl

    return RedisControl(broker.connections, broker.keys, broker.config.metrics)


def _metrics(broker: RedisBroker) -> MetricReader:
    from goworkers_py.brokers.redis.fleet.metric_reader import MetricReader

    return MetricReader(broker.connections, broker.keys)


def _neighbours(broker: RedisBroker) -> RedisNeighbours:
    from goworkers_py.brokers.redis.neighbours import RedisNeighbours

    return RedisNeighbours(broker.connections, broker.keys)


class RedisBroker(Broker):
    name = "Redis"
    family = "redis"
    capabilities: Collection[Capability] = frozenset(Capability)
    reliability = Reliability(
        "nothing: other processes recover its jobs",
        "nothing with appendonly yes; without, what came since the last snapshot",
        "the last second with appendfsync everysec; nothing with always",
        "nothing; behind Sentinel, a failover loses what its replica had not got",
    )

    admin = _late(_admin)
    control = _late(_control)
    metrics = _late(_metrics)
    neighbours = _late(_neighbours)

    _connect: type[Connections] = Connections
    _connect_fenced: type[FencedConnections] = FencedConnections

    def __init__(self, address: str, config: Config, fence: Fence | None = None) -> None:
        keys, dead_limits = Keys(config.namespace), (config.dead_max_jobs, float(config.dead_timeout))
        self.config, self.dead_limits = config, dead_limits
        connections = self._connect(address)
        if fence is not None:
            connections = self._connect_fenced(address, fence, keys.fence(fence.name))
        self.connections, self.keys, self.fence = connections, keys, fence
        self.begins, self.listener = BeginCalls(connections, keys), Listener(connections)
        settlement = RedisSettlement(connections, keys, dead_limits)
        transport = RedisTransport(connections, keys, settlement)
        self.transport = self._transport = transport
        self.store = RedisStore(connections, keys, settlement, dead_limits)
        self.recoverable = RedisLeases(connections, keys, settlement, transport.end_lines, config.timing.lease_s)
        self._address = address
        self._unfenced: list[Connections] = []  # any thread, in single steps

    @classmethod
    def open(cls, config: Config) -> RedisBroker:
        return cls(address_of(config), config)

    @classmethod
    def open_fenced(cls, config: Config, fence: Fence) -> RedisBroker:
        return cls(address_of(config), config, fence)

    @classmethod
    def check(cls, config: Config) -> None:
        Connections(address_of(config)).close()  # checks the address; only an exchange would connect

    @classmethod
    def access_rules(cls, config: Config, producer: bool = False) -> list[str]:
        from goworkers_py.brokers.redis.server import access

        return list(access.lines(config, producer))

    def warn_at_start(self) -> None:
        try:
            policy = eviction_policy(self.connections)
        except BrokerError:  # the server does not say
            return
        if policy != "noeviction":
            log.warning(
                "the server may evict jobs when its memory is full (maxmemory-policy %s): "
                "set maxmemory-policy noeviction", policy
            )  # fmt: skip

    def close(self) -> None:
        self.listener.close()
        self._transport.close()
        self.connections.close()
        while self._unfenced:
            self._unfenced.pop().close()

    def unfenced(self, timeout_s: float) -> Connections:
        """More connections, for a part that passes no fence. They give up after this time."""
        connections = self._connect(self._address, timeout_s=timeout_s)
        self._unfenced.append(connections)
        return connections
