"""Lists of several shards as one list, in one order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from goworkers_py.brokers.shards.shard_list import ShardList, T, Verb, iterating
from goworkers_py.core.errors import BrokerUnavailable


def merged(shards: ShardList, verb: Verb[Iterator[T]], key: Callable[[T], Any], reverse: bool = False) -> Iterator[T]:
    """Of lists that are in this order, each by itself. A shard that is away, or fails meanwhile, is left out; raises
    BrokerUnavailable when every one is."""
    failed: list[BrokerUnavailable] = []

    def of(number: int) -> Iterator[T]:
        try:
            yield from iterating(shards.all[number], verb)
        except BrokerUnavailable as error:
            failed.append(error)

    yield from heapq.merge(*map(of, range(len(shards.all))), key=key, reverse=reverse)
    if len(failed) == len(shards.all):
        raise failed[-1]
