"""The times and delays that a program gives to a push: numbers, datetimes or timedeltas."""

from __future__ import annotations

import datetime
from typing import Any

from goworkers_py.core.errors import ArgumentError

Delay = float | datetime.timedelta
Moment = float | datetime.datetime

_ANY_TIME_S = 1e12  # a larger number was meant as milliseconds


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_ANY_TIME_S <= value <= _ANY_TIME_S


def moment(at: Moment) -> float:
    """The time in epoch seconds. A datetime without a time zone is local time, as Python reads it: to refuse it would
    break `datetime.now() + timedelta(hours=1)`, which is right."""
    seconds = at.timestamp() if isinstance(at, datetime.datetime) else at
    if not is_number(seconds):
        raise ArgumentError(f"a time must be epoch seconds or a datetime, is {at!r}")
    return float(seconds)


def _seconds(delay: Delay) -> float:
    return delay.total_seconds() if isinstance(delay, datetime.timedelta) else delay


def is_delay(value: Any) -> bool:
    return is_number(_seconds(value)) and _seconds(value) > 0


def after(delay: Delay, now: float) -> float:
    seconds = _seconds(delay)
    if not is_number(seconds):
        raise ArgumentError(f"a delay must be seconds or a timedelta, is {delay!r}")
    return now + seconds
