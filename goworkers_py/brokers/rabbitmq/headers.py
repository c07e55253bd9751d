"""Reads the headers of a message as other programs have written them.

pika reads them too. But it makes a whole number of 1.5, and it gives up the connection at a time after the year 9999,
which is what a program sends that writes milliseconds, or at a NaN. RabbitMQ would deliver that message again and
again, and no other message of the queue would be read.
"""

from __future__ import annotations

import struct
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from goworkers_py.wire.properties import UNREADABLE

# The kinds of values of one size, as RabbitMQ writes them: the format of `struct`.
_OF_ONE_SIZE = {
    b"t": ">?", b"b": ">b", b"B": ">B", b"s": ">h", b"U": ">h", b"u": ">H", b"I": ">i", b"i": ">I", b"l": ">q",
    b"L": ">q", b"f": ">f", b"d": ">d", b"T": ">Q", b"D": ">Bi",
}  # fmt: skip
# A table or an array within another is one level. A job can carry so many: Ruby's JSON reads 100.
MOST_LEVELS = 40
_HAS_CONTENT_TYPE, _HAS_CONTENT_ENCODING, _HAS_HEADERS = 1 << 15, 1 << 14, 1 << 13


def headers_at(raw: bytes, at: int) -> tuple[int, int]:
    """Where the headers begin and end in the properties, which begin at `at`. Both are equal where there are none."""
    [flags] = struct.unpack_from(">H", raw, at)
    at += 2
    if not flags & _HAS_HEADERS:
        return at, at
    for before in (_HAS_CONTENT_TYPE, _HAS_CONTENT_ENCODING):
        if flags & before:
            at += 1 + raw[at]
    return at, at + 4 + _length(raw, at)


def read_headers(raw: bytes) -> dict[Any, Any]:
    """Headers that cannot be read are kept as they are, under one name."""
    try:
        return _table(raw, 0, MOST_LEVELS)
    except (ValueError, LookupError, struct.error):
        return {UNREADABLE: raw}


def _table(raw: bytes, at: int, levels: int) -> dict[Any, Any]:
    end = at + 4 + _length(raw, at)
    at += 4
    found = {}
    while at < end:
        after_name = at + 1 + raw[at]
        name = _text(raw[at + 1 : after_name])
        found[name], at = _value(raw, after_name, levels)
    return found


def _value(raw: bytes, at: int, levels: int) -> tuple[Any, int]:
    """The value, and where it ends. It may have so many levels."""
    kind, at = raw[at : at + 1], at + 1
    if kind in _OF_ONE_SIZE:
        form = _OF_ONE_SIZE[kind]
        return _of_one_size(kind, struct.unpack_from(form, raw, at)), at + struct.calcsize(form)
    if kind == b"V":
        return None, at
    end = at + 4 + _length(raw, at)
    if end > len(raw):
        raise ValueError("the headers end too early")
    return _of_any_size(kind, raw, at, end, levels), end


def _of_any_size(kind: bytes, raw: bytes, at: int, end: int, levels: int) -> Any:
    match kind:
        case b"S":
            return _text(raw[at + 4 : end])
        case b"x":
            return raw[at + 4 : end]
        case b"F" if levels:
            return _table(raw, at, levels - 1)
        case b"A" if levels:
            return _array(raw, at + 4, end, levels - 1)
    raise ValueError(f"nested too deep, or no kind of value: {kind!r}")


def _of_one_size(kind: bytes, numbers: tuple[Any, ...]) -> Any:
    if kind == b"D":
        decimals, number = numbers
        return Decimal(number).scaleb(-decimals)
    [value] = numbers
    if kind == b"T":
        try:
            return datetime.fromtimestamp(value, timezone.utc)
        except (ValueError, OverflowError, OSError):
            return value
    return value


def _array(raw: bytes, at: int, end: int, levels: int) -> list[Any]:
    found = []
    while at < end:
        value, at = _value(raw, at, levels)
        found.append(value)
    return found


def _length(raw: bytes, at: int) -> int:
    [length] = struct.unpack_from(">I", raw, at)
    return int(length)


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
