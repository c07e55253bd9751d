"""The limit releaser's thread: looks at lines of limits when that is due, and lets jobs go.

The end of a job lets the next one go by itself. A look is needed when the time of a rate has come, when an owner of a
place has died, when people have changed a limit, and when another program has deleted a job that had a place.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.admin.lock_holders import LockHolders
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.limit import Slot, SlotHolder
from goworkers_py.core.lock import Holder
from goworkers_py.policy.limiting import Limiting
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

# Slots that are looked at in one round, and jobs that are let go in one step.
AT_ONCE, LET_GO_AT_ONCE = 100, 50
# After a death, so many lines are looked at, also those that are due later.
MOST_LINES, ANY_TIME_S = 100_000, 3_600.0
# Between two rounds, at least and at most. A process that has put a job into a line looks at once.
OFTEN_S, RARELY_S = 0.01, 5.0
# The job of a place without an owner is looked for when it has waited for its run for so long.
LOOK_FOR_AFTER_S = 30.0


class LimitReleaser(BrokerService):
    def __init__(self, broker: Broker, limiting: Limiting, declare: Callable[[], None], outage: Outage) -> None:
        super().__init__("limit releaser", outage)
        self._broker = broker
        self._limiting = limiting
        self._declare = declare
        self._holders = LockHolders(broker)
        self._declared = False  # this thread only
        self._all = False
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()  # a put is one step of C code, as in Tracker

    @property
    def needed(self) -> bool:
        return self._limiting.of_any_class

    def look_soon(self) -> None:
        """From any thread: a job has come into a line."""
        if self._told.empty():
            self._told.put(None)

    def look_at_all(self) -> None:
        """From any thread: an owner of places has died. Its jobs may be those for which lines wait."""
        self._all = True
        self._told.put(None)

    def run_once(self) -> float:
        if not self._declared:
            self._declare()
            self._declared = True
        with suppress(queue.Empty):  # one round is for all who have told until now
            while True:
                self._told.get_nowait()
        if self._all:
            self._all = False
            due = self._broker.limits.due(MOST_LINES, within_s=ANY_TIME_S)
        else:
            due = self._broker.limits.due(AT_ONCE)
        for slot in due.slots:
            self._look(slot)
        if due.slots and due.next_in_s is None:
            return OFTEN_S
        return max(OFTEN_S, min(RARELY_S, RARELY_S if due.next_in_s is None else due.next_in_s))

    def _look(self, slot: Slot) -> None:
        limits, queues = self._broker.limits, self._limiting.queues([slot])
        looked = limits.look(slot, queues, most=LET_GO_AT_ONCE)
        while looked.let_go == LET_GO_AT_ONCE and looked.waiting:
            looked = limits.look(slot, queues, most=LET_GO_AT_ONCE)
        if looked.waiting and not looked.let_go and (gone := self._gone(slot)):
            limits.look(slot, queues, gone, most=LET_GO_AT_ONCE)

    def _gone(self, slot: Slot) -> list[SlotHolder]:
        """The places of jobs that another program has deleted."""
        now = time.time()
        late = [
            one for one in self._broker.limits.holders(slot) if not one.owner and now - one.since > LOOK_FOR_AFTER_S
        ]
        return [one for one in late if self._holders.is_gone(Holder(one.jid, one.queue, one.since))]

    def wait_between(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._told.get(timeout=seconds)

    def wake(self) -> None:
        self._told.put(None)
