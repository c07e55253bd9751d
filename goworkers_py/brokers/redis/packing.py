"""Commands as the bytes that go to Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any

import hiredis

# Arguments that are sent without copying them.
LARGE = 16_384


def packed(commands: Sequence[Sequence[Any]]) -> Iterable[bytes]:
    # 0 for numbers, which have no length.
    if any(max(map(length_hint, command)) > LARGE for command in commands):
        return _in_pieces(commands)
    # Straight to hiredis: redis-py's own way there looks at each argument twice.
    return [b"".join(hiredis.pack_command(tuple(command)) for command in commands)]


def _in_pieces(commands: Sequence[Sequence[Any]]) -> Iterator[bytes]:
    """Large payloads as they are: each copy of them would cost more than the rest of the exchange."""
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
