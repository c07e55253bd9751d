"""One watch on several shards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.shards.shard_list import ShardList

Watch = Callable[[Broker, Callable[[], None]], Callable[[], None]]


def watch_all(shards: ShardList, watch: Watch, changed: Callable[[], None]) -> Callable[[], None]:
    """Each shard calls once when its watch has begun. `changed` is called once for these: when the last has."""
    serving = [shard for shard in shards.all if not shard.away] or shards.all
    beginnings = _Beginnings(len(serving), changed)
    ends: list[Callable[[], None]] = []
    try:
        for shard in serving:
            ends.append(shard.ask(lambda broker: watch(broker, beginnings.one())))  # noqa: PERF401  # see `except`
    except BaseException:
        _end(ends)
        raise
    return lambda: _end(ends)


def _end(ends: Sequence[Callable[[], None]]) -> None:
    for end in ends:
        end()


class _Beginnings:
    def __init__(self, count: int, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._left = count  # under the lock

    def one(self) -> Callable[[], None]:
        begun = threading.Event()

        def told() -> None:
            if begun.is_set():
                self._changed()
                return
            begun.set()
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self._changed()

        return told
