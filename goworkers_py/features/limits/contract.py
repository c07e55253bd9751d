"""Limits: jobs that begin take a place in the slots of their limits, or wait in a slot's line.

A place belongs to a job, by its jid. While the job runs, the place is that of its process, and is valid until the
process is declared dead. A missing lease is no death: after an outage every lease is missing, and every process lives.
The end of the job frees its place and lets the next job of the line go, in one step, see `LeaveSlot`. A job that was
let go waits at the front of its queue with a place that has no owner.

Only two things need a look, see `look`: the time of a rate has come, and the owner of a place has died.

The place of a block of code is that of an owner of blocks, see `Presence.blocks`, which beats before it takes a place.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.limits.limit import (
    LET_GO_MOST,
    Begins,
    DueSlots,
    GivenAway,
    LimitEntry,
    LimitSettings,
    Looked,
    Rate,
    Slot,
    SlotEntry,
    SlotHolder,
    Undeclared,
    Waits,
)


class SlotWish(NamedTuple):
    """A job begins that needs a place in each of these slots, see `Limits.begin`."""

    slots: Sequence[Slot]  # in the order of their names
    jid: str
    delivery: Delivery
    parked: bytes  # the payload of the job when it has to wait
    queues: Sequence[str] = ()  # into which other jobs are likely to be let go
    effects: Sequence[Effect] = ()  # of parking it


class Limits(Protocol):
    """Threads share it."""

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        """Stores what limits allow. A value that people have set overrides it, and stays."""

    def begin(self, wish: SlotWish) -> Begins | Waits | GivenAway | Undeclared:
        """Called before a run. In one step, the job takes a place in all of its slots; or it is moved from its
        in-progress list into the line of the first slot that is full or has a line. It keeps its places in the slots
        before that one, and gives up those after it; before and after: strict slots first, then the others, each by
        name. A job that has a place in a slot takes that one."""

    def take(self, slot: Slot, jid: str, owner: str) -> bool | Undeclared:
        """Takes a place for a block of code, if there is room. `jid` is a name for it, which nobody else has. `owner`
        has beaten with `Presence.blocks`. A block that asks again within two seconds keeps its turn before jobs that
        come into the line after its first call."""

    def leave(self, slot: Slot, jid: str, queues: Sequence[str] = (), owner: str = "") -> None:
        """Does what the effect `LeaveSlot` does. A `take` of the same owner that had no answer, and arrives after this,
        takes no place."""

    def due(self, limit: int, within_s: float = 0.0) -> DueSlots:
        """Up to so many slots whose lines are to be looked at now, or within so many seconds."""

    def look(
        self, slot: Slot, queues: Sequence[str] = (), gone: Sequence[SlotHolder] = (), most: int = LET_GO_MOST
    ) -> Looked:
        """Frees the places whose owner is dead, and those of `gone`, whose jobs are in no place; each only if it has
        not changed since it was read. An owner is dead when it was declared dead, or has left: when `Recoverable` knows
        nothing of it. In a strict limit the places of jobs of dead owners stay, without an owner: the line waits for
        the recovered job. A block is never recovered, so its place is freed. Then lets up to `most` jobs go, and notes
        when the slot is due next."""

    def holders(self, slot: Slot) -> list[SlotHolder]:
        """The jobs that have places in a slot."""

    # --- people

    def set(self, name: str, concurrent: int | None = None, rate: Rate | None = None) -> bool:
        """Overrides what a limit allows, at once and for all processes; -1 allows any number of jobs at once, and
        ANY_RATE any number in a time. A value of None leaves that setting as it is. False when nobody has declared the
        limit."""

    def unset(self, name: str) -> bool:
        """Ends what `set` has set. False when nothing was set."""

    def entries(self) -> list[LimitEntry]:
        """The declared limits, by name."""

    def slots(self, name: str) -> Iterator[SlotEntry]:
        """The slots of a limit in which there is a place taken, or for which a job waits, in no order."""

    def forget(self, name: str) -> bool:
        """Forgets a limit that is declared no more. Its lines stay. False when there is none."""
