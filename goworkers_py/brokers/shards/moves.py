"""Moves a job to the shard on which its limit lives.

No step covers two shards, so the job goes through an outbox. One step takes it off progress on its shard and puts it
into the outbox there. `MoveRelay` publishes it at the home of its limit, and removes it from the outbox then. So the
job goes on from one place, also when a process is killed or a reply is lost between the steps.

The reply of the first step can be lost, too: the caller does not know whether the job has left, and settles it as one
that goes back to its queue. So such a move is kept here, and is asked again, under its number, before that delivery is
settled. The job has moved on then, and is not told as lost; or it goes back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from goworkers_py.brokers.contracts.limits import SlotWish
from goworkers_py.brokers.contracts.transport import Batch, Settled
from goworkers_py.brokers.shards.move_relay import MoveRelay, id_of_move, outbox_to
from goworkers_py.brokers.shards.placement import key_of_slot
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import NoteState, PostJobs, Push
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, BrokerUnreachable, is_no_answer
from goworkers_py.core.outcome import CANCELLED
from goworkers_py.wire import payload
from goworkers_py.wire.job_record import TRACK, tracked_in


@dataclasses.dataclass
class _Move:
    shard: Shard
    batch: Batch
    told: bool | None = None  # the answer to a move that was asked again


class Moves:
    """Any thread asks it. A delivery is that of one thread at a time."""

    def __init__(self, shards: ShardList) -> None:
        self.relay = MoveRelay(shards)
        self._local = machine.local()  # each thread is a settler here
        # By the delivery. Each dict operation is one step.
        self.unanswered: dict[Delivery, _Move] = {}

    def move(self, wish: SlotWish, shard: Shard, home: Shard) -> bool:
        """False when the job is no longer in progress here. Raises BrokerUnavailable when nobody knows, and
        BrokerRefused when it stays in progress."""
        one = wish.delivery
        push = Push(one.queue, _payload_of(wish), id=id_of_move(key_of_slot(wish.slots[0])))
        outcome = dataclasses.replace(CANCELLED, effects=(PostJobs(wish.jid, outbox_to(home), (push,)),))
        move = self.unanswered[one] = _Move(shard, Batch(*self._next(), [(one, outcome)]))
        try:
            told = self._ask(move)
        except (BrokerUnreachable, BrokerRefused):  # nothing has happened
            del self.unanswered[one]
            raise
        except BaseException:
            # The shard remembers the last batch of each settler, and this one may be asked again much later.
            del self._local.settler
            raise
        del self.unanswered[one]
        if isinstance(told, str):
            raise BrokerRefused(told)
        return told

    def _next(self) -> tuple[str, int]:
        local = self._local
        if not hasattr(local, "settler"):
            local.settler, local.number = f"move:{machine.token_hex(6)}", 0
        local.number += 1
        return local.settler, local.number

    def answers(self, deliveries: Collection[Delivery]) -> dict[Delivery, Settled]:
        """Asks moves without an answer again. Returns how the deliveries were settled that the caller need not settle.
        Keeps that until `forget`."""
        answers: dict[Delivery, Settled] = {}
        for one in deliveries:
            move = self.unanswered.get(one)
            if move is None:
                continue
            try:
                told: Settled = self._ask(move) if move.told is None else move.told
            except (BrokerUnavailable, BrokerRefused) as error:
                if is_no_answer(error):
                    answers[one] = (
                        f"shard {move.shard.name}, from which this job was to move, cannot serve now: {error}"
                    )
                    continue
                told = str(error)
            if isinstance(told, str):
                del self.unanswered[one]  # it has not moved
            else:
                answers[one] = move.told = told
        return answers

    def forget(self, deliveries: Collection[Delivery]) -> None:
        for one in deliveries:
            move = self.unanswered.get(one)
            if move is not None and move.told is not None:
                del self.unanswered[one]

    def _ask(self, move: _Move) -> Settled:
        [told] = move.shard.ask(lambda broker: broker.transport.settle(move.batch))
        if told is True:
            self.relay.wake()
        return told


def _payload_of(wish: SlotWish) -> bytes:
    """Where only the code of its class says that a job is tracked, its payload says it from now on: the record moves
    with the job, see `MovingRecords`."""
    raw = wish.delivery.payload
    is_tracked = any(isinstance(effect, NoteState) for effect in wish.effects)
    return payload.splice(raw, {TRACK: True}) if is_tracked and tracked_in(raw) is None else raw
