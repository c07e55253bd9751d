"""Settles deliveries: adds first what their outcomes say, and acknowledges second.

A process that is killed between the two leaves the job unacknowledged, and Disque delivers it again after its RETRY: it
runs twice, or is retried twice. Nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from goworkers_py.brokers.contracts.transport import Finished, Settled, SettlementBatch, refuse_late, settled_with
from goworkers_py.brokers.disque.commands import DisqueCommands
from goworkers_py.brokers.disque.nodes import Nodes, checked, error_of, refusal_in
from goworkers_py.brokers.redis.driver.exchange import RedisCommand
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect, PushJobs
from goworkers_py.core.errors import BrokerRefused, UnreadablePayload
from goworkers_py.core.outcome import DONE, NOT_SETTLED, Dead, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.core.values import dataclass
from goworkers_py.wire import payload

ALONE = "Disque has no {} for it: push such jobs to a partition on Redis"


@dataclass
class _Asked:
    """The last batch of a settler, and what was done of it: it may be asked again after a lost reply."""

    number: int
    was_sent: bool = False  # an acknowledgement may have been done
    results: list[Settled] = field(default_factory=list)


class DisqueSettlement:
    """Threads share it; a settler settles one batch at a time."""

    def __init__(self, nodes: Nodes, commands: DisqueCommands) -> None:
        self._nodes, self._commands = nodes, commands
        self._asked: dict[str, _Asked] = {}  # by settler; each use is one step, as of the next one
        # Which of the jobs that a delivery leaves were added, where others of its batch may not be: it comes again, in
        # this batch or another one.
        self._added: dict[Delivery, set[int]] = {}

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished):
            raise ValueError("no broker settles an outcome of NOT_SETTLED")
        asked = self._asked.get(batch.settler)
        if asked is not None:
            refuse_late(batch.number, asked.number)
        if asked is None or asked.number != batch.number:
            asked = self._asked[batch.settler] = _Asked(batch.number)
        if not asked.results:
            refused = self._add_left_by(batch.finished)
            may_end = [pair for pair in batch.finished if pair[0] not in refused]
            results = refused | dict(zip((delivery for delivery, _ in may_end), self._end(may_end, asked), strict=True))
            asked.results = [results[delivery] for delivery, _ in batch.finished]
            for delivery, _ in may_end if self._added else ():
                self._added.pop(delivery, None)
        return asked.results

    def _add_left_by(self, finished: Sequence[Finished]) -> dict[Delivery, Settled]:
        """The deliveries that leave something which cannot be added, and why: they stay, and hold up no other."""
        added, refused = self._added, dict[Delivery, Settled]()
        left: list[tuple[Delivery, int, RedisCommand]] = []
        for delivery, outcome in finished:
            if outcome is DONE:
                continue
            try:
                commands = self._left_by(delivery, outcome)
            except Exception as error:  # what it says is no payload, no name or no time
                refused[delivery] = settled_with(error)
            else:
                known = added.get(delivery, ())
                left += [(delivery, place, command) for place, command in enumerate(commands) if place not in known]
        replies = self._nodes.exchange([command for _, _, command in left]) if left else ()
        for (delivery, place, _), reply in zip(left, replies, strict=True):
            if refusal_in(reply):
                refused[delivery] = str(error_of(reply))
            else:
                added.setdefault(delivery, set()).add(place)
        return refused

    def _end(self, finished: Sequence[Finished], asked: _Asked) -> list[Settled]:
        if not finished:
            return []
        again, asked.was_sent = asked.was_sent, True
        node = self._nodes.current
        replies = self._nodes.exchange([self._ending(*pair) for pair in finished])
        # 0: this node does not know the job, or knows it as ended. Another node may know it: then it will be told.
        return [
            str(error_of(reply))
            if refusal_in(reply)
            else bool(reply) or again or delivery.receipt.node != node or node != self._nodes.current
            for reply, (delivery, _) in zip(replies, finished, strict=True)
        ]

    def _ending(self, delivery: Delivery, outcome: Outcome) -> RedisCommand:
        job_id: bytes = delivery.receipt.job_id
        return ("NACK", job_id) if _goes_to_the_front(outcome) else self._commands.end(job_id)

    def _left_by(self, delivery: Delivery, outcome: Outcome) -> list[RedisCommand]:
        """Raises what stands in the way of a command."""
        if refusal := _refusal(outcome):
            raise BrokerRefused(refusal)
        commands = [*self._commands_for(delivery, outcome)]
        for _ in packed(commands):
            pass
        return commands

    def _commands_for(self, delivery: Delivery, outcome: Outcome) -> Iterator[RedisCommand]:
        add, now = self._commands.add, machine.time()
        for effect in outcome.effects:
            if isinstance(effect, PushJobs):
                yield from (add(push.queue, push.payload, push.at, now) for push in effect.pushes)
        if isinstance(outcome, Retry | Reschedule):
            yield add(_queue_in(outcome.payload) or delivery.queue, outcome.payload, outcome.at, now)
        elif isinstance(outcome, Dead):
            yield self._commands.add_dead(outcome.payload)
        elif isinstance(outcome, Requeue) and not _goes_to_the_front(outcome):
            again = delivery.payload if outcome.payload is None else outcome.payload
            yield add(delivery.queue, again, None, now)

    def bury(self, job_id: bytes, raw: bytes) -> None:
        for command in (self._commands.add_dead(raw), self._commands.end(job_id)):
            checked(*self._nodes.exchange([command]))


def _refusal(outcome: Outcome) -> str:
    """Why a delivery cannot be settled here; empty if it can."""
    if isinstance(outcome, Park):
        return ALONE.format("lines of limits")
    return next((ALONE.format(effect.kind) for effect in outcome.effects if not _is_known(effect)), "")


def _is_known(effect: Effect) -> bool:
    # Effects that may happen twice may also fail: they are about records and locks, which nobody has made here.
    return effect.repeatable or isinstance(effect, PushJobs)


def _goes_to_the_front(outcome: Any) -> bool:
    """By NACK, a job comes back to its place: Disque orders a queue by the times of the pushes."""
    return isinstance(outcome, Requeue) and outcome.payload is None and not outcome.last


def _queue_in(raw: bytes) -> str:
    """The queue that a payload names; empty where it names none."""
    try:
        queue = payload.read(raw).get("queue")
    except UnreadablePayload:
        return ""
    return queue if isinstance(queue, str) and payload.encodable(queue) else ""
