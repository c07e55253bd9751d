"""Encloses payloads that Ruby cannot read, as text in a job that Ruby can.

Sidekiq's pages and API answer nothing but an error for the whole dead set while it holds JSON that is no object. Text
that Ruby's JSON refuses cannot be retried there, and from `retry` Ruby would lose it. So such a payload, whole and
unchanged, becomes the argument of a job of a class that nobody has. It goes back to its queue by `pyworkers dead
retry`; a worker that runs the enclosing job itself only buries it again.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire import payload
from goworkers_py.wire.failure import error_class
from goworkers_py.wire.message import new_jid
from goworkers_py.wire.ruby import ruby_flaw

CLASS = "pyworkers.Unreadable"
FIELD = "unreadable"  # in the enclosing job: {"v": 1, "as": "text" or "base64"}
V = 1


def readable(raw: bytes, queue: str, at: float) -> bytes:
    """The payload as it may be put where Ruby reads: itself, or enclosed. `queue` is where it was found, if anywhere,
    `at` the time in epoch seconds."""
    fields: dict[str, Any] = {}
    try:
        fields = payload.read(raw)
        why = ruby_flaw(raw)
    except UnreadablePayload as error:
        why = str(error)
    return _enclosed(raw, queue, at, fields, why) if why else raw


def _enclosed(raw: bytes, queue: str, at: float, fields: Mapping[str, Any], why: str) -> bytes:
    """As far as the payload has fields, they tell of it."""

    def told(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) and payload.encodable(value) else ""

    try:
        form, argument = "text", raw.decode("utf-8")
    except UnicodeDecodeError:
        form, argument = "base64", base64.b64encode(raw).decode()
    message, backtrace = told("error_message"), told("error_backtrace")
    since = fields.get("created_at")
    shown = told("wrapped") or told("class")
    return payload.write(
        {
            "class": CLASS,
            "args": [argument if form == "text" else {form: argument}],
            "jid": told("jid") or new_jid(),
            "queue": queue or told("queue") or "default",  # Sidekiq loses what it retries without one
            **({"display_class": shown} if shown else {}),
            "retry": 0,  # whoever tries to run it buries it again
            "retry_count": 0,
            "created_at": since if isinstance(since, float) and math.isfinite(since) else at,
            "failed_at": at,
            "error_class": told("error_class") or error_class(UnreadablePayload()),
            "error_message": f"{message}; kept as text: {why}" if message else f"{why}; kept as text",
            **({"error_backtrace": backtrace} if backtrace else {}),
            FIELD: {"v": V, "as": form},
        }
    )


def original(fields: Mapping[str, Any]) -> bytes | None:
    """The payload inside of an enclosing job; None for any other job."""
    told, args = fields.get(FIELD), fields.get("args")
    if fields.get("class") != CLASS or not isinstance(told, dict) or told.get("v") != V:
        return None
    match told.get("as"), args:
        case "text", [str(text)] if payload.encodable(text):
            return text.encode("utf-8")
        case "base64", [{"base64": str(text)}]:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
    return None
