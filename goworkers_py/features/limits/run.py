"""Asks for places in the slots of its limits before a job begins. A job that has to wait is in a line after that.

The broker takes the places, or moves the job into the line, in one step. The places are freed in the step in which the
run is settled. A job that has waited in a line, or was pushed with its place, names its slots in its payload, so people
and recoveries free them too, see `policy.consequences`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import LOST, MOVED, REQUEUE_LAST, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.features.limits.contract import SlotWish
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import Begins, LimitSpec, Lost, SlotTie, Undeclared, Waits
from goworkers_py.features.limits.limiting import Limiting
from goworkers_py.features.limits.payload import slots_of, with_slots
from goworkers_py.features.tracking.tracking import Tracking
from goworkers_py.links.chain import Run
from goworkers_py.policy.consequences import change_of, consequences, of_slots
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

# When the broker refuses to tell about a limit, the job is tried again after so long.
REFUSED_S = 60.0


class LimitBegin:
    """Shared by all workers of a process."""

    def __init__(self, broker: Broker, limiting: Limiting, tracking: Tracking, wall: Callable[[], float]) -> None:
        self._broker = broker
        self._limits = broker.limits if Capability.LIMITS in broker.capabilities else None
        self._limiting = limiting
        self._tracking = tracking
        self._wall = wall
        self.on_line: Callable[[], None] = lambda: None  # called when a line is to be looked at
        self._running: Counter[str] = Counter()  # by the name of the limit; under the lock
        self._lock = lock_outside_runs()

    @property
    def of_any_class(self) -> bool:
        return self._limits is not None and self._limiting.of_any_class

    def declare(self) -> None:
        if self._limits is not None:
            self._limits.declare(self._limiting.settings())

    def of(self, message: Message) -> Sequence[LimitSpec]:
        """The limits that the class of the job has."""
        return self._limiting.of(message) if self._limits is not None and message.jid else ()

    def run(self, message: Message, delivery: Delivery, chain: Run, limits: Sequence[LimitSpec]) -> Outcome:
        ties = self._limiting.ties(message, limits)
        try:
            answer = self._begin(self._wish(message, delivery, ties))
        except BrokerUnavailable:
            return self._ended(message, REQUEUE_LAST, ties)  # the reply may be lost after the place was taken
        except BrokerRefused as error:
            log.error("not begun, tried again in %g s: its limits cannot be read: %s", REFUSED_S, error)
            raw = payload.splice(message.raw, {"queue": message.queue}, drop=("at",))
            return self._ended(message, Reschedule(self._wall() + REFUSED_S, raw), ties)
        match answer:
            case Waits(line):
                log.debug("waits in line %s", line)
                self.on_line()
                return MOVED
            case Lost():
                return LOST
        with self._counted(ties):
            outcome = chain(message)
        return self._ended(message, outcome, ties)

    def running(self) -> dict[str, int]:
        """How many jobs of each limit run in this process. Safe to call from any thread."""
        with self._lock:
            return dict(self._running)

    @contextmanager
    def _counted(self, ties: Sequence[SlotTie]) -> Iterator[None]:
        names = [tie.slot.limit for tie in ties]
        with self._lock:
            self._running.update(names)
        try:
            yield
        finally:
            with self._lock:
                self._running.subtract(names)

    def _begin(self, wish: SlotWish) -> Begins | Waits | Lost | Undeclared:
        assert self._limits is not None
        answer = self._limits.begin(wish)
        if isinstance(answer, Undeclared):
            self.declare()
            answer = self._limits.begin(wish)
        if isinstance(answer, Undeclared):
            raise BrokerRefused("the broker does not keep what was declared")
        return answer

    def _wish(self, message: Message, delivery: Delivery, ties: Sequence[SlotTie]) -> SlotWish:
        slots = [tie.slot for tie in ties]
        raw, known = message.raw, slots_of(message.fields)
        parked = raw if known == ties else with_slots(raw, message.fields, ties)
        parking = self._parking(message, Park(slots[0].line, parked))
        queues = [message.queue, *self._limiting.queues(slots)]
        return SlotWish(slots, message.jid, delivery, parking.payload or parked, queues, parking.effects)

    def _parking(self, message: Message, parking: Park) -> Park:
        """With the effects of parking the job, but for those on its places, which the broker keeps or frees itself."""
        if message.tracked is not None:
            parking = self._tracking.noted(message, message.tracked, parking)  # type: ignore[assignment]
        ties = consequences(message.fields, parking, self._wall())
        others = [effect for effect in ties if not isinstance(effect, LeaveSlot | HoldSlot)]
        return dataclasses.replace(parking, effects=(*parking.effects, *others))

    def _ended(self, message: Message, outcome: Outcome, ties: Sequence[SlotTie]) -> Outcome:
        """With the effects on the places that the payload does not name. Those that it names follow from it."""
        if outcome is LOST:
            return outcome
        known = slots_of(message.fields)
        new = [tie for tie in ties if tie not in known]
        if not new:
            return outcome
        if isinstance(outcome, Retry | Reschedule | Requeue) and any(tie.holds for tie in new):  # people may delete it
            raw = message.raw if outcome.payload is None else outcome.payload
            outcome = dataclasses.replace(outcome, payload=with_slots(raw, payload.read(raw), ties))
        queues = message.queue, *self._limiting.queues(tie.slot for tie in new)
        effects: tuple[Effect, ...] = (*of_slots(new, change_of(message.jid, outcome, self._wall()), queues),)
        return dataclasses.replace(outcome, effects=(*outcome.effects, *effects))
