"""Puts ended jobs into their places, applies their effects and counts them."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch, Unwritable, refuse_late
from goworkers_py.brokers.memory.parts import ApplyEffects
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import (
    ID_LIFE_S,
    Effect,
    PostJobs,
    PushJobs,
    StoreValue,
)
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import (
    DONE,
    FAILED,
    NOT_SETTLED,
    UNCOUNTED,
    Dead,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
)
from goworkers_py.wire.payload import encodable

log = logging.getLogger(__name__)


class Endings:
    def __init__(self, state: State, dead_limits: DeadLimits) -> None:
        self._state = state
        self._dead_limits = dead_limits
        of_parts: Mapping[type[Any], Callable[[Any], object]] = state.effects
        self._effects: Mapping[type[Any], Callable[[Any], object]] = {
            **of_parts,
            PushJobs: self._push_jobs,
            PostJobs: self._post,
            **{kind: partial(self._with_others, apply) for kind, apply in state.enclosing.items()},
            StoreValue: lambda effect: state.values.put((effect.kind, effect.jid), effect.value, effect.life_s),
        }

    def settle(
        self, settler: str, batch: SettlementBatch, settle_one: Callable[[Delivery, Outcome], Settled]
    ) -> Sequence[Settled]:
        """Calls `settle_one` for each delivery, under the lock. The last batch of the settler is not done again."""
        if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished):
            raise ValueError("no broker settles an outcome of NOT_SETTLED")
        with self._state.lock:
            last, results = self._state.settled.get(settler, (batch.number - 1, ()))
            refuse_late(batch.number, last)
            if last != batch.number:
                results = [
                    Unwritable(flaw)
                    if outcome is not DONE and (flaw := _flaw(outcome))
                    else settle_one(delivery, outcome)
                    for delivery, outcome in batch.finished
                ]
                self._state.remember(settler, batch.number, results)
            return results

    # --- under the lock

    def put_into_place(self, delivery: Delivery, outcome: Outcome) -> None:
        """Puts the job into the place of its outcome, unless it is requeued, and counts it."""
        state = self._state
        match outcome:
            case Retry(at, payload):
                state.put_timed(JobState.RETRY, at, payload)
            case Reschedule(at, payload):
                state.put_timed(JobState.SCHEDULED, at, payload)
            case Dead(payload):
                state.bury(payload, self._dead_limits)
            case Park(line, payload):
                state.park(line, delivery.queue, delivery.payload if payload is None else payload)
        if not isinstance(outcome, UNCOUNTED):
            state.count(failed=isinstance(outcome, FAILED))

    def apply(self, effects: Iterable[Effect]) -> None:
        """The job is in its place already: an effect that raises is left out alone."""
        for effect in effects:
            try:
                self._effects[type(effect)](effect)
            except Exception:
                log.exception("job %s: an effect of its end failed, and is left out: %s", effect.jid, effect.kind)

    def _push_jobs(self, effect: PushJobs) -> None:
        for push in effect.pushes:
            self._state.add(push)

    def _post(self, effect: PostJobs) -> None:
        for push in effect.pushes:
            self._state.post(effect.to, push)

    def _with_others(self, apply: Callable[[Any, ApplyEffects], object], effect: Effect) -> None:
        apply(effect, self.apply)

    def apply_once(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            name = effect.kind, effect.jid
            if effect.repeatable:
                self.apply([effect])
            elif self._state.applied.get(name) is None:
                self._state.applied.put(name, True, ID_LIFE_S)
                self.apply([effect])


def _flaw(outcome: Outcome) -> str:
    """Why a server could not keep this outcome; empty for one that any broker settles."""
    payload, at = getattr(outcome, "payload", b""), getattr(outcome, "at", 0.0)
    if not isinstance(payload, bytes) and not (payload is None and isinstance(outcome, Requeue | Park)):
        return f"its payload is {type(payload).__name__}, not bytes"
    if not isinstance(at, int | float):
        return f"its time is {type(at).__name__}, no number"
    return _flaw_in([at, getattr(outcome, "line", ""), *outcome.effects])


def _flaw_in(value: Any) -> str:
    if isinstance(value, str):
        return "" if encodable(value) else "a text holds half of a surrogate pair"
    if value is None or isinstance(value, bytes | int):
        return ""
    if isinstance(value, float):
        return "a number is not finite" if math.isnan(value) else ""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if not isinstance(value, tuple | list):
        return f"a {type(value).__name__} is no part of an effect"
    return next(filter(None, map(_flaw_in, value)), "")
