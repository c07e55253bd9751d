"""Tombstones: that of a job is on the home of its jid, and that of a batch or a chain beside the batch or the chain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import simplejson

from goworkers_py.brokers.contracts.cancels import Cancels, Changed
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.brokers.shards.watches import watch_all
from goworkers_py.core.cancel import Tombstone
from goworkers_py.core.strikes import Lock

_WHAT = "the tombstone of this job"


class ShardedCancels(Cancels):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards
        self._lock = Lock()
        # The last answer of each shard, by its number; under the lock. It counts while the shard is away, too.
        self._read: dict[int, tuple[str, Mapping[str, Tombstone]]] = {}

    def ask(self, jid: str, retry: bool) -> object:
        return self._shards.at_home(jid, _WHAT, lambda broker: broker.cancels.ask(jid, retry))

    def withdraw(self, jid: str, asked: object) -> None:
        self._shards.at_home(jid, _WHAT, lambda broker: broker.cancels.withdraw(jid, asked))

    def answer(self, jid: str) -> str | None:
        return self._shards.first(jid, lambda broker: broker.cancels.answer(jid))

    def watch(self, jid: str, changed: Callable[[str], None]) -> Callable[[], None]:
        return self._shards.at_home(jid, _WHAT, lambda broker: broker.cancels.watch(jid, changed))

    def stands(self, jid: str) -> bool:
        return any(self._shards.answers(lambda broker: broker.cancels.stands(jid)))

    def all(self, version: str) -> tuple[str, Mapping[str, Tombstone]] | None:
        """The version names that of each shard."""
        with self._lock:
            known = {self._shards.all[number].broker: told[0] for number, told in self._read.items()}
        fresh = self._shards.each(lambda broker: broker.cancels.all(known.get(broker, "")))
        with self._lock:
            self._read.update({shard.number: told for shard, told in fresh if told is not None})
            now = simplejson.dumps({number: self._read[number][0] for number in sorted(self._read)})
            if now == version:
                return None
            return now, {jid: one for _, told in self._read.values() for jid, one in told.items()}

    def listen(self, changed: Changed) -> Callable[[], None]:
        return watch_all(self._shards, lambda broker, told: broker.cancels.listen(told), changed)

    def elsewhere(self, jids: Collection[str], shown: Collection[str] = ()) -> set[str]:
        told = self._shards.answers(lambda broker: broker.cancels.elsewhere(jids, shown))
        return {jid for several in told for jid in several}

    def ask_sidekiq(self, jid: str) -> bool:
        """On each shard: Ruby may work any of them."""
        return any([*self._shards.answers(lambda broker: broker.cancels.ask_sidekiq(jid))])
