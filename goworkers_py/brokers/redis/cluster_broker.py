"""The broker on a Redis Cluster: on the node that has the slot of its namespace."""

from __future__ import annotations

from dataclasses import replace

from goworkers_py.brokers.address import address_of
from goworkers_py.brokers.broker import Reliability
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.fencing import FencedConnections, FencedLine
from goworkers_py.brokers.redis.driver.redirects import ClusterBlockingLine, ClusterConnections
from goworkers_py.config.cluster_address import ClusterAddress
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.fence import Fence


class _FencedClusterLine(FencedLine, ClusterBlockingLine):
    pass


class _FencedClusterConnections(FencedConnections, ClusterConnections):
    """A write has its fence when it is sent again, too."""

    def blocking_line(self, longest_s: float) -> BlockingLine:
        return _FencedClusterLine(self._patient(longest_s), self.call_hastily, self.fence, self.lease)


class ClusterBroker(RedisBroker):
    name = "Redis Cluster"
    reliability = Reliability(
        "nothing: other processes recover its jobs",
        "what its replica had not got; without replicas, as on one server",
        "as when the server is killed",
        "nothing; a failover loses what the replica had not got",
    )

    _connect = ClusterConnections
    _connect_fenced = _FencedClusterConnections

    @classmethod
    def open(cls, config: Config) -> ClusterBroker:
        return cls(address_of(config), _tagged(config))

    @classmethod
    def open_fenced(cls, config: Config, fence: Fence) -> ClusterBroker:
        return cls(address_of(config), _tagged(config), fence)

    @classmethod
    def check(cls, config: Config) -> None:
        super().check(config)
        _tagged(config)

    @classmethod
    def access_rules(cls, config: Config, producer: bool = False) -> list[str]:
        return super().access_rules(_tagged(config), producer)


def _tagged(config: Config) -> Config:
    """With the namespace of the address, as the prefix that gives all keys one slot."""
    address = ClusterAddress.of(config.broker)
    if config.namespace not in ("", address.namespace, address.tagged_namespace):
        raise ConfigError(
            f"{config.spelling('namespace')}: is {config.namespace!r}, and the address of the cluster ends in "
            f"/{address.namespace}, which is the namespace there: leave the option out"
        )
    return replace(config, namespace=address.tagged_namespace)
