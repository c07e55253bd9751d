"""The places of a job in its limits follow the moves and the end of the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from goworkers_py.core.effect import Effect
from goworkers_py.core.job_state import ENDED
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import SlotTie
from goworkers_py.features.limits.payload import SLOTS, slots_of
from goworkers_py.features.parts import Moves
from goworkers_py.policy.consequences import JobMove
from goworkers_py.wire import payload


def of_slots(ties: Iterable[SlotTie], move: JobMove, queues: tuple[str, ...]) -> Iterator[Effect]:
    """A job that goes on keeps its place in a strict slot, so that its line waits for it."""
    for slot, holds in ties:
        if holds and move.state not in ENDED:
            yield HoldSlot(move.jid, slot)
        else:
            yield LeaveSlot(move.jid, slot, queues)


def of_limits(fields: Mapping[str, Any], move: JobMove) -> Iterator[Effect]:
    queue = fields.get("queue")
    yield from of_slots(slots_of(fields), move, (queue,) if payload.is_name(queue) else ())


MOVES = Moves(followers={SLOTS: of_limits})
