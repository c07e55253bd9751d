"""All shards: who asks one of them, some or all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.shards.placement import Placement, jid_in
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable

T = TypeVar("T")
Verb = Callable[[Broker], T]


class ShardList:
    """Any thread asks it."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.all = shards
        self.placement = Placement([shard.name for shard in shards])

    def home(self, key: str | bytes) -> Shard:
        return self.all[self.placement.home(key)]

    def at_home(self, key: str | bytes, what: str, verb: Verb[T]) -> T:
        """Asks the shard on which `what` lives. Raises BrokerUnavailable that says so while that shard is away."""
        return self.bound(self.home(key), what, verb)

    def bound(self, shard: Shard, what: str, verb: Verb[T]) -> T:
        try:
            return shard.ask(verb)
        except BrokerUnavailable as error:
            told = type(error)(f"{what} lives on shard {shard.name}, which cannot serve now: {error}")
            told.of_part = any(not one.away for one in self.all if one is not shard)
            raise told from error

    def each(self, verb: Verb[T]) -> list[tuple[Shard, T]]:
        """The answers of the shards that serve. Raises BrokerUnavailable when none does."""
        answers: list[tuple[Shard, T]] = []
        failed: BrokerUnavailable | None = None
        for shard in self.all:
            try:
                answers.append((shard, shard.ask(verb)))
            except BrokerUnavailable as error:
                failed = error
        if failed is not None and not answers:
            raise failed
        return answers

    def answers(self, verb: Verb[T]) -> list[T]:
        return [answer for _, answer in self.each(verb)]

    def every(self, verb: Verb[T]) -> list[T]:
        """Asks every shard, also where one fails. Then raises the error: asked again, the others are asked twice."""
        answers: list[T] = []
        failed: BrokerError | None = None
        for shard in self.all:
            try:
                answers.append(self.bound(shard, "a part of this", verb))
            except BrokerError as error:
                failed = error
        if failed is not None:
            raise failed
        return answers

    def steps(self, verb: Verb[Iterator[T]]) -> Iterator[T]:
        """What the iterators of all shards yield, shard by shard. A shard that fails is passed over; raises
        BrokerUnavailable at the end when every one has failed, and BrokerRefused when one has refused."""
        failures: list[BrokerError] = []
        served = False
        for shard in self.all:
            try:
                yield from iterating(shard, verb)
                served = True
            except (BrokerUnavailable, BrokerRefused) as error:
                failures.append(error)
        raise_worst(failures, served)

    def first(self, key: str | bytes, verb: Verb[T | None]) -> T | None:
        """The first answer that is not None, asked from the home of the key on. Raises BrokerUnavailable when a shard
        that cannot serve may have it."""
        failed: BrokerUnavailable | None = None
        for number in self.placement.order(key):
            try:
                answer = self.all[number].ask(verb)
            except BrokerUnavailable as error:
                failed = error
            else:
                if answer is not None:
                    return answer
        if failed is not None:
            raise failed
        return None

    def of(self, delivery: Delivery) -> Shard:
        """The shard from which the job was fetched."""
        number = delivery.receipt
        return self.home(jid_in(delivery.payload)) if number is None else self.all[number]


def raise_worst(failures: Sequence[BrokerError], served: bool) -> None:
    """Raises what a shard has refused. Raises an outage only if no shard has served."""
    for error in failures:
        if isinstance(error, BrokerRefused) or not served:
            raise error


def iterating(shard: Shard, verb: Verb[Iterator[T]]) -> Iterator[T]:
    """An error while the caller iterates counts as one of the shard; one of the caller does not."""
    steps = shard.ask(verb)
    while True:
        try:
            step = shard.ask(lambda _: next(steps))
        except StopIteration:
            return
        yield step
