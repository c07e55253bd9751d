"""Finds the broker of a configuration by the scheme of its address."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from goworkers_py.config.parsers import scheme_of
from goworkers_py.core.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from goworkers_py.brokers.broker import Broker
    from goworkers_py.config.options import Config
    from goworkers_py.core.fence import Fence

# Installed packages add schemes with entry points of this group. Each names a subclass of Broker.
GROUP = "goworkers_py.brokers"

_TWO_SERVERS = "goworkers_py.brokers.two_servers.broker:TwoServers"
_REDIS = "goworkers_py.brokers.redis.broker:RedisBroker"
# Our own brokers: to find one, the installed packages are not searched.
_BUILTIN = {
    **dict.fromkeys(("redis", "rediss", "unix", "sentinel"), _REDIS),
    **dict.fromkeys(("redis+cluster", "rediss+cluster"), "goworkers_py.brokers.redis.cluster_broker:ClusterBroker"),
    "embedded": "goworkers_py.brokers.redis.embedded_broker:EmbeddedBroker",
    "disque": "goworkers_py.brokers.disque.broker:DisqueBroker",
    **dict.fromkeys(("amqp", "amqps"), "goworkers_py.brokers.rabbitmq.broker:RabbitBroker"),
    "memory": "goworkers_py.brokers.memory.broker:MemoryBroker",
}


def open_broker(config: Config) -> Broker:
    return kind_of_broker(config).open(config)


def open_fenced(config: Config, fence: Fence) -> Broker:
    """The broker of one term, see `Broker.open_fenced`."""
    return kind_of_broker(config).open_fenced(config, fence)


def kind_of_broker(config: Config) -> type[Broker]:
    if config.store:
        return _named(_TWO_SERVERS)
    scheme = scheme_of(config.broker)
    if scheme in _BUILTIN:
        return _builtin(scheme)
    if scheme in _installed():
        found: type[Broker] = _installed()[scheme].load()
        return found
    known = ", ".join(sorted({*_BUILTIN, *_installed()}))
    raise ConfigError(
        f"{config.spelling('broker')}: no installed package has a broker for {scheme}://; there are brokers for {known}"
    )


def our_brokers() -> dict[str, type[Broker]]:
    """By scheme."""
    return {scheme: _builtin(scheme) for scheme in _BUILTIN}


def installed_brokers() -> dict[str, type[Broker]]:
    """The brokers of other packages, by scheme."""
    return {name: found.load() for name, found in _installed().items() if name not in _BUILTIN}


@cache
def _installed() -> dict[str, EntryPoint]:
    """By scheme. To find them, all installed packages are read."""
    from importlib.metadata import entry_points

    return {found.name: found for found in entry_points(group=GROUP)}


def _builtin(scheme: str) -> type[Broker]:
    return _named(_BUILTIN[scheme])


def _named(kind_name: str) -> type[Broker]:
    module, _, name = kind_name.partition(":")
    kind: type[Broker] = getattr(import_module(module), name)
    return kind
