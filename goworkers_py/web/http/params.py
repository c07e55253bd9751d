"""The parameters of views and the fields of actions. One description reads a value, checks it and documents it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import simplejson

from goworkers_py.config.spoken_times import HOW, HOW_LONG, spoken_span, spoken_time
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.request import Values

LONGEST = 10_000  # characters of a text
MOST_WHOLE = 1_000_000_000
LARGEST = 2**53  # a larger number loses digits in JavaScript
MOST_DIGITS = 17  # of it, with a sign; int() refuses some thousand

# As int() reads more: underscores, spaces, the digits of all scripts.
_DECIMAL = re.compile(r"-?[0-9]+").fullmatch
_YES = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError("must be a text")
    if len(value) > LONGEST:
        raise ArgumentError(f"must have at most {LONGEST:,} characters")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ArgumentError("must be a whole number")
    if isinstance(value, str) and not _DECIMAL(value):
        raise ArgumentError(f"must be a whole number, is {value[:40]!r}")
    if (isinstance(value, str) and len(value) > MOST_DIGITS) or abs(number := int(value)) > LARGEST:
        raise ArgumentError(f"must be a whole number, and not as large as {str(value)[:40]}")
    return number


def _yes_or_no(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _YES:
        return _YES[value.lower()]
    raise ArgumentError(f"must be yes or no, is {value!r}")


def _time(value: Any) -> float:
    at = spoken_time(str(value) if isinstance(value, int | float) else _text(value))
    if math.isnan(at):
        raise ArgumentError("must be a time, is no number")
    return at


def _span(value: Any) -> float:
    return spoken_span(str(value) if isinstance(value, int | float) else _text(value))


def _json(value: Any) -> Any:
    """A value of a JSON body as it came; the text of a form's field is read as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return simplejson.loads(value)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"must be JSON: {error}") from None


def _array(value: Any) -> list[Any]:
    if not isinstance(read := _json(value), list):
        raise ArgumentError("must be a JSON array")
    return read


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(read := _json(value), dict):
        raise ArgumentError("must be a JSON object")
    return read


@dataclass(frozen=True, slots=True)
class ParamKind:
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]  # of OpenAPI
    several: bool = False


def whole_from(least: int, most: int = MOST_WHOLE) -> ParamKind:
    """A whole number in a range."""

    def read(value: Any) -> int:
        number = _whole(value)
        if not least <= number <= most:
            raise ArgumentError(f"must be a whole number from {least} to {most:,}, is {str(value)[:40]}")
        return number

    return ParamKind(read, {"type": "integer", "minimum": least, "maximum": most})


TEXT = ParamKind(_text, {"type": "string"})
TEXTS = ParamKind(_text, {"type": "array", "items": {"type": "string"}}, several=True)
WHOLE = ParamKind(_whole, {"type": "integer"})
COUNT = whole_from(1)  # of what a page shows
YES_NO = ParamKind(_yes_or_no, {"type": "boolean"})
TIME = ParamKind(_time, {"type": ["string", "number"], "description": HOW})
SPAN = ParamKind(_span, {"type": ["string", "number"], "description": HOW_LONG})
JSON = ParamKind(_json, {})
ARRAY = ParamKind(_array, {"type": "array"})
OBJECT = ParamKind(_object, {"type": "object"})


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter without a default must be given."""

    name: str
    about: str
    kind: ParamKind = TEXT
    default: Any = None
    needed: bool = False
    choices: Sequence[str] = ()

    def read(self, given: Values) -> Any:
        """The checked value; the default where nothing, or an empty text, was given."""
        values = list(given.get(self.name, ()))
        if self.kind.several and len(values) == 1 and isinstance(values[0], list):
            values = values[0]  # of a JSON object
        values = [value for value in values if value is not None and value != ""]
        if not values:
            if self.needed:
                raise bad_request(f"{self.name} is missing: {self.about}")
            return [] if self.kind.several else self.default
        try:
            read = [self.kind.read(value) for value in (values if self.kind.several else values[-1:])]
        except ArgumentError as error:
            raise bad_request(f"{self.name}: {error}") from None
        for value in read:
            if self.choices and value not in self.choices:
                raise bad_request(f"{self.name}: must be one of {', '.join(self.choices)}, is {value!r}")
        return read if self.kind.several else read[0]


def read_all(params: Sequence[Param], given: Values) -> dict[str, Any]:
    return {param.name: param.read(given) for param in params}
