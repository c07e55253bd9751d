"""Values that are one text or number in JSON: times, UUIDs, decimals, paths, members of enums.

A converter has three methods, see `Converter`. Its errors say what the value is and what was expected.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from goworkers_py.core.values import dataclass

# Constructors of standard types, and checks of the user's own types, raise these for a wrong value.
REFUSALS = (TypeError, ValueError, ArithmeticError)

LONGEST_SHOWN = 80
_MOST_MEMBERS = 10


class Unconvertible(Exception):
    """A value does not fit its type. The path names the part of the value: `.lines[2].price`."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"{path}: {why}")
        self.why = why
        self.path = path

    def inside(self, part: str) -> Unconvertible:
        """The same error, for the value of which `part` is a part."""
        return Unconvertible(self.why, f"{part}{self.path}")


class Converter(Protocol):
    """Turns the values of one type into plain JSON and back."""

    def fits(self, value: Any) -> bool:
        """Whether the value is of the type; a value that does not fit may still be the JSON of one."""

    def dump(self, value: Any) -> Any:
        """The JSON of a value that fits."""

    def load(self, plain: Any) -> Any:
        """The value whose JSON this is."""


def to_json(converter: Converter | None, value: Any) -> Any:
    """The JSON of a value. The value may be JSON already: then it is checked, by loading it."""
    if converter is None:
        return value
    return converter.dump(value if converter.fits(value) else converter.load(value))


def from_json(converter: Converter | None, plain: Any) -> Any:
    return plain if converter is None else converter.load(plain)


def shown(value: Any) -> str:
    """The value in an error, with its type where the value is long or no text and no number."""
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    return f"a {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Scalar:
    kind: type
    of: type  # values of this type fit: `kind` may be a subclass of it
    wanted: str
    read: Callable[[Any, Any], Any]  # from the type and its JSON
    write: Callable[[Any], Any]
    accepts: tuple[type, ...] = (str,)

    def fits(self, value: Any) -> bool:
        # Each datetime is a date too, but its text is none of a date.
        return isinstance(value, self.of) and not (self.of is datetime.date and isinstance(value, datetime.datetime))

    def dump(self, value: Any) -> Any:
        return self.write(value)

    def load(self, plain: Any) -> Any:
        if type(plain) in self.accepts:
            try:
                return self.read(self.kind, plain)
            except REFUSALS:
                pass
        raise Unconvertible(f"is {shown(plain)}, not {self.wanted}")


@dataclass(frozen=True, slots=True)
class EnumMember:
    """Members of an enum, by their values."""

    kind: type[enum.Enum]

    def fits(self, value: Any) -> bool:
        return isinstance(value, self.kind)

    def dump(self, value: Any) -> Any:
        return value.value

    def load(self, plain: Any) -> Any:
        try:
            return self.kind(plain)
        except REFUSALS:
            values = [shown(member.value) for member in self.kind]
            more = ", ..." if len(values) > _MOST_MEMBERS else ""
            raise Unconvertible(
                f"is {shown(plain)}, no {self.kind.__name__}: {', '.join(values[:_MOST_MEMBERS])}{more}"
            ) from None


def _datetime(kind: Any, text: str) -> Any:
    # Python 3.10 reads neither Z nor a fraction of other than 3 or 6 digits. Ruby writes the one, Go both.
    text = _FRACTION.sub(lambda found: f".{found[1]:0<6}", text)
    return kind.fromisoformat(f"{text[:-1]}+00:00" if text[-1:].upper() == "Z" else text)


# The digits after a second, of which Python keeps six.
_FRACTION = re.compile(r"(?<=:\d\d)[.,](\d{1,6})\d*")


def scalar(kind: type) -> Converter | None:
    """The converter of a type that is one value in JSON; None for any other type."""
    if issubclass(kind, enum.Enum):
        return EnumMember(kind)
    for of, *row in _ROWS:
        if issubclass(kind, of):
            return Scalar(kind, of, *row)
    return None


def _isoformat(value: Any) -> str:
    text: str = value.isoformat()
    return text


# A type, what an error says is expected, how it is read and written, and the types of JSON that are read.
_ROWS: list[tuple[Any, ...]] = [
    (datetime.datetime, "a time in ISO 8601, such as '2026-01-31T09:30:00+00:00'", _datetime, _isoformat),
    (datetime.date, "a date, such as '2026-01-31'", lambda kind, text: kind.fromisoformat(text), _isoformat),
    (uuid.UUID, "a UUID", lambda kind, text: kind(text), str),
    (
        decimal.Decimal,
        "a decimal number, such as '12.50'",
        lambda kind, plain: kind(str(plain)),
        str,
        (str, int, float),
    ),
    (pathlib.PurePath, "the text of a path", lambda kind, text: kind(text), str),
]
