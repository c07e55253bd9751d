"""Effects of a job on what lives on other shards than the job: they happen there first, and the job is settled then.

Mostly a job lies beside its guarantee, and none of its effects is foreign. These may be: a push that a job has held
back and that has a guarantee of its own; the tombstone and the cursor of a job, which live on the home of its jid,
while the job is beside its lock or batch, or was pushed elsewhere in an outage; the lock of a job that Ruby has pushed.
A lock of sidekiq-unique-jobs is freed on every shard: Ruby has taken it where it has pushed the job, and a job with a
limit moves from there.

No step covers two shards. A process that is killed between the two leaves the job in progress. It runs again, and its
foreign effects happen once all the same, because their shard knows their ids: see `Store.apply`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from goworkers_py.brokers.contracts.transport import Batch, Finished, Settled
from goworkers_py.brokers.parts import error_of
from goworkers_py.brokers.shards.placement import key_of_lock, placed
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import (
    REPEATABLE,
    Effect,
    FreeLock,
    FreeRubyLock,
    KeepLock,
    MeetTombstone,
    Push,
    PushJobs,
    StoreCursor,
)
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.outcome import Requeue

# The homes of the effects of one job.
_Foreign = dict[Shard, list[Effect]]


class ForeignEffects:
    """Any thread asks it."""

    def __init__(self, shards: ShardList) -> None:
        self._shards = shards
        self._local = machine.local()  # a batch has a settler and a number, and each thread is a settler here

    def without(self, shard: Shard, batch: Batch, refused: dict[Delivery, Settled]) -> Batch:
        """Does the foreign effects of a batch that is to be settled on `shard`. Returns the batch without them, and
        without the deliveries of which one has failed: their errors come into `refused`."""
        if not any(outcome.effects for _, outcome in batch.finished):
            return batch
        left: list[Finished] = []
        for one in batch.finished:
            foreign: _Foreign = {}
            try:
                own = tuple(effect for effect in one[1].effects for effect in self._divided(effect, shard, foreign))
            except Exception as why:  # a push with two guarantees, or a name that is none
                refused[one[0]] = error_of(why)
                continue
            if not foreign:
                left.append(one)
            elif error := self._apply(one[0], foreign):
                refused[one[0]] = error
            else:
                left.append((one[0], dataclasses.replace(one[1], effects=own)))
        return dataclasses.replace(batch, finished=left)

    def _divided(self, effect: Effect, shard: Shard, foreign: _Foreign) -> Iterator[Effect]:
        if isinstance(effect, PushJobs):
            yield from self._divided_pushes(effect, shard, foreign)
        elif isinstance(effect, FreeRubyLock):
            yield effect
            for other in self._shards.all:
                if other is not shard:
                    foreign.setdefault(other, []).append(effect)
        elif (key := _key_of(effect)) and (home := self._shards.home(key)) is not shard:
            foreign.setdefault(home, []).append(effect)
        else:
            yield effect

    def _divided_pushes(self, effect: PushJobs, shard: Shard, foreign: _Foreign) -> Iterator[Effect]:
        """A plain push may happen on any shard, so it stays."""
        homes: dict[Shard, list[Push]] = {}
        for push in effect.pushes:
            key, bound_by = placed(push)
            homes.setdefault(self._shards.home(key) if bound_by else shard, []).append(push)
        for home, pushes in homes.items():
            part = dataclasses.replace(effect, pushes=tuple(pushes))
            if home is shard:
                yield part
            else:
                foreign.setdefault(home, []).append(part)

    def _apply(self, delivery: Delivery, foreign: _Foreign) -> str:
        """Returns the error, if there is one. An effect that may fail keeps no job from being settled."""
        for home, effects in foreign.items():
            try:
                asked = Batch(*self._next(), [(delivery, Requeue(effects=tuple(effects)))])
                [told] = home.ask(lambda broker, asked=asked: broker.store.apply(asked))  # type: ignore[misc]
            except BrokerError as error:
                told = f"shard {home.name}, on which a part of the end of this job lives: {error}"
            except Exception as error:  # it cannot be written
                told = error_of(error)
            if isinstance(told, str) and not all(isinstance(effect, REPEATABLE) for effect in effects):
                return told
        return ""

    def _next(self) -> tuple[str, int]:
        local = self._local
        if not hasattr(local, "settler"):
            local.settler, local.number = f"effects:{machine.token_hex(6)}", 0
        local.number += 1
        return local.settler, local.number


def _key_of(effect: Effect) -> str:
    """The placement key of what the effect changes; empty where that lies beside the job, as its place in a limit does:
    a job takes it where it is, and has none elsewhere."""
    match effect:
        case MeetTombstone(jid=jid) | StoreCursor(jid=jid):
            return jid
        case FreeLock(name=name) | KeepLock(name=name):
            return key_of_lock(name)
    return ""
