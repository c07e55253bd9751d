"""Times as people write them: on the command line, in a field of a page, in a query."""

from __future__ import annotations

import datetime
import re
from contextlib import suppress

from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError

HOW = "2h (ago), +2h (from now), 2026-11-23T10:00 (in UTC) or epoch seconds"
HOW_LONG = "5m, 2h, 1d or seconds"

LONGEST_SPAN_S = 1e9
_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]+)?)(s|m|min|h|d)").fullmatch


def spoken_time(text: str) -> float:
    """`spoken_time("2h")`, in epoch seconds. Raises ArgumentError for a text that is none."""
    if found := _SPAN(text):
        sign = 1 if found[1] == "+" else -1
        return machine.time() + sign * float(found[2]) * _UNITS_S[found[3]]
    with suppress(ValueError):
        return _number(text)
    with suppress(ValueError):
        at = datetime.datetime.fromisoformat(text.removesuffix("Z"))
        return (at if at.tzinfo is not None else at.replace(tzinfo=datetime.timezone.utc)).timestamp()
    raise ArgumentError(f"{text!r} is no time; give {HOW}")


def spoken_span(text: str) -> float:
    """`spoken_span("5m")`, in seconds. Raises ArgumentError for a text that is none."""
    found = _SPAN(text)
    with suppress(ValueError):
        seconds = float(found[2]) * _UNITS_S[found[3]] if found and not found[1] else _number(text)
        if 0 <= seconds <= LONGEST_SPAN_S:
            return seconds
    raise ArgumentError(f"{text!r} is no length of time; give {HOW_LONG}")


def _number(text: str) -> float:
    """Not as Python's own code writes numbers, with underscores and the digits of all scripts."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return float(text)
