"""In-progress lists that hold jobs. A fleet has one for each process and queue, and nearly all of them are empty: with
100 processes of 200 queues, 20,000 lists and some hundreds that hold jobs."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.redis.driver.connection import Connections

# An empty list does not exist. EXISTS tells how many of several keys do, so one command does for this many empty lists.
# Measured with 20,000 lists: six times as fast as LLEN of each while 100 of them hold jobs, twice with 1,000, and a
# quarter slower with 5,000.
AT_ONCE = 8
FEW = 200  # lists that are asked for their lengths at once


def lengths(connections: Connections, lists: Sequence[str]) -> dict[str, int]:
    """How many jobs are in each of these lists, without the empty ones. A key of another type counts as empty."""
    if len(lists) > FEW:
        lists = _without_most_empty_ones(connections, lists)
    sizes = connections.answers([("LLEN", key) for key in lists]) if lists else []
    return {key: size for key, size in zip(lists, sizes, strict=True) if size}


def _without_most_empty_ones(connections: Connections, lists: Sequence[str]) -> list[str]:
    several = [lists[start : start + AT_ONCE] for start in range(0, len(lists), AT_ONCE)]
    there = connections.exchange([("EXISTS", *keys) for keys in several])
    return [key for keys, count in zip(several, there, strict=True) if count for key in keys]
