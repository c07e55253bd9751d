"""The limit releaser's thread: looks at lines of limits when that is due, and lets jobs go.

The end of a job lets the next one go by itself, if that is of a queue that the settlement names. A look is needed for
other queues, when the time of a rate has come, when an owner of a place has died, when people have changed a limit, and
when another program has deleted a job that had a place.
"""

from __future__ import annotations

import itertools
import logging
import math
import queue
from collections.abc import Sequence
from contextlib import suppress

from goworkers_py.brokers.broker import Broker
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import DueSlots, Slot, SlotHolder, slot_of_line
from goworkers_py.features.limits.limiting import Limiting
from goworkers_py.features.limits.options import LimitConfig
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

# Slots that are looked at in one round.
AT_ONCE = 100
# After a death, so many lines are looked at, also those that are due later.
MOST_LINES, ANY_TIME_S = 100_000, math.inf
# When the clock of the broker goes back by more than this, the times of all lines are wrong.
BACK_S = 1.0
# A slot that the broker refuses to look at is left alone for so long.
REFUSED_S = 60.0
# Between two rounds, at least and at most. A process that has put a job into a line looks at once.
OFTEN_S, RARELY_S = 0.01, 5.0
# The job of a place without an owner is looked for when it has waited for its run for so long.
LOOK_FOR_AFTER_S = 30.0
# The job of a place whose owner lives, when it has run for so long: its end may have failed to free the place.
LOOK_FOR_RUN_AFTER_S = 600.0
# Slots whose jobs are searched for at once, when one was missing.
MOST_SEARCHED_SLOTS = 1_000
# After a search in vain, for so many times as long as it took, there is no other one.
REST = 10


class LimitReleaser(BrokerService):
    def __init__(self, broker: Broker, limiting: Limiting, outage: Outage) -> None:
        super().__init__("limit releaser", outage)
        self._limits = broker.require_part(Limits)
        self._limiting = limiting
        self._broker = broker
        self._undeclared = machine.Event()  # set by any thread, cleared by this one before it declares
        self._undeclared.set()
        self._all = False
        self._clock = 0.0  # of the broker, at the last look; this thread only
        self._refused: dict[Slot, float] = {}  # monotonic: until when it is left alone; this thread only
        self._search_at = 0.0  # monotonic; this thread only
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()  # a put is one step of C code, as in Tracker

    def set_limits(self, limits: Sequence[LimitConfig]) -> None:
        """From any thread: the sections [limit:NAME] of a new configuration."""
        self._limiting.set_limits(limits)
        self._undeclared.set()
        self._woken.put(None)

    def look_soon(self) -> None:
        """From any thread: a job has come into a line; or it has left its place, and the next job of the line may be of
        a queue that the settlement did not name."""
        if self._woken.empty():
            self._woken.put(None)

    def look_at_all(self) -> None:
        """From any thread: an owner of places has died, whose jobs may be those for which lines wait; or the clock of
        the broker was set back."""
        self._all = True
        self._woken.put(None)

    def run_once(self) -> float:
        if self._undeclared.is_set():
            self._undeclared.clear()
            try:
                self._limits.declare(self._limiting.settings())
            except BaseException:
                self._undeclared.set()
                raise
        with suppress(queue.Empty):  # one round is for all who have told until now
            while True:
                self._woken.get_nowait()
        everything, self._all = self._all, False
        try:
            due = self._due_at_all() if everything else self._limits.due(AT_ONCE)
            if due.now < self._clock - BACK_S:
                self.look_at_all()
            self._clock = due.now
            waiting = [slot for slot in due.slots if self._look_or_tell(slot)]
        except BaseException:
            self._all = self._all or everything
            raise
        if waiting and not self.stopping.is_set() and machine.monotonic() >= self._search_at:
            self._search(waiting)
        if due.next_in_s is None and any(slot not in self._refused for slot in due.slots):
            return OFTEN_S
        return max(OFTEN_S, min(RARELY_S, RARELY_S if due.next_in_s is None else due.next_in_s))

    def _due_at_all(self) -> DueSlots:
        """All lines, and the limits for which no job waits: a dead owner may have places there."""
        limits = self._limits
        due = limits.due(MOST_LINES, within_s=ANY_TIME_S)
        others = {Slot(entry.name) for entry in limits.entries()}.difference(due.slots)
        return due._replace(slots=[*due.slots, *others])

    def _look_or_tell(self, slot: Slot) -> bool:
        """A slot that the broker refuses to look at, as one whose keys are damaged, stops no other one. It stays due,
        and is tried again seldom."""
        if self._refused.get(slot, 0.0) > machine.monotonic():
            return False
        try:
            waits = self._look(slot)
        except BrokerRefused as error:
            if slot not in self._refused:
                log.error("limit %s: its line cannot be looked at: %s", slot.id, error)
            self._refused[slot] = machine.monotonic() + REFUSED_S
            return False
        self._refused.pop(slot, None)
        return waits

    def _look(self, slot: Slot) -> bool:
        """True when jobs wait on, and none was let go."""
        limits, queues = self._limits, self._limiting.queues([slot])
        first = looked = limits.look(slot, queues)
        while (
            looked.let_go and looked.waiting and not self.stopping.is_set()
        ):  # each look knows the queue of the oldest job, and these may differ
            looked = limits.look(slot, queues)
        return bool(first.waiting) and not first.let_go

    def _search(self, waiting: Sequence[Slot]) -> None:
        """Searches the jobs of one slot. If none is missing, it rests then: a search takes time, and rates go on."""
        began = machine.monotonic()
        late = ((slot, self._late(slot)) for slot in machine.random.sample(waiting, len(waiting)))
        if self._free_missing([*itertools.islice((pair for pair in late if pair[1]), 1)]):
            if not self.stopping.is_set():
                self._search_many()
        else:
            ended = machine.monotonic()
            self._search_at = ended + REST * (ended - began)

    def _search_many(self) -> None:
        """A program that deletes one job without a look at it often deletes many, as `queue clear` does."""
        slots = self._limits.due(MOST_SEARCHED_SLOTS, within_s=ANY_TIME_S).slots
        self._free_missing(
            [(slot, [holder for holder in self._late(slot) if not _is_parked(holder)]) for slot in slots]
        )

    def _free_missing(self, late: Sequence[tuple[Slot, Sequence[SlotHolder]]]) -> bool:
        """Frees the places whose jobs are in no place any more. Whether there were any."""
        holders = [holder for _, several in late for holder in several]
        if not holders:
            return False
        from goworkers_py.admin.missing_jobs import MissingJobs  # most processes never search

        missing = MissingJobs(self._broker).among(
            [holder.jid for holder in holders], parked=any(map(_is_parked, holders))
        )
        for slot, several in late:
            gone = [holder for holder in several if holder.jid in missing]
            if gone:
                self._limits.look(slot, self._limiting.queues([slot]), gone)
        return bool(missing)

    def _late(self, slot: Slot) -> list[SlotHolder]:
        """The places of jobs that have had them for long: another program may have deleted the jobs. Not of blocks."""
        late = (LOOK_FOR_AFTER_S, LOOK_FOR_RUN_AFTER_S)
        return [
            holder
            for holder in self._limits.holders(slot)
            if holder.queue and self._clock - holder.since > late[bool(holder.owner)]
        ]

    def wait_between(self, seconds: float) -> None:
        self.stopping.wait(OFTEN_S)  # the ends of many jobs are told in one round
        with suppress(queue.Empty):
            self._woken.get(timeout=max(0.0, seconds - OFTEN_S))

    def wake(self) -> None:
        self._woken.put(None)


def _is_parked(holder: SlotHolder) -> bool:
    """Whether the job was moved into the line of another limit with its place."""
    return slot_of_line(holder.queue) is not None
