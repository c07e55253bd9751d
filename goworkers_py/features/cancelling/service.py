"""The canceller thread: knows the tombstones of the fleet, and interrupts running jobs that were cancelled.

A worker looks into `tombstones` before it begins a job, and only when there are any. The thread is told of a new
tombstone at once. Messages may get lost, so it also compares with the broker now and then.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from goworkers_py.core import machine
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.features import FEATURES
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.tombstone import Tombstone
from goworkers_py.links.interruption import cancel
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alarms import Alarms
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD
from goworkers_py.wire.payload import encodable

# The mark of the rung that looks for tombstones.
MARK = "cancelling"
# Another program's cancel of a job that runs here. It does not tell when it was asked for.
_ELSEWHERE = Tombstone(retry=False, at=math.inf)


class Canceller(BrokerService):
    compare_every_s = 5.0

    def __init__(
        self,
        cancels: Cancels,
        registry: Registry,
        running: Callable[[], Iterable[Delivery]],
        outage: Outage,
        alarms: Alarms,
    ) -> None:
        super().__init__("canceller", outage)
        self._cancels = cancels
        self._registry = registry
        self._running = running
        # Written by the thread that starts the process and by this thread; every worker reads both.
        self._alarms = alarms
        # Replaced in one step by this thread; workers read it.
        self.tombstones: Mapping[str, Tombstone] = {}
        self._look_elsewhere_at = 0.0  # monotonic
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()
        self._version = "?"  # used by `look` only
        self._listens: Callable[[], None] | None = None

    def begin(self) -> None:
        """A job that was cancelled before does not begin."""
        self.look()

    def run(self) -> None:
        with suppress(BrokerError):  # then it compares only
            self._listens = self._cancels.listen(lambda: self._woken.put(None))
        try:
            super().run()
        finally:
            if self._listens is not None:
                self._listens()

    def run_once(self) -> float:
        with suppress(queue.Empty):  # one look is for all messages that have come until now
            while True:
                self._woken.get_nowait()
        self.look()
        self._interrupt(self.tombstones)
        if machine.monotonic() >= self._look_elsewhere_at:
            self._look_elsewhere_at = machine.monotonic() + self.compare_every_s
            self.look_elsewhere(self._running())
        return self.compare_every_s

    def look(self) -> None:
        """By this thread, and once before it is started."""
        changed = self._cancels.all(self._version)
        if changed is not None:
            self._version, self.tombstones = changed
        # The tombstone of a batch or of a chain is for jobs whose payloads name it.
        single = any(not tombstone.many for tombstone in self.tombstones.values())
        self._alarms.sound(MARK, jobs=single, ties=bool(self.tombstones))

    def look_elsewhere(self, deliveries: Iterable[Delivery]) -> None:
        """From any thread. Interrupts those of these jobs that another program has cancelled."""
        messages = [delivery.message for delivery in deliveries]
        jids = {message.jid for message in messages if message is not None and message.jid and encodable(message.jid)}
        shown = {message.jid for message in messages if message is not None and message.shown}
        if jids:
            self._interrupt(dict.fromkeys(self._cancels.elsewhere(jids, shown), _ELSEWHERE))

    def _interrupt(self, tombstones: Mapping[str, Tombstone]) -> None:
        if not tombstones:
            return
        for delivery in self._running():
            message = delivery.message
            if message is None:
                continue
            tombstone = of_set(message, tombstones) or of_job(message, tombstones)
            if tombstone is not None:
                cancel(message, CancelRequest(tombstone.retry), self._registry.is_interrupted_by_cancel(message))

    def wait_between(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._woken.get(timeout=seconds)

    def wake(self) -> None:
        self._woken.put(None)


def of_job(message: Message, tombstones: Mapping[str, Tombstone]) -> Tombstone | None:
    tombstone = tombstones.get(message.jid)
    return tombstone if tombstone is not None and tombstone.is_of(message.created_at) else None


def of_set(message: Message, tombstones: Mapping[str, Tombstone]) -> Tombstone | None:
    """The tombstone of a set of jobs to which the job belongs. The names of sets are never used again, and only the end
    of a set removes its tombstone. So nobody asks whether it still stands."""
    if FIELD not in message.fields:
        return None
    names = (name for feature in FEATURES for name in feature.moves().belongs_to(message.fields))
    return next((tombstones[name] for name in names if name in tombstones), None)
