"""The filters of the templates: numbers, times and spans as people read them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import simplejson
from markupsafe import Markup, escape

from goworkers_py.core.byte_size import byte_size
from goworkers_py.web.site.showing import cut, visible
from goworkers_py.web.site.trees import tree

NOTHING = "–"  # noqa: RUF001  # in the place of a value that is not there
TOO_LARGE = "(too deep, or with a number of too many digits)"  # for Python to write it
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: float | None) -> str:
    """1234567 as 1,234,567."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def span(seconds: float | None) -> str:
    """90061 as `1 d 1 h`: the two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if abs(seconds) < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    left, parts = abs(round(seconds)), list[str]()
    for size, unit in _UNITS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return ("-" if seconds < 0 else "") + " ".join(parts)


def clock(at: float | None) -> str:
    """Epoch seconds as `2026-11-27 10:00:00 UTC`."""
    if at is None:
        return NOTHING
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return str(at)  # outside the years of the calendar


def ago(at: float | None) -> Markup:
    """A time relative to now, with the exact one on hover."""
    if at is None or not math.isfinite(at):
        return Markup(NOTHING)
    away = at - time.time()
    relative = f"in {span(away)}" if away >= 1 else "just now" if away > -1 else f"{span(float(round(-away)))} ago"
    try:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return escape(str(at))
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, clock(at), relative)


def compact(value: Any, most: int = 160) -> str:
    """A value as JSON in one line, cut."""
    try:
        text = simplejson.dumps(value, ensure_ascii=False, allow_nan=True, default=str)
    except (ValueError, RecursionError, TypeError):
        text = TOO_LARGE
    return cut(visible(text).replace("\n", " "), most)


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    try:
        return simplejson.dumps(value, ensure_ascii=False, allow_nan=True, indent=2, default=str)
    except (ValueError, RecursionError, TypeError):
        return TOO_LARGE


def memory(kilobytes: float | None) -> str:
    if not kilobytes:
        return NOTHING
    return f"{kilobytes / 1024:,.0f} MB"


def size(count: int | None) -> Markup:
    """A number of bytes, with the exact one on hover."""
    if count is None:
        return Markup(NOTHING)
    return Markup('<span title="{} bytes">{}</span>').format(number(count), byte_size(count))


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else NOTHING


def share(part: float | None) -> str:
    """A part of one as a percentage."""
    return NOTHING if part is None else percent(part, 1)


def with_code(text: str) -> Markup:
    """Shows text between backticks in a font for code: the doctor writes commands so."""
    parts = visible(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number, "span": span, "clock": clock, "ago": ago, "compact": compact, "pretty": pretty, "cut": cut,
    "memory": memory, "size": size, "percent": percent, "share": share, "with_code": with_code, "tree": tree,
}  # fmt: skip
