"""Commands as the bytes that go to Redis."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any

import hiredis

Argument = str | bytes | int | float

# Longer arguments are sent without a copy.
LARGE = 16_384


def packed(commands: Sequence[Sequence[Any]]) -> Iterable[bytes]:
    # `length_hint` is 0 for numbers.
    if max([max(map(length_hint, command)) for command in commands], default=0) > LARGE:
        return _in_pieces(commands)
    # hiredis is called directly, because redis-py looks at each argument twice.
    return [b"".join([hiredis.pack_command(tuple(command)) for command in commands])]


def _in_pieces(commands: Sequence[Sequence[Any]]) -> Iterator[bytes]:
    """Yields large payloads without a copy: one copy would take longer than the rest of the exchange."""
    small: list[bytes] = []
    for command in commands:
        small.append(b"*%d\r\n" % len(command))
        for argument in command:
            if type(argument) is bytes and len(argument) > LARGE:
                yield b"%b$%d\r\n" % (b"".join(small), len(argument))
                yield argument
                small = [b"\r\n"]
            else:
                small.append(hiredis.pack_command((argument,)).partition(b"\r\n")[2])
    yield b"".join(small)


def packed_numbers(numbers: Sequence[int]) -> bytes:
    """Two bytes for each, see lua/fragments/row_numbers.lua."""
    return struct.pack(f">{len(numbers)}H", *numbers)
