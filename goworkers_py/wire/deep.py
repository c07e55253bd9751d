"""Reads payloads that only their depth makes unreadable, so that batch and chain of such a job hear of its death."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire import payload


def fields_of(raw: bytes) -> dict[str, Any]:
    """The fields of a job, nested however deep; none for bytes that are no JSON object."""
    with suppress(UnreadablePayload):
        return payload.read(raw)
    with suppress(ValueError, RecursionError):
        fields = simplejson.loads(raw)
        if isinstance(fields, dict):
            return fields
    return {}
