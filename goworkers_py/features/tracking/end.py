"""The record of a tracked job after each outcome and each move of the job, see `features.tracking.record`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.config.options import Config
from goworkers_py.core.effect import KEPT_S, Effect, PushJobs
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import (
    NOT_SETTLED,
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Joined,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
    SettledOutcome,
)
from goworkers_py.features.parts import Moves
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.tracking.record import (
    ENDED_S,
    RETAIN,
    TRACK,
    job_in,
    live_s,
    retain_in,
    says_tracked,
    tracked_of,
)
from goworkers_py.features.tracking.tracked_run import Also, TrackedRun, nothing
from goworkers_py.policy.registry import Registry
from goworkers_py.wire import payload
from goworkers_py.wire.failure import error_class, error_text
from goworkers_py.wire.message import Message

# Of an error's text in a record. The payload of a failed job has more of it.
LONGEST_ERROR = 1_000

Fields = tuple[tuple[str, str | bytes], ...]


class Tracking:
    def __init__(self, registry: Registry, config: Config, wall: Callable[[], float]) -> None:
        self._registry = registry
        self._dead_life_s = max(1, int(config.dead_timeout))
        self._most_result_bytes = config.result_max_bytes
        self._wall = wall

    def begin(self, message: Message, changed: Callable[[], None], also: Also | None = None) -> TrackedRun | None:
        """None for a job that is not tracked. `changed` is called when the job tells its progress. With `also` the job
        is tracked whatever its options say, see `TrackedRun`."""
        fields = message.fields
        options = self._registry.options_for(message)
        retain = fields.get(RETAIN, options.get(RETAIN))
        retain_s = 0 if retain is None else retain_in(retain)
        said = fields.get(TRACK) is True or (retain_s > 0 and RETAIN in fields)
        if not (said or also or retain_s or (options.get(TRACK) and TRACK not in fields)):
            return None
        job = tracked_of(fields)
        return None if job is None else TrackedRun(job, retain_s, said, changed, also or nothing)

    def recovered(self, found: FoundJob, error: BaseException | None) -> tuple[Effect, ...]:
        """The effects of taking a job from a dead process; `error`: it is buried, because it killed its processes."""
        raw, queue = found.payload, found.queue
        if error is None:
            return left_behind(raw, queue, found.owner)
        job = job_in(raw)
        if job is None:
            return ()
        kind = error_class(error)
        fields = (("error_class", kind), ("error_message", error_text(error)[:LONGEST_ERROR]))
        return (NoteState(job, "dead", kind, self._dead_life_s, fields, only_known=True),)

    def noted(self, message: Message, run: TrackedRun, outcome: Outcome) -> Outcome:
        """The outcome, with the effect that writes it into the record."""
        if run.progress is None and type(outcome) is Done and not outcome.effects:  # nearly every run
            fields = self._result(run, outcome.result) if run.retain_s else ()
            note = NoteState(run.job, "completed", "", run.retain_s or ENDED_S, fields)
            return Done(effects=(note,), result=outcome.result)
        if isinstance(outcome, NOT_SETTLED):
            return outcome
        note = self._note(message, run, outcome)
        if run.progress is not None:
            note = note._replace(fields=(*note.fields, ("progress", run.progress)))
        outcome = outcome if run.said else _saying(run, outcome)
        return dataclasses.replace(outcome, effects=(*outcome.effects, note))

    def _note(self, message: Message, run: TrackedRun, outcome: SettledOutcome) -> NoteState:
        now, in_queue = self._wall(), (("queue", message.queue),)
        match outcome:
            case Retry(at):
                return _noted(
                    run, "retry", _class_of(message), live_s(at, now), (("due", repr(at)), *_failure(message))
                )
            case Reschedule(at):
                return _noted(run, "scheduled", "", live_s(at, now), (("due", repr(at)),))
            case Park(line):
                return _noted(run, "waiting", f"line {line}", KEPT_S, in_queue)
            case Joined():
                return _noted(run, "grouped", "", KEPT_S, (*in_queue, ("group", outcome.group)))
            case Requeue():
                return _noted(run, "waiting", "given back", KEPT_S, in_queue)
            case Done() | Dead() | Discard() | Cancelled() | Expired():
                return self._note_of_end(message, run, outcome)

    def _note_of_end(
        self, message: Message, run: TrackedRun, outcome: Done | Dead | Discard | Cancelled | Expired
    ) -> NoteState:
        kept_s = run.retain_s or ENDED_S
        match outcome:
            case Dead():
                life_s = max(self._dead_life_s, kept_s)
                return _noted(run, "dead", _class_of(message), life_s, _failure(message))
            case Discard():
                # In no set: it has no time there.
                return _noted(run, "dead", "discarded", kept_s, (("due", ""), *_failure(message)))
            case Cancelled():
                return _noted(run, "cancelled", "", kept_s)
            case Expired():
                return _noted(run, "expired", "", kept_s)
            case Done():
                return _noted(run, "completed", "", kept_s, self._result(run, outcome.result))

    def _result(self, run: TrackedRun, result: object) -> Fields:
        if not run.retain_s:
            return ()
        try:
            result = list(result) if isinstance(result, tuple) else result
            payload.check_plain(result, "the result")
            written = payload.encode(result).encode()
        except Exception as error:  # whatever it is (another thread changes the value, say): the job has completed
            return (("lost", error_text(error)[:LONGEST_ERROR]),)
        if len(written) > self._most_result_bytes:
            most = f"{self._most_result_bytes:,}"
            return (("lost", f"the result has {len(written):,} bytes, and result_max_bytes allows {most}"),)
        return (("result", written),)


def _saying(run: TrackedRun, outcome: Outcome) -> Outcome:
    """Only the code of the job says that it is tracked. When its payload is rewritten, the payload says it too, for
    others who move the job."""
    says = {RETAIN: run.retain_s} if run.retain_s else {TRACK: True}
    if isinstance(outcome, Joined):
        return dataclasses.replace(outcome, effects=tuple(_member_saying(effect, says) for effect in outcome.effects))
    if not isinstance(outcome, Retry | Dead | Reschedule | Requeue | Park) or outcome.payload is None:
        return outcome
    return dataclasses.replace(outcome, payload=payload.splice(outcome.payload, says))


def _member_saying(effect: Effect, says: Mapping[str, Any]) -> Effect:
    if not isinstance(effect, PushJobs):
        return effect
    pushes = (dataclasses.replace(push, payload=payload.splice(push.payload, says)) for push in effect.pushes)
    return dataclasses.replace(effect, pushes=tuple(pushes))


def _noted(run: TrackedRun, state: StateWord, reason: str, life_s: int, fields: Fields = ()) -> NoteState:
    return NoteState(run.job, state, reason, life_s, fields)


def _failure(message: Message) -> Fields:
    kind, text = message.failure
    return (("error_class", kind), ("error_message", text[:LONGEST_ERROR])) if kind else ()


def _class_of(message: Message) -> str:
    kind, _ = message.failure
    return kind


def given_back(run: TrackedRun, queue: str) -> tuple[Effect, ...]:
    """The effects of giving back a job whose run did not begin, or did not end in time."""
    return (_noted(run, "waiting", "not finished here", KEPT_S, (("queue", queue),)),)


def left_behind(raw: bytes, queue: str, owner: str) -> tuple[Effect, ...]:
    """The effect of taking a job from a process that leaves or has died, which may have begun it. Only jobs with a
    record have one, but for every job with a jid it is asked: the code of its class may say that it is tracked."""
    job = job_in(raw)
    if job is None:
        return ()
    fields: Fields = (("queue", queue),)
    return (NoteState(job, "waiting", f"recovered from {owner}", KEPT_S, fields, only_known=True),)


def ended_without_run(fields: Mapping[str, Any], state: StateWord, reason: str) -> Iterator[Effect]:
    if says_tracked(fields) and (job := tracked_of(fields)) is not None:
        yield NoteState(job, state, reason, retain_in(fields.get(RETAIN)) or ENDED_S)


MOVES = Moves(left_behind=left_behind, ended_without_run=ended_without_run)
