"""Output for people: aligned columns, times in words, no control characters."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

import click
import simplejson

from goworkers_py.core.escaping import one_line
from goworkers_py.wire.message import Message

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


class TextTable:
    """Aligned columns, as wide as the first rows need. A header that ends in > marks a column of numbers.

    On a terminal, lines are cut at its width; in a pipe they are whole.
    """

    def __init__(self, *headers: str) -> None:
        self._headers = [header.rstrip(">") for header in headers]
        self._right = [header.endswith(">") for header in headers]
        self._widths: list[int] = []

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        """Prints the rows, and the headers before the first ones."""
        for line in self.lines(rows):
            click.echo(cut(line, shutil.get_terminal_size().columns) if sys.stdout.isatty() else line)

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        clean = [[printable(cell) for cell in row] for row in rows]
        if not self._widths and clean:
            self._widths = [max(map(len, column)) for column in zip(self._headers, *clean, strict=True)]
            clean.insert(0, self._headers)
        return [self._line(row) for row in clean]

    def _line(self, row: Sequence[str]) -> str:
        cells = zip(row, self._widths, self._right, strict=True)
        return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells).rstrip()


def cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def printable(text: str) -> str:
    """Escapes control characters: a class or an error message may hold any, and a terminal would obey them."""
    return one_line(text).replace("\t", " ")


def duration(seconds: float) -> str:
    for size, unit in _UNITS:
        if round(seconds) >= size:
            count = seconds / size
            return f"{count:.0f} {unit}" if count < 1e6 else f"{count:.0e} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def exact_duration(seconds: float) -> str:
    """Not rounded: for a setting."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds and seconds % size == 0), (1, "s"))
    return f"{seconds / size:g} {unit}"


def when(at: float | None) -> str:
    if at is None:
        return "-"
    if math.isinf(at):
        return str(at)  # Redis takes an infinite score, which is not a time
    ahead = at - time.time()
    return f"in {duration(ahead)}" if ahead > 0 else f"{duration(-ahead)} ago"


def clock_time(at: float | None) -> str:
    """The date and time in UTC, and how long ago."""
    try:
        return "-" if at is None else f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(at))} UTC ({when(at)})"
    except (OverflowError, ValueError, OSError):
        return str(at)  # outside the years of the calendar


def arguments(message: Message) -> str:
    """`[42] {"pdf": true}`: the arguments, and the keyword arguments of a job that has some."""
    texts = [as_text(message.args), *([as_text(message.kwargs)] if message.kwargs else [])]
    return " ".join(texts)


def as_text(value: Any) -> str:
    try:
        return simplejson.dumps(value, ensure_ascii=False, allow_nan=True)  # Python reads 1e400 as infinite
    except ValueError:
        return "(a number with too many digits to show)"
