"""Reads the facts on the page of a job from its payload, in which any field may have any type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import simplejson

from goworkers_py.features import FEATURES
from goworkers_py.policy.lines import owner_of
from goworkers_py.web.site.filters import compact
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.showing import cut
from goworkers_py.web.site.trees import scalar
from goworkers_py.web.views.job_finding import FoundOnPage
from goworkers_py.wire.failure import unpack_backtrace
from goworkers_py.wire.job_record import JobRecord
from goworkers_py.wire.message import Message, epoch

MOST_FIELDS, LONGEST_FIELD = 60, 300
MOST_LINES, LONGEST_LINE, LONGEST_MESSAGE = 300, 500, 10_000
# A result of more bytes is not read for a page.
LONGEST_RESULT = 200_000

# These have a place of their own on the page.
_SHOWN = {
    "class", "wrapped", "args", "kwargs", "jid", "queue", "tags", "error_class", "error_message", "error_backtrace",
    "created_at", "enqueued_at", "failed_at", "retried_at", "retry_count",
}  # fmt: skip
_TIMES = {"scheduled": "Due", "retry": "Next try", "dead": "Died", "limited": "Waits for the limit since"}

Facts = Mapping[str, Any]


def arguments(found: FoundOnPage, hiding: Hiding) -> tuple[Any, Any]:
    """The positional arguments, those of ActiveJob unwrapped, and the keyword arguments; values to be hidden masked."""
    message = found.job.message
    if message is None or found.job.original is not None:
        return None, None
    args: Any = message.args
    if is_wrapped(message) and isinstance(args, list) and args and isinstance(args[0], dict):
        args = args[0].get("arguments", args)
    return hiding.value(args), hiding.value(message.kwargs) or None


def is_wrapped(message: Message) -> bool:
    """Whether it is a job of ActiveJob, whose arguments are inside of an object."""
    return "wrapped" in message


def unreadable_text(found: FoundOnPage, hiding: Hiding) -> str | None:
    """The text of a payload that is no job; None for a job."""
    job = found.job
    if job.message is not None and job.original is None:
        return None
    return hiding.in_place_of(job) if hiding.may_hide(job.payload) else cut(job.escaped, LONGEST_MESSAGE)


def times(found: FoundOnPage) -> list[tuple[str, float]]:
    message = found.job.message
    known = [
        ("Created", None if message is None else message.created_at),
        ("Enqueued", None if message is None else message.enqueued_at),
        ("First failed", None if message is None else message.failed_at),
        ("Last failed", None if message is None else epoch(message.get("retried_at"))),
        (_TIMES.get(found.state, "There since"), found.job.at),
        ("Runs since", found.since if found.state == "running" else None),
    ]
    if message is not None:
        known += [time for feature in FEATURES if (pages := feature.pages()) for time in pages.job_times(message)]
    return [(label, at) for label, at in known if at is not None]


def error_of(message: Message | None) -> Facts | None:
    if message is None or ("error_class" not in message and "error_message" not in message):
        return None
    packed = message.get("error_backtrace")
    lines = unpack_backtrace(packed)
    return {
        "error_class": _text(message.get("error_class")),
        "message": cut(_text(message.get("error_message")), LONGEST_MESSAGE),
        "backtrace": [cut(line, LONGEST_LINE) for line in lines[:MOST_LINES]],
        "more_lines": max(0, len(lines) - MOST_LINES),
        "unread": bool(packed) and not lines,  # in a form that cannot be read here, or too long
    }


def ties(message: Message | None, line: str) -> Facts:
    """What binds the job to others."""
    facts: dict[str, Any] = {"line": "" if owner_of(line) else line}
    for pages in (feature.pages() for feature in FEATURES):
        facts |= {} if pages is None else pages.job_facts(message, line)
    return facts


def retries(message: Message | None) -> str:
    """Says how many retries the job has, and how many of them have failed."""
    if message is None or ("retry" not in message and message.retry_count is None):
        return ""
    most, used = message.get("retry"), max(0, message.retry_count or 0)
    if most is False:
        return "none: a failure is final"
    if isinstance(most, int) and not isinstance(most, bool):
        return f"{used} of {scalar(most)} used"
    return f"{used} used"


def other_fields(message: Message | None, hiding: Hiding) -> Sequence[tuple[str, str]]:
    return list(itertools.islice(_others(message, hiding), MOST_FIELDS))


def _others(message: Message | None, hiding: Hiding) -> Iterator[tuple[str, str]]:
    of_features = [pages.shown_fields for feature in FEATURES if (pages := feature.pages()) is not None]
    shown_above = _SHOWN.union(*of_features)
    for name, value in {} if message is None else message.fields.items():
        if name not in shown_above:
            shown = hiding.value({name: value})[name]
            yield cut(name, LONGEST_FIELD), compact(shown, LONGEST_FIELD)


def result_of(record: JobRecord | None, hiding: Hiding) -> Facts | None:
    """The result of a tracked job that has one, or why it has none."""
    if record is None or (record.result is None and not record.lost):
        return None
    raw = record.result or b""
    if record.lost or len(raw) > LONGEST_RESULT:
        why = record.lost or f"it has {len(raw):,} bytes: workers.result({record.jid!r}) returns it"
        return {"value": None, "why": why}
    try:
        return {"value": hiding.value(simplejson.loads(raw)), "why": ""}
    except (ValueError, RecursionError):
        return {"value": None, "why": "it is no JSON"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else compact(value, LONGEST_MESSAGE)
