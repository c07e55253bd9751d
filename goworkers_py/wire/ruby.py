"""Finds payloads that Ruby's JSON cannot read or cannot write again, and those whose fields Sidekiq stumbles over."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import simplejson

from goworkers_py.wire.payload import read, skip_space


def ruby_flaw(raw: bytes, fields: Mapping[str, Any] | None = None) -> str:
    """Why Ruby or Sidekiq cannot cope with a payload that `read` accepts; empty if it can: its JSON can be read and
    written again, Sidekiq's pages can show it, and its client can push it from `retry` into its queue. `fields`: the
    payload, where the caller has read it."""
    return _json_flaw(raw) or _field_flaw(read(raw) if fields is None else fields)


def _json_flaw(raw: bytes) -> str:
    if not _MAY_BE_FLAWED(raw):
        return ""
    half = next((escape[1] for escape in _ESCAPES.finditer(raw) if escape[1]), None)
    if half:
        return f"it holds half of a surrogate pair (\\{half.decode()}), which Ruby cannot read"
    text = raw.decode("utf-8")
    try:
        _scan_for_ruby(text, skip_space(text, 0))
    except OverflowError as error:
        return str(error)
    return ""


def _float_for_ruby(text: str) -> None:
    if math.isinf(float(text)):
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise OverflowError(f"it holds the number {shown}, which is infinite to Ruby")


# Half of a surrogate pair, or a number beyond all floats, needs one of these texts. Nearly no payload has one.
_MAY_BE_FLAWED = re.compile(rb"\\u[dD][89a-fA-F]|[eE]\+?[0-9]{3}|[0-9]{200}").search
# In JSON a backslash stands in strings only. The group matches half of a surrogate pair.
_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_scan_for_ruby = simplejson.JSONDecoder(parse_float=_float_for_ruby, parse_int=len).scan_once


# --- fields

_WRAPPERS = ("ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper")
_NUMBER, _LIST, _TEXT = "number", "list", "text"
_ACCEPTED: Mapping[str, tuple[type, ...]] = {_NUMBER: (int, float), _LIST: (list,), _TEXT: (str,)}
# The fields that Sidekiq 6.4 to 8.1 uses without a look at their types, where they are neither null nor false. One job
# with another type ends the whole page of retries, of dead or of busy jobs, or its own page, with an error. Sidekiq's
# client refuses some, and then the job is lost: it was taken out of its set before.
_TYPES = {
    "tags": _LIST, "queue": _TEXT, "retry_count": _NUMBER, "retry_for": _NUMBER, "created_at": _NUMBER,
    "enqueued_at": _NUMBER, "failed_at": _NUMBER, "retried_at": _NUMBER,
}  # fmt: skip


def _field_flaw(fields: Mapping[str, Any]) -> str:
    for name, kind in _TYPES.items():
        value = fields.get(name)
        if value is True or not (value is None or value is False or isinstance(value, _ACCEPTED[kind])):
            return f"its field {name} is no {kind}, over which Sidekiq stumbles"
    if "cattr" in fields and not isinstance(fields["cattr"], list | dict | None):
        return "its field cattr is neither a list nor an object, over which Sidekiq stumbles"
    args = fields.get("args")
    if not isinstance(args, list | None):
        return "its field args is no list, which Sidekiq's client refuses"
    if fields.get("encrypt") not in (None, False) and not args:
        return "it has the field encrypt and no arguments, over which Sidekiq stumbles"
    if fields.get("class") in _WRAPPERS and not _shows_wrapped(args or (), fields.get("wrapped")):
        return "its arguments are none of ActiveJob, over which Sidekiq stumbles"
    return ""


def _shows_wrapped(args: Sequence[Any], wrapped: Any) -> bool:
    """Whether Sidekiq's pages can show the job of ActiveJob in these arguments."""
    if not args:
        return False
    if wrapped in (None, False):
        return True
    inner = args[0].get("arguments") if isinstance(args[0], dict) else None
    if wrapped == "ActionMailer::MailDeliveryJob":
        return isinstance(inner, list) and len(inner) > 3 and isinstance(inner[3], dict)
    return isinstance(inner, list)
