"""The lists of other programs in Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator

from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.scan import keys_like
from goworkers_py.brokers.redis.server.key_patterns import any_between
from goworkers_py.features.plain_lists.contract import PlainLists


class RedisPlainLists(PlainLists):
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def leftovers(self, pattern: str) -> dict[str, int]:
        before, _, after = pattern.partition("{n}")
        numbered = re.compile(re.escape(before) + r"\d+" + re.escape(after))
        found = sorted(
            key for key in keys_like(self._connections, any_between(before, after)) if numbered.fullmatch(key)
        )
        sizes = self._connections.answers([("LLEN", key) for key in found])
        return {key: size for key, size in zip(found, sizes, strict=True) if size}

    def take_back(self, held: str, name: str) -> Iterator[int]:
        """The oldest first, with the command by which the consumers take their own back."""
        for _ in range(0, int(self._connections.call("LLEN", held)), PAGE):
            yield sum(moved is not None for moved in self._connections.exchange([("RPOPLPUSH", held, name)] * PAGE))
