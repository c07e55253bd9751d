"""The values of job options: which fit, and how some are written into a payload."""

from __future__ import annotations

import datetime
import math
from typing import Any

from goworkers_py.config.moments import is_number
from goworkers_py.wire import payload
from goworkers_py.wire.payload import is_name as is_name  # options import it from here, too

ANY_COUNT = 1_000_000_000


def is_moment(value: object) -> bool:
    return is_number(value) or isinstance(value, datetime.datetime)


def is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= ANY_COUNT


def is_bool_or_count(value: Any) -> bool:
    return is_bool(value) or is_count(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and payload.encodable(value)


def are_names(value: Any) -> bool:
    """Refuses a single string: it is a sequence of strings too, but was meant as one name."""
    return isinstance(value, list | tuple | set | frozenset) and all(map(_is_text, value))


def in_order(names: Any) -> list[str]:
    return sorted(names) if isinstance(names, set | frozenset) else list(names)


def is_retry_in(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("discard", "kill")
    return callable(value) or (isinstance(value, int | float) and 0 < value < math.inf)


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, datetime.timedelta) else value


def in_seconds(value: Any) -> float:
    return float(_seconds(value))


def is_time_span(value: Any) -> bool:
    return is_number(_seconds(value)) and 0 < _seconds(value) <= ANY_COUNT


def is_life(value: Any) -> bool:
    return is_number(_seconds(value)) and 1 <= _seconds(value) <= ANY_COUNT


def is_life_or_false(value: Any) -> bool:
    return value is False or is_life(value)


def whole_seconds(value: Any) -> int:
    return int(_seconds(value))


def as_it_is(value: Any) -> Any:
    return value
