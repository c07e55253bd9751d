"""Keys that have a name of the fleet's, and hold what no program of the fleet wrote."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.brokers.redis.connection import Connections

_IN_WORDS = {"zset": "sorted set"}


def foreign(connections: Connections, wanted: Mapping[str, str]) -> list[str]:
    """A line for each key that is of another type than the `wanted` one, in the server's words."""
    types = [kind.decode() for kind in connections.exchange([("TYPE", key) for key in wanted])]
    return [
        f"key {key} is a {_IN_WORDS.get(has, has)}, where a {_IN_WORDS.get(wants, wants)} belongs"
        for (key, wants), has in zip(wanted.items(), types, strict=True)
        if has not in ("none", wants)
    ]
