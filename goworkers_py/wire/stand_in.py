"""A small payload in the place of a large one, for lists: its fields without those that are large.

Only fields of the job itself are taken, never those of an object in its arguments: names of these may be hidden. From
the beginning, fields are read one after the other up to the large one. From the end they are read behind each comma,
and count if they are an object up to the last character. An inner object ends before. A quote that ends a text cannot
begin one here: then the last bracket would be in a text without an end.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import simplejson

from goworkers_py.wire.payload import skip_space

HEAD, TAIL = 4_000, 16_000  # bytes of the beginning and of the end
MOST_TRIES, MOST_READ = 500, 200_000  # commas that are tried, and characters read behind them
_scan = simplejson.JSONDecoder().scan_once
_MEMBER = re.compile(r',\s*"')


def stand_in(head: bytes, tail: bytes, size: int) -> bytes:
    """`size`: bytes of the whole payload."""
    fields = _first(head.decode("utf-8", "replace")) | _last(tail.decode("utf-8", "replace"))
    fields.setdefault("args", [f"(too large to show here: {size:,} bytes)"])
    return simplejson.dumps(fields, ignore_nan=True).encode()


def stand_in_for(payload: bytes) -> bytes:
    return stand_in(payload[:HEAD], payload[-TAIL:], len(payload))


def _first(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    at, sign = skip_space(text, 0), "{"
    try:
        while text[at] == sign:
            name, at = _scan(text, skip_space(text, at + 1))
            at = skip_space(text, at)
            if not isinstance(name, str) or text[at] != ":":
                break
            value, at = _scan(text, skip_space(text, at + 1))
            at, sign = skip_space(text, at), ","
            if text[at] == sign:  # else a number may go on
                fields[name] = value
    except (ValueError, IndexError, StopIteration, RecursionError):
        pass  # the text is cut here
    return fields


def _last(text: str) -> dict[str, Any]:
    read = 0
    for comma in itertools.islice(_MEMBER.finditer(text), MOST_TRIES):
        if read > MOST_READ:
            break
        rest = "{" + text[comma.start() + 1 :]
        try:
            value, end = _scan(rest, 0)
        except simplejson.JSONDecodeError as error:
            read += error.pos
        except (ValueError, StopIteration, RecursionError):
            read += len(rest)
        else:
            read += end
            if isinstance(value, dict) and skip_space(rest, end) == len(rest):
                return value
    return {}
