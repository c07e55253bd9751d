"""Times on the command line."""

from __future__ import annotations

import datetime
import re
import time
from contextlib import suppress

import click

HOW = "2h (ago), +2h (from now), 2026-11-23T10:00 (in UTC) or epoch seconds"

_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
LONGEST_SPAN_S = 1e9
_SPAN = re.compile(r"([+-]?)(\d+(?:\.\d+)?)(s|m|min|h|d)").fullmatch


def time_of(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The callback of an option for a time. Returns epoch seconds."""
    if value is None:
        return None
    if found := _SPAN(value):
        sign = 1 if found[1] == "+" else -1
        return time.time() + sign * float(found[2]) * _UNITS_S[found[3]]
    with suppress(ValueError):
        return float(value)
    with suppress(ValueError):
        at = datetime.datetime.fromisoformat(value.removesuffix("Z"))
        return (at if at.tzinfo is not None else at.replace(tzinfo=datetime.timezone.utc)).timestamp()
    raise click.BadParameter(f"{value!r} is no time; give {HOW}")


def span_of(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The callback of an option for a length of time. Returns seconds."""
    if value is None:
        return None
    found = _SPAN(value)
    with suppress(ValueError):
        seconds = float(found[2]) * _UNITS_S[found[3]] if found and not found[1] else float(value)
        if 0 <= seconds <= LONGEST_SPAN_S:
            return seconds
    raise click.BadParameter(f"{value!r} is no length of time; give 5m, 2h, 1d or seconds")
