"""One watch on several shards. A shard that cannot begin it joins when it serves again."""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.strikes import Lock

log = logging.getLogger(__name__)

Watch = Callable[[Broker, Callable[[], None]], Callable[[], None]]


def watch_all(shards: ShardList, watch: Watch, changed: Callable[[], None]) -> Callable[[], None]:
    """Each shard calls once when its watch has begun. `changed` is called once for all that serve: when the last has.
    It is called once more for each that joins later, because something may have happened there before. Raises
    BrokerUnavailable when no shard serves."""
    watches = _Watches(watch, changed)
    try:
        watches.begin(shards)
    except BaseException:
        watches.end()
        raise
    return watches.end


class _Watches:
    def __init__(self, watch: Watch, changed: Callable[[], None]) -> None:
        self._watch = watch
        self._changed = changed
        self._lock = Lock()
        # Under the lock. The thread that watches begins and ends; the probe of a shard lets that one join.
        self._ends: list[Callable[[], None]] | None = []  # None: all have ended

    def begin(self, shards: ShardList) -> None:
        beginnings = _Beginnings(len(shards.all), self._changed)
        failed: BrokerUnavailable | None = None
        begun = 0
        for shard in shards.all:
            told = beginnings.one()
            try:
                self._begin_on(shard, told)
                begun += 1
            except BrokerUnavailable as error:
                failed = error
                self._join_later(shard)
                told()
        if failed is not None and not begun:
            raise failed

    def _begin_on(self, shard: Shard, told: Callable[[], None]) -> None:
        self._keep(shard.ask(lambda broker: self._watch(broker, told)))

    def _join_later(self, shard: Shard) -> None:
        self._keep(shard.when_back(lambda: self._join(shard)))

    def _join(self, shard: Shard) -> None:
        """In the thread of the shard's probe, or in the first one when the shard is back already."""
        if self._ends is None:
            return
        try:
            self._begin_on(shard, self._changed)
        except BrokerError as error:
            if shard.away:
                self._join_later(shard)
                return
            log.debug("shard %s cannot tell ends and commands: %s", shard.name, error)

    def _keep(self, end: Callable[[], None]) -> None:
        with self._lock:
            if self._ends is not None:
                self._ends.append(end)
                return
        end()

    def end(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, None
        for end in ends or ():
            end()


class _Beginnings:
    def __init__(self, count: int, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = Lock()
        self._left = count  # under the lock

    def one(self) -> Callable[[], None]:
        begun = machine.Event()

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
