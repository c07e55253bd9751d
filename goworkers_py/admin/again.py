"""Makes a new job from one that a broker holds, with its class and options, and its arguments or others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps, new_jid
from goworkers_py.wire.needs import FIELD, KWARGS, field_of, without_member
from goworkers_py.wire.payload import is_name
from goworkers_py.wire.stored_job import StoredJob

# The history of a job, and its ties to others: its batch in Sidekiq Pro, its lock of sidekiq-unique-jobs.
_OF_THE_FIRST = (
    "at", "enqueued_at", "failed_at", "retried_at", "retry_count", "error_class", "error_message", "error_backtrace",
    "discarded_at", "bid", "lock_digest",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Again:
    """The changes to the first job; None: no change."""

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    queue: str | None = None
    at: float | None = None

    def push(self, job: StoredJob, now: float, timestamps: Timestamps) -> Push:
        inner = job if job.original is None else StoredJob(job.original)
        message = inner.message
        if message is None:
            raise ArgumentError(f"jid {job.jid}: its payload is not a job")
        queue = self.queue or job.queue or message.get("queue")
        if not is_name(queue):
            raise ArgumentError(f"jid {job.jid}: {queue!r} is not a queue's name")
        written, later = timestamps.write(now), self.at if self.at is not None and self.at > now else None
        changes = {"queue": queue, "jid": new_jid(), "created_at": written}
        changes |= {} if later is not None else {"enqueued_at": written}
        has_others = self.args is not None or self.kwargs is not None
        changes |= _without_ties(message, _of_arguments() if has_others else ())
        for feature in FEATURES:
            changes |= feature.copies().changes(message, now)
        changes |= _other_arguments(message, self.args, self.kwargs)
        raw = payload.splice(inner.payload, changes, drop=[name for name in _OF_THE_FIRST if name not in changes])
        fields = payload.read(raw)
        ties = tuple(tie for feature in FEATURES for tie in feature.copies().ties(fields))
        return Push(queue, raw, later, ties=ties)


def _of_arguments() -> list[str]:
    """The members of the payload's field `pyworkers` that were made from the arguments of the job."""
    return [member for feature in FEATURES for member in feature.members_of_arguments]


def _other_arguments(message: Message, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if args is not None:
        payload.check_plain(list(args), "args")
        if "wrapped" in message:
            raise ArgumentError("args: those of a job of ActiveJob are inside of an object that only Rails can write")
        changes["args"] = list(args)
    if kwargs is not None:
        payload.check_plain(dict(kwargs), "kwargs")
        changes["kwargs"] = dict(kwargs)
        own = message.get(FIELD)
        needs = own.get("needs", ()) if isinstance(own, dict) else ()
        changes[FIELD] = field_of({*needs, KWARGS})
    return changes


def _without_ties(message: Message, of_key: Collection[str]) -> dict[str, Any]:
    """`of_key`: the ties whose key other arguments may change."""
    kept = own = message.get(FIELD)
    for member in (member for feature in FEATURES for member in feature.members_of_one_job):
        kept = without_member(kept, member)
    if isinstance(kept, dict) and not kept.keys().isdisjoint(of_key):
        kept = {name: value for name, value in kept.items() if name not in of_key}
    return {} if kept is own else {FIELD: kept}
