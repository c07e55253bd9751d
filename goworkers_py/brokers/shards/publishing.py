"""Publishes to the shards: each job goes to the home of its placement key, see `placement`.

While a shard is away, a plain job goes to the next in the order of its key. A job with a guarantee is refused, because
the guarantee can be given by its home alone. A push whose reply was lost is refused too, and not pushed elsewhere: it
may have happened.

The pushes of one call are one step on each shard, and not over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.transport import PublishResult
from goworkers_py.brokers.shards.placement import placed
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnreachable

# Pushes of one call that go to one shard, by their places in the call.
_Part = dict[int, Push]


class Publishing:
    """Any thread publishes."""

    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        if len(pushes) == 1 and not pushes[0].tied:
            shard = self._shards.home(placed(pushes[0]).key)
            if not shard.away:
                with suppress(BrokerUnreachable, BrokerFull):  # nothing was pushed; the next shard takes it below
                    return shard.ask(lambda broker: broker.transport.publish(pushes))
        results: dict[int, PublishResult] = {}
        try:
            free = self._publish_bound(pushes, results)
            self._publish_free(free, results)
        except BrokerError as error:
            if results:
                told = type(error)(f"{error}; {len(results)} of the {len(pushes)} jobs were pushed before")
                told.places = error.places.union(results)
                raise told from error
            raise
        return [results[place] for place in range(len(pushes))]

    def _publish_bound(self, pushes: Sequence[Push], results: dict[int, PublishResult]) -> _Part:
        """Returns the plain pushes. None of any kind has happened when the home of a guarantee is away."""
        bound: dict[Shard, _Part] = {}
        free: _Part = {}
        for place, push in enumerate(pushes):
            key, bound_by = placed(push)
            if bound_by:
                home = self._shards.home(key)
                bound.setdefault(home, {})[place] = push
                self._shards.bound(home, bound_by, lambda broker: None)
            else:
                free[place] = push
        for home, part in bound.items():
            what = placed(next(iter(part.values()))).bound_by
            told = self._shards.bound(home, what, partial(_publish, part))
            results.update(zip(part, told, strict=True))
        return free

    def _publish_free(self, free: _Part, results: dict[int, PublishResult]) -> None:
        full: set[Shard] = set()
        failed: BrokerUnavailable = BrokerUnreachable("every shard is away")
        while free:
            parts: dict[Shard, _Part] = {}
            for place, push in free.items():
                order = [self._shards.all[number] for number in self._shards.placement.order(placed(push).key)]
                serving = next((shard for shard in order if not shard.away and shard not in full), None)
                if serving is None:
                    raise failed
                if order[0].away:
                    order[0].tell_of_moves()
                parts.setdefault(serving, {})[place] = push
            for shard, part in parts.items():
                try:
                    results.update(zip(part, shard.ask(partial(_publish, part)), strict=True))
                except (BrokerUnreachable, BrokerFull) as error:  # nothing was pushed: the next round moves them on
                    failed = error
                    full.add(shard)
                else:
                    _remove(free, part)


def _publish(part: _Part, broker: Broker) -> Sequence[PublishResult]:
    try:
        return broker.transport.publish([*part.values()])
    except BrokerError as error:
        places = [*part]
        error.places = frozenset(places[at] for at in error.places)
        raise


def _remove(free: _Part, part: _Part) -> None:
    for place in part:
        del free[place]
