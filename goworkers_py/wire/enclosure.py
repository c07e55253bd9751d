"""Encloses payloads that Ruby cannot read, as text in a job that Ruby can.

While the dead set holds JSON that is not an object, Sidekiq's pages and API answer only an error for the whole set.
Sidekiq's pages cannot retry a job that Ruby's JSON refuses, and Ruby would lose such a job from the set `retry`. So the
payload, whole and unchanged, becomes the argument of a job whose class no program has. `pyworkers dead retry` puts the
payload back into its queue. A worker that fetches the enclosing job buries it again.
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
from goworkers_py.wire.needs import is_version
from goworkers_py.wire.ruby import ruby_flaw

CLASS = "pyworkers.Unreadable"
FIELD = "unreadable"  # in the enclosing job: {"v": 1, "as": "text" or "base64"}
V = 1


def readable(raw: bytes, queue: str, at: float) -> bytes:
    """A payload that Ruby can read: `raw` itself, or `raw` enclosed. `queue` is the queue where it was found, or empty.
    `at` is the time in epoch seconds."""
    fields: dict[str, Any] = {}
    try:
        fields = payload.read(raw)
        why = ruby_flaw(raw, fields)
    except UnreadablePayload as error:
        why = str(error)
    return _enclosed(raw, queue, at, fields, why) if why else raw


def _enclosed(raw: bytes, queue: str, at: float, fields: Mapping[str, Any], why: str) -> bytes:
    """The enclosing job takes its jid, class, error and the like from `fields`, where these have them."""

    def text_of(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) and payload.encodable(value) else ""

    try:
        form, argument = "text", raw.decode("utf-8")
    except UnicodeDecodeError:
        form, argument = "base64", base64.b64encode(raw).decode()
    message, backtrace = text_of("error_message"), text_of("error_backtrace")
    since = fields.get("created_at")
    shown = text_of("wrapped") or text_of("class")
    return payload.write(
        {
            "class": CLASS,
            "args": [argument if form == "text" else {form: argument}],
            "jid": text_of("jid") or new_jid(),
            "queue": queue or text_of("queue") or "default",  # Sidekiq loses a job that it retries without a queue
            **({"display_class": shown} if shown else {}),
            "retry": 0,  # a worker of any program that runs the enclosing job buries it again
            "retry_count": 0,
            "created_at": since if isinstance(since, float) and math.isfinite(since) else at,
            "failed_at": at,
            "error_class": text_of("error_class") or error_class(UnreadablePayload()),
            "error_message": f"{message}; kept as text: {why}" if message else f"{why}; kept as text",
            **({"error_backtrace": backtrace} if backtrace else {}),
            FIELD: {"v": V, "as": form},
        }
    )


def original(fields: Mapping[str, Any]) -> bytes | None:
    """The payload inside an enclosing job; None for any other job."""
    record, args = fields.get(FIELD), fields.get("args")
    if fields.get("class") != CLASS or not isinstance(record, dict) or not is_version(record.get("v"), V):
        return None
    match record.get("as"), args:
        case "text", [str(text)] if payload.encodable(text):
            return text.encode("utf-8")
        case "base64", [{"base64": str(text)}]:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
    return None
