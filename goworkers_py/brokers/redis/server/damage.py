"""Damaged keys: the key has a name that the fleet uses, but no program of the fleet wrote its value."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.keys import Keys

log = logging.getLogger(__name__)

_IN_WORDS = {"zset": "sorted set"}
# The counters without a number that this process has reported, to a person or in the log. Each is reported once.
_reported: set[str] = set()


def of_another_type(connections: Connections, wanted: Mapping[str, str]) -> list[str]:
    """A line for each key whose type is not the `wanted` one. `wanted` has the names that the server's TYPE returns."""
    types = [kind.decode() for kind in connections.exchange([("TYPE", key) for key in wanted])]
    return [
        f"key {key} is a {_IN_WORDS.get(has, has)}, and must be a {_IN_WORDS.get(wants, wants)}"
        for (key, wants), has in zip(wanted.items(), types, strict=True)
        if has not in ("none", wants)
    ]


def counters_without_number(connections: Connections, keys: Keys) -> list[str]:
    """The keys of the counters whose value is no number."""
    counters = (keys.processed, keys.failed)
    counts = connections.answers([("GET", key) for key in counters])
    found = [key for key, count in zip(counters, counts, strict=True) if count is not None and _number(count) is None]
    _reported.update(found)
    return found


def count_in(key: str, value: bytes | None) -> int:
    """The value of a counter; 0 when it is no number."""
    count = _number(value or b"0")
    if count is None and key not in _reported:
        _reported.add(key)
        log.warning("key %s holds no number, and is shown as 0: delete it, or set it to a number", key)
    return count or 0


def _number(value: bytes) -> int | None:
    """As the server's INCRBY reads a number; None when it would refuse the value."""
    return int(value) if re.fullmatch(rb"-?\d{1,19}", value) else None
