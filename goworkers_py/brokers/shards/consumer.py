"""Consumes from the queues of a pool on all shards, and waits for all of them at once.

Each call begins with another shard, so none is served before the others for long. A shard that has no job gets a wait
for each queue, see `Pollable`, and is not asked again until one of these waits brings a job. The waits of all shards
are polled together with a bell.

In a pool of strict order the queues are asked one after the other, each on every shard: a job of a lower queue on one
shard does not go before those of a higher queue on another.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import cast

from goworkers_py.brokers.bell import Bell
from goworkers_py.brokers.contracts.transport import Pollable
from goworkers_py.brokers.rounds import rounds
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.policy.priorities import Ask

# A wait on several shards ends after so long, as that on one does.
LONGEST_WAIT_S = 5.0
# A shard that has no lease of this process, or is full, is asked again after so long.
REFUSED_PAUSE_S = 0.5
# Calls begin with the same shard for so long. The jobs of one fetch end together: those of one shard are settled in one
# exchange, those of three shards in three.
STAY_S = 0.05


class ShardConsumer:
    """The thread of the fetcher uses it; any thread may call `wake`."""

    def __init__(self, shards: Sequence[Shard], queues: Sequence[str]) -> None:
        self._shards = [*shards]
        self._queues = queues
        self._turn = 0  # the shard with which a call begins
        self._stays_until = 0.0  # monotonic
        # Where the last call has found a job, or nobody has looked: by shard, and queue where the order is strict.
        self._likely: dict[tuple[Shard, str], bool] = {}
        self._not_before: dict[Shard, float] = {}  # monotonic
        # Where a reply may have been lost, see `ShardedTransport.lost_replies`.
        self.cut_short: set[tuple[Shard, str]] = set()
        self._bell = Bell()

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        failures: list[BrokerError] = []
        shards = self._in_turn()
        taken = self._caught(shards, identity, asks, failures)
        for number, part in enumerate(rounds(asks)):
            taken += self._take(shards, identity, part, limit - len(taken), number, failures)
            if len(taken) >= limit:
                return taken
        if taken or wait_s <= 0:
            return taken
        waits = self._begin_waits(shards, identity, asks, failures)
        if not waits and failures:
            raise failures[-1]
        if not waits and not self._serving():
            raise BrokerUnavailable("no shard can serve now")
        self._poll([number for numbers in waits.values() for number in numbers], min(wait_s, self._longest_wait_s()))
        return self._caught([*waits], identity, asks, failures)

    # --- jobs that are there

    def _in_turn(self) -> list[Shard]:
        if machine.monotonic() >= self._stays_until:
            self._stays_until = machine.monotonic() + STAY_S
            self._turn = (self._turn + 1) % len(self._shards)
        turn = self._turn
        return [shard for shard in self._shards[turn:] + self._shards[:turn] if self._may_ask(shard)]

    def _may_ask(self, shard: Shard) -> bool:
        return not shard.away and (not self._not_before or machine.monotonic() >= self._not_before.get(shard, 0.0))

    def _caught(
        self, shards: Sequence[Shard], identity: str, asks: Sequence[Ask], failures: list[BrokerError]
    ) -> list[Delivery]:
        """The jobs that waits have brought. They come first, and beyond the limit: nobody else sees them."""
        caught: list[Delivery] = []
        for shard in shards:
            if not all(self._likely.get((shard, key), True) for key in ("", *self._queues)):
                caught += self._ask(shard, identity, asks, 0, failures)
        return caught

    def _take(
        self, shards: Sequence[Shard], identity: str, asks: Sequence[Ask], limit: int, number: int,
        failures: list[BrokerError],
    ) -> list[Delivery]:  # fmt: skip
        taken: list[Delivery] = []
        wanted = [queue for queue, most in asks if most > 0]
        key = wanted[0] if len(wanted) == 1 else ""
        for shard in shards if wanted else ():
            if len(taken) >= limit:
                break
            if self._likely.get((shard, key), True):
                found = self._ask(shard, identity, asks, limit - len(taken), failures)
                if not found and self._may_ask(shard):
                    self._likely[shard, key] = False
                    self._begin_waits([shard], identity, asks, failures)
                taken += found
        return taken

    def _ask(
        self, shard: Shard, identity: str, asks: Sequence[Ask], limit: int, failures: list[BrokerError]
    ) -> list[Delivery]:
        try:
            found = shard.broker.transport.consume(identity, asks, limit, 0.0)
        except BrokerError as error:
            self._failed(shard, error, failures)
            return []
        number = shard.number
        for one in found:
            one.receipt = number
        if self._likely and found:
            for queue in {one.queue for one in found}:
                self._likely[shard, queue] = self._likely[shard, ""] = True
        return found

    def _failed(self, shard: Shard, error: BrokerError, failures: list[BrokerError]) -> None:
        """The shard may have moved jobs before it said no, so `lost_replies` looks thoroughly. The others go on."""
        self.cut_short.update((shard, queue) for queue in self._queues)
        for key in ("", *self._queues):
            self._likely.pop((shard, key), None)
        shard.failed(error)
        failures.append(error)
        if not shard.away:
            self._not_before[shard] = machine.monotonic() + REFUSED_PAUSE_S

    # --- waits

    def _begin_waits(
        self, shards: Sequence[Shard], identity: str, asks: Sequence[Ask], failures: list[BrokerError]
    ) -> dict[Shard, Sequence[int]]:
        waits = {}
        for shard in shards:
            if not self._may_ask(shard):
                continue
            try:
                waits[shard] = cast(Pollable, shard.broker.transport).begin_waits(identity, asks)
            except BrokerError as error:
                self._failed(shard, error, failures)
            else:
                for queue, most in asks:
                    if most > 0:
                        self._likely[shard, queue] = False
        return waits

    def _poll(self, numbers: Sequence[int], wait_s: float) -> None:
        """Ends early when the bell rings."""
        if self._bell.fileno() < 0:
            raise BrokerUnavailable("the broker was closed")
        poll = select.poll()
        for number in (self._bell.fileno(), *numbers):
            poll.register(number, select.POLLIN)
        if self._bell.fileno() in [number for number, _ in poll.poll(wait_s * 1000)]:
            self._bell.silence()

    def _longest_wait_s(self) -> float:
        paused = [until for until in self._not_before.values() if until > machine.monotonic()]
        return REFUSED_PAUSE_S if paused else LONGEST_WAIT_S

    def _serving(self) -> bool:
        return any(not shard.away for shard in self._shards)

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        caught: list[Delivery] = []
        for shard in self._shards:
            if shard.away:
                continue
            try:
                found = shard.broker.transport.end_waits(queues)
            except BrokerError as error:
                self._failed(shard, error, [])
                continue
            for one in found:
                one.receipt = shard.number
            for key in ("", *queues):
                self._likely.pop((shard, key), None)
            caught += found
        return caught

    @property
    def waits_run(self) -> bool:
        """A wait begins only where a shard has told of no job, see `_likely`."""
        return not all(self._likely.values())

    def wake(self) -> None:
        self._bell.ring()

    def close(self) -> None:
        self._bell.close()
