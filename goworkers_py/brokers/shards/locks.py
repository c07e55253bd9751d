"""The locks of unique jobs, each on the home of its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.locks import Locks
from goworkers_py.brokers.shards.placement import key_of_lock
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList, T, Verb
from goworkers_py.core.lock import Begin, Begun, Holder, LockEntry, OwnedLock, TooEarly


class ShardedLocks(Locks):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        return self._at_home(begin.name, lambda broker: broker.locks.begin(begin))

    def own(self, locks: Sequence[OwnedLock]) -> list[str | None]:
        others: dict[OwnedLock, str | None] = {}
        for shard, ours in self._by_home(locks):
            told = shard.ask(lambda broker, ours=ours: broker.locks.own(ours))  # type: ignore[misc]
            others.update(zip(ours, told, strict=True))
        return [others.get(lock) for lock in locks]

    def disown(self, locks: Sequence[OwnedLock]) -> None:
        for shard, ours in self._by_home(locks):
            shard.ask(lambda broker, ours=ours: broker.locks.disown(ours))  # type: ignore[misc]

    def _by_home(self, locks: Sequence[OwnedLock]) -> Iterator[tuple[Shard, list[OwnedLock]]]:
        """Of the shards that serve."""
        for shard in self._shards.all:
            ours = [lock for lock in locks if self._shards.home(key_of_lock(lock.name)) is shard]
            if ours and not shard.away:
                yield shard, ours

    def entries(self, prefix: str = "") -> Iterator[LockEntry]:
        return self._shards.steps(lambda broker: broker.locks.entries(prefix))

    def entry(self, name: str) -> LockEntry | None:
        return self._at_home(name, lambda broker: broker.locks.entry(name))

    def free(self, name: str) -> bool:
        return self._at_home(name, lambda broker: broker.locks.free(name))

    def _at_home(self, name: str, verb: Verb[T]) -> T:
        return self._shards.at_home(key_of_lock(name), f"the lock {name}", verb)
