"""Reads version, memory, clients and uptime of a server, by INFO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.core.errors import BrokerRefused

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.fleet import ServerFacts

_ROLES = {"slave": "replica"}


def info_of(connections: Connections, section: str) -> dict[str, str]:
    return _fields(connections.call("INFO", section))


def eviction_policy(connections: Connections) -> str:
    return info_of(connections, "memory").get("maxmemory_policy", "noeviction")


def facts_of(connections: Connections) -> list[ServerFacts]:
    """The facts of the server that has our keys: of a cluster that of our slot, behind sentinels the primary. Empty
    where the access rules do not allow INFO."""
    from goworkers_py.brokers.contracts.fleet import ServerFacts

    try:
        address, reply = connections.call_at("INFO")  # without names of sections: Redis 6.2 takes one of them only
    except BrokerRefused:
        return []
    info = _fields(reply)
    product = "Valkey" if "valkey_version" in info else "Redis"
    return [
        ServerFacts(
            address=address,
            product=product,
            version=info.get(f"{product.lower()}_version", ""),
            role=_ROLES.get(info.get("role", ""), info.get("role", "")),
            uptime_s=_number(info, "uptime_in_seconds"),
            clients=_number(info, "connected_clients"),
            memory_bytes=_number(info, "used_memory"),
            peak_bytes=_number(info, "used_memory_peak"),
            max_bytes=_number(info, "maxmemory") or None,  # 0 is no limit
        )
    ]


def _fields(reply: bytes) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text(reply).splitlines() if ":" in line)


def _number(info: Mapping[str, str], name: str) -> int | None:
    """A hosted server may leave fields out."""
    field = info.get(name, "")
    return int(field) if field.isdecimal() else None
