"""The broker of a test block: the memory broker, with the clock of the block and a log of all pushes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Published, PublishResult, Push, Settled, SettlementBatch
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.brokers.memory.transport import MemoryTransport
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.effect import Effect, EnclosingEffect, PushJobs
from goworkers_py.core.errors import NoResult
from goworkers_py.core.identity import new_identity
from goworkers_py.core.outcome import Joined, Outcome
from goworkers_py.features import FEATURES, feature_of
from goworkers_py.runtime.alive.lease import Lease

AtOnce = Callable[[bytes], bytes]
P = TypeVar("P")


class BlockState(State):
    def __init__(self, wall: Callable[[], float]) -> None:
        super().__init__(wall)
        self.pushed: list[Push] = []  # all pushes since the block began; threads append to it

    def note_pushed(self, push: Push) -> None:
        self.pushed.append(push)

    def begin_wait(self, jid: str) -> None:
        raise NoResult(f"job {jid} has not ended, and nothing runs it while you wait: call workers.testing.run_all()")


class FakeTransport(MemoryTransport):
    """`at_once` is None, or it turns the payload of a scheduled job into the one in its queue: then no pushed job waits
    for its time."""

    def __init__(
        self, state: BlockState, endings: Endings, at_once: AtOnce | None, published: Callable[[], None]
    ) -> None:
        super().__init__(state, endings)
        self.pushed = state.pushed
        self._at_once = at_once
        self._published = published

    def publish(self, pushes: Sequence[Push]) -> list[PublishResult]:
        results = super().publish(self._without_times(pushes))
        self.pushed += [push for push, result in zip(pushes, results, strict=True) if result is Published.PUSHED]
        self._published()
        return results

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        finished = [(delivery, self._without_times_of(outcome)) for delivery, outcome in batch.finished]
        results = super().settle(dataclasses.replace(batch, finished=finished))
        for (_, outcome), settled in zip(batch.finished, results, strict=True):
            if settled is True and not isinstance(outcome, Joined):  # a member that joins was pushed before
                self.pushed += [push for effect in outcome.effects for push in _pushes_of(effect)]
        return results

    def _without_times_of(self, outcome: Outcome) -> Outcome:
        if self._at_once is None or not outcome.effects:
            return outcome
        return dataclasses.replace(outcome, effects=tuple(map(self._at_once_effect, outcome.effects)))

    def _at_once_effect(self, effect: Effect) -> Effect:
        if isinstance(effect, PushJobs):
            return dataclasses.replace(effect, pushes=tuple(self._without_times(effect.pushes)))
        if not isinstance(effect, EnclosingEffect):
            return effect
        within: Any = effect  # a dataclass
        enclosing: Effect = dataclasses.replace(within, effects=tuple(map(self._at_once_effect, effect.effects)))
        return enclosing

    def _without_times(self, pushes: Sequence[Push]) -> Sequence[Push]:
        return pushes if self._at_once is None else [self._without_time(push, self._at_once) for push in pushes]

    @staticmethod
    def _without_time(push: Push, at_once: AtOnce) -> Push:
        for feature in FEATURES:
            push = feature.pushes().at_once(push)
        return push if push.at is None else dataclasses.replace(push, payload=at_once(push.payload), at=None)


def _pushes_of(effect: Effect) -> Iterator[Push]:
    if isinstance(effect, PushJobs):
        yield from effect.pushes
    elif isinstance(effect, EnclosingEffect):
        for inner in effect.effects:
            yield from _pushes_of(inner)


class _PushingPart:
    """A part of a feature some of whose verbs push jobs."""

    def __init__(self, part: object, verbs: Collection[str], published: Callable[[], None]) -> None:
        self._part = part
        self._verbs = verbs
        self._published = published

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return partial(self._publish, value) if name in self._verbs else value

    def _publish(self, verb: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        answer = verb(*args, **kwargs)
        self._published()
        return answer


class FakeBroker(MemoryBroker):
    name = "the memory of a test block"
    # Without leases: no process of the fleet is asked which features it knows, and no daemon starts on it.
    capabilities = MemoryBroker.capabilities - {Capability.LEASES}
    transport: FakeTransport

    def __init__(self, config: Config, clock: Clock, at_once: AtOnce | None, published: Callable[[], None]) -> None:
        self.lease = Lease(math.inf)
        self.lease.confirm(machine.awake_and_asleep())
        self._limits = DeadLimits(config.dead_max_jobs, config.dead_timeout)
        self._wall, self._at_once, self._published = clock.wall, at_once, published
        self.clear()

    def end_process(self) -> None:
        """The process of the block has died, and so have the owners of its blocks of limits. The block is another
        process from now on, which may recover what the dead one held."""
        with self._state.lock:
            for record in (*self._state.leases.values(), *self._state.block_owners.values()):
                begun = dict.fromkeys(record.in_progress, 1)
                record.presence = dataclasses.replace(record.presence, queues=begun)
                record.expires_at = -math.inf
        self.lease.replace(new_identity())
        self.recoverable.beat(Presence(self.lease.identity, {}))

    def clear(self) -> None:
        """Forgets everything. A job that runs now has lost its lease."""
        self._state = state = BlockState(self._wall)
        self._parts = {}  # those of features, which know the state of before
        super().__init__(state, self._limits, math.inf)
        self.transport = FakeTransport(state, self.endings, self._at_once, self._published)
        self.recoverable.beat(Presence(self.lease.identity, {}))

    def part(self, contract: type[P]) -> P | None:
        found = super().part(contract)
        pushing = [verb for verb, step in feature_of(contract).for_tests().steps.items() if step.pushes]
        return cast(P, _PushingPart(found, pushing, self._published)) if pushing else found

    def queues_in_order(self) -> list[str]:
        """The queues with jobs: first the one whose next job came into its queue before those of the others."""
        with self._state.lock:
            firsts = {next(iter(waiting)): queue for queue, waiting in self._state.queues.items() if waiting}
        return [firsts[number] for number in sorted(firsts)]
