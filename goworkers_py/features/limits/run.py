"""Asks for places in the slots of its limits before a job begins. A job that has to wait is in a line after that.

The broker takes the places, or moves the job into the line, in one step. The places are freed in the step in which the
run is settled. A job that has waited in a line, or was pushed with its place, names its slots in its payload, so people
and recoveries free them too, see `features.limits.end`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from goworkers_py.config.options import Config
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import LOST, MOVED, NOT_SETTLED, REQUEUE_LAST, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.features.in_process import InProcess, WorkerProcess
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.end import of_slots
from goworkers_py.features.limits.limit import Begins, GivenAway, SlotTie, Undeclared, Waits
from goworkers_py.features.limits.limiting import NAME, Limiting, limits_of_classes
from goworkers_py.features.limits.options import LimitConfig
from goworkers_py.features.limits.payload import slots_of, with_slots
from goworkers_py.features.limits.service import LimitReleaser
from goworkers_py.links.chain import Run
from goworkers_py.policy.consequences import move_of
from goworkers_py.runtime.running.rungs import Rung, refused
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


class LimitedRuns(InProcess):
    def __init__(self, process: WorkerProcess, limits: Limits) -> None:
        plan, shared = process.plan, process.shared
        self._limits = limits
        self._limiting = Limiting(plan.registry, plan.config)
        self._of_any_class = bool(limits_of_classes(plan.registry))
        self._releaser = LimitReleaser(process.broker, self._limiting, shared.outage)
        self._with_effects = process.ended
        self._wall = shared.clock.wall
        self._running: Counter[str] = Counter()  # by the name of the limit; under the lock
        self._lock = lock_outside_runs()

    def rungs(self) -> Mapping[str, Rung]:
        return {"limits": Rung(self._run, frozenset((NAME,)), waits=True, of_stand_ins=False)}

    def services(self) -> Sequence[BrokerService]:
        return (self._releaser,) if self._of_any_class else ()

    def settled(self, effects: Sequence[Effect]) -> None:
        if any(type(effect) is LeaveSlot for effect in effects):
            self._releaser.look_soon()

    def look(self) -> None:
        if self._of_any_class:
            self._releaser.run_once()

    def owner_died(self) -> None:
        self._releaser.look_at_all()

    def take(self, config: Config) -> Iterator[str]:
        old, new = self._limiting.sections, config.sections_of(LimitConfig)
        if old != new:
            self._releaser.set_limits(new)
            for limit in (*old, *new):
                yield from (f"[limit:{limit.name}]{name}" for name in ("", " concurrent", " rate", " burst"))

    def running(self) -> Mapping[str, int]:
        """How many jobs of each limit run in this process."""
        with self._lock:
            return dict(self._running)

    def _run(self, run: Run, message: Message) -> Outcome:
        limits = self._limiting.of(message)
        if not limits or not message.jid:
            return run(message)
        ties = self._limiting.ties(message, limits)
        wish = self._wish(message, ties)
        # Before the first place is taken: whatever ends this run from here on, its end frees them, see `ended`.
        message.delivery.of_features = {**message.delivery.of_features, NAME: ties}
        try:
            answer = self._begin(wish)
        except BrokerUnavailable:
            return REQUEUE_LAST  # the reply may be lost after the place was taken
        except BrokerRefused as error:
            return refused(message, f"its limits cannot be read: {error}", self._wall())
        match answer:
            case Waits(line):
                log.debug("waits in line %s", line)
                self._releaser.look_soon()
                return MOVED
            case GivenAway():
                return LOST
        with self._counted(ties):
            return run(message)

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

    def _begin(self, wish: SlotWish) -> Begins | Waits | GivenAway | Undeclared:
        answer = self._limits.begin(wish)
        if isinstance(answer, Undeclared):
            self._limits.declare(self._limiting.settings())
            answer = self._limits.begin(wish)
        if isinstance(answer, Undeclared):
            raise BrokerRefused("the broker does not keep what was declared")
        return answer

    def _wish(self, message: Message, ties: Sequence[SlotTie]) -> SlotWish:
        slots = [tie.slot for tie in ties]
        raw, known = message.raw, slots_of(message.fields)
        parked = raw if known == ties else with_slots(raw, message.fields, ties)
        parking = self._with_effects(message, Park(slots[0].line, parked))
        # Its places are kept or freed by the broker itself.
        effects = [effect for effect in parking.effects if not isinstance(effect, LeaveSlot | HoldSlot)]
        if isinstance(parking, Park) and parking.payload is not None:
            parked = parking.payload
        queues = [message.queue, *self._limiting.queues(slots)]
        return SlotWish(slots, message.jid, message.delivery, parked, queues, tuple(effects))

    def ended(self, message: Message, outcome: Outcome) -> Outcome:
        """With the effects on the places that the payload does not name. Those that it names follow from it."""
        ties: Sequence[SlotTie] = message.delivery.of_features.get(NAME, ())
        known = slots_of(message.fields) if ties else ()
        new = [tie for tie in ties if tie not in known]
        if not new or isinstance(outcome, NOT_SETTLED):
            return outcome
        if isinstance(outcome, Retry | Reschedule | Requeue) and any(tie.holds for tie in new):  # people may delete it
            raw = message.raw if outcome.payload is None else outcome.payload
            outcome = dataclasses.replace(outcome, payload=with_slots(raw, payload.read(raw), ties))
        queues = message.queue, *self._limiting.queues(tie.slot for tie in new)
        effects: tuple[Effect, ...] = (*of_slots(new, move_of(message.jid, outcome, self._wall()), queues),)
        return dataclasses.replace(outcome, effects=(*outcome.effects, *effects))
