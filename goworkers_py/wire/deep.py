"""Reads payloads that only their depth makes unreadable, so that batch and chain of such a job hear of its death."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire import payload

# Every Python reads as many levels, and goes over them by recursion. From 3.14 on it reads ten thousands of them, but
# code in Python that recurses is still ended at a thousand.
MOST_LEVELS = 500


def fields_of(raw: bytes) -> dict[str, Any]:
    """The fields of a job that has at most MOST_LEVELS; none for bytes that are unreadable for another reason."""
    try:
        return payload.read(raw)
    except UnreadablePayload as error:
        if str(error) != payload.TOO_DEEP:
            return {}
    with suppress(ValueError, RecursionError):
        fields = simplejson.loads(raw)
        return fields if isinstance(fields, dict) and not payload.nested_deeper(fields, MOST_LEVELS) else {}
    return {}
