"""The verbs of the inspector for limits."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.admin.missing_jobs import MissingJobs
from goworkers_py.admin.verbs import Verbs
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.line_owner import LineOwner
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import (
    LimitEntry,
    LimitSettings,
    Rate,
    Slot,
    SlotEntry,
    SlotHolder,
    slot_of_line,
)
from goworkers_py.features.parts import Whereabouts


class LimitVerbs(Verbs):
    def limits(self) -> list[LimitEntry]:
        """The limits that programs have declared: `[limit.name for limit in inspector.limits()]`."""
        return self._limits.entries()

    def slots(self, name: str) -> Iterator[SlotEntry]:
        """The keys of a limit that jobs have places in or wait for, in no order; one entry for a limit without keys:
        `sum(slot.waiting for slot in inspector.slots("stripe"))`."""
        return self._limits.slots(name)

    def places(self, slot: Slot) -> list[SlotHolder]:
        """The jobs that have places in one slot of a limit: `inspector.places(Slot("stripe"))`."""
        return self._limits.holders(slot)

    def set_limit(self, name: str, concurrent: int | None = None, rate: Rate | None = None) -> bool:
        """`inspector.set_limit("stripe", concurrent=2)` overrides what the code says, at once and in all processes; -1
        stands for any number of jobs, and the rate `goworkers_py.features.limits.limit.ANY_RATE` for any. Returns False
        if no program has declared the limit."""
        return self._limits.set(name, concurrent, rate)

    def unset_limit(self, name: str) -> bool:
        """`inspector.unset_limit("stripe")` ends what `set_limit` has set. Returns False if nothing was set."""
        return self._limits.unset(name)

    def declare_limit(self, limit: LimitSettings) -> None:
        """`inspector.declare_limit(LimitSettings("stripe", 5))` tells the broker what a limit allows, as a process does
        that has it in its code. The values of `set_limit` stay."""
        self._limits.declare([limit])

    def forget_limit(self, name: str) -> bool:
        """`inspector.forget_limit("stripe")` removes a limit that no code declares any more. ArgumentError is raised
        while jobs wait for it or have places in it. Places whose owners are dead, or whose jobs are in no place any
        more, are removed. Returns False if there is none."""
        limits, missing = self._limits, MissingJobs(self._broker)
        for entry in [entry for entry in self.slots(name) if not entry.waiting]:
            limits.look(entry.slot)
            waits = [holder for holder in limits.holders(entry.slot) if not holder.owner]
            gone = missing.among([holder.jid for holder in waits], parked=True)
            if gone:
                limits.look(entry.slot, gone=[holder for holder in waits if holder.jid in gone])
        self.check_unused_limit(name)
        return limits.forget(name)

    def check_unused_limit(self, name: str) -> None:
        """Raises ArgumentError while jobs wait for the limit or have places in it."""
        if next(self.slots(name), None) is not None:
            raise ArgumentError(
                f"limit {name}: jobs wait for it or have places in it; `pyworkers limits show {name}` shows them"
            )

    @property
    def _limits(self) -> Limits:
        return self._broker.require_part(Limits)


def _line_owner(line: str) -> LineOwner | None:
    if (slot := slot_of_line(line)) is None:
        return None
    return LineOwner(f"limit {slot.limit}", slot.limit, f"pyworkers limits show {slot.limit}")


WHEREABOUTS = Whereabouts(line_owner=_line_owner)
