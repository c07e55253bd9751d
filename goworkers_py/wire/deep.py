"""Reads payloads that only their depth makes unreadable, so that batch and chain of such a job hear of its death."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire import payload


def fields_of(raw: bytes) -> dict[str, Any]:
    """The fields of a job, nested however deep; none for bytes that are unreadable for another reason."""
    try:
        return payload.read(raw)
    except UnreadablePayload as error:
        if str(error) != payload.TOO_DEEP:
            return {}
    with suppress(ValueError, RecursionError):
        fields = simplejson.loads(raw)
        return fields if isinstance(fields, dict) else {}
    return {}
