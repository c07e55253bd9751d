"""Values of annotated types and their JSON: there and back, and what an error says."""

from __future__ import annotations

import enum
import json
import re
import typing
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, Union

import pytest
from typing_extensions import NotRequired

from goworkers_py.wire.conversion import converter_for
from goworkers_py.wire.hints import hints_of
from goworkers_py.wire.scalars import Unconvertible, from_json, to_json

ID = uuid.UUID("6f2c1ab4-90d0-4b6b-9a5e-52a4b0a2f3c1")
MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=timezone(timedelta(hours=1)))
DAY = date(2026, 1, 31)
OrderId = NewType("OrderId", uuid.UUID)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Line:
    sku: str
    price: Decimal


try:
    {Line("x", Decimal(1))}
except TypeError as _error:
    UNHASHABLE = str(_error)  # in the words of this Python


@dataclass
class Order:
    id: uuid.UUID
    lines: list[Line]
    day: date = None  # type: ignore[assignment]  # many write it so
    tags: set[str] = field(default_factory=set)
    parent: Order | None = None
    total: int = field(default=0, init=False)


@dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError("the number must be above 0")


@dataclass
class Special(Line):
    reduced: bool = False


class Options(TypedDict):
    until: date
    copies: NotRequired[int]


class Some(TypedDict, total=False):
    until: date


class Point(NamedTuple):
    x: int
    at: date


def there(hint: Any, value: Any) -> Any:
    """The JSON, as another program reads it."""
    return json.loads(json.dumps(to_json(converter_for(hint), value)))


def back(hint: Any, plain: Any) -> Any:
    return from_json(converter_for(hint), plain)


ROWS = [
    (datetime, MOMENT, "2026-01-31T09:30:00+01:00"),
    (datetime, datetime(2026, 1, 31, 9, 30, 0, 250_000), "2026-01-31T09:30:00.250000"),  # noqa: DTZ001
    (date, DAY, "2026-01-31"),
    (uuid.UUID, ID, str(ID)),
    (Decimal, Decimal("12.50"), "12.50"),
    (Path, Path("/srv/in"), "/srv/in"),
    (PurePosixPath, PurePosixPath("a/b"), "a/b"),
    (Colour, Colour.BLUE, "blue"),
    (Level, Level.LOW, 1),
    (set[str], {"b", "a"}, ["a", "b"]),
    (set, {2, 1}, [1, 2]),
    (frozenset[date], frozenset({DAY}), ["2026-01-31"]),
    (AbstractSet[int], {1}, [1]),
    (tuple[int, date], (1, DAY), [1, "2026-01-31"]),
    (tuple[date, ...], (DAY, DAY), ["2026-01-31", "2026-01-31"]),
    (tuple, (1, "a"), [1, "a"]),
    (Point, Point(1, DAY), [1, "2026-01-31"]),
    (list[date], [DAY], ["2026-01-31"]),
    (Sequence[date], [DAY], ["2026-01-31"]),
    (dict[str, date], {"a": DAY}, {"a": "2026-01-31"}),
    (Mapping[uuid.UUID, Decimal], {ID: Decimal(1)}, {str(ID): "1"}),
    (dict[str, list[Line]], {"a": [Line("x", Decimal(1))]}, {"a": [{"sku": "x", "price": "1"}]}),
    (Optional[date], DAY, "2026-01-31"),  # noqa: UP045
    (Optional[date], None, None),  # noqa: UP045
    (date | None, None, None),
    (Union[date, uuid.UUID], ID, str(ID)),  # noqa: UP007
    (date | str, "soon", "soon"),
    (date | int, 5, 5),
    (Decimal | int, 5, 5),
    (date | dict, {"a": 1}, {"a": 1}),
    (list[date] | list[uuid.UUID], [ID], [str(ID)]),
    (Annotated[date, "of birth"], DAY, "2026-01-31"),
    (OrderId, ID, str(ID)),
    (Line, Line("x", Decimal("1.5")), {"sku": "x", "price": "1.5"}),
    (Options, {"until": DAY}, {"until": "2026-01-31"}),
    (Options, {"until": DAY, "copies": 2, "more": [1]}, {"until": "2026-01-31", "copies": 2, "more": [1]}),
    (Some, {}, {}),
]


@pytest.mark.parametrize(("hint", "value", "plain"), ROWS, ids=map(str, range(len(ROWS))))
def test_a_value_and_its_json_are_converted_into_each_other(hint: Any, value: Any, plain: Any) -> None:
    assert there(hint, value) == plain
    found = back(hint, plain)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("hint", "value", "plain"), ROWS, ids=map(str, range(len(ROWS))))
def test_a_push_takes_the_json_of_a_value_too(hint: Any, value: Any, plain: Any) -> None:
    """The command line has nothing else, nor has code that was written before there were conversions."""
    assert there(hint, plain) == plain


@pytest.mark.parametrize(
    "hint",
    [
        int, str, float, bool, bytes, list, dict, Any, None, object, list[int], dict[str, Any], Sequence[str],
        int | None, Literal["a"], typing.TypeVar("T"), Annotated[int, "count"], NewType("Count", int),
        typing.Callable[[], int], type("Unknown", (), {}),
    ],
)  # fmt: skip
def test_plain_and_unknown_types_have_no_converter(hint: Any) -> None:
    assert converter_for(hint) is None


def test_a_dataclass_of_its_own_type_is_converted() -> None:
    order = Order(ID, [Line("x", Decimal("9.90"))], DAY, {"b", "a"}, Order(ID, []))
    plain = there(Order, order)
    assert plain["parent"] == {"id": str(ID), "lines": [], "day": None, "tags": [], "parent": None}
    assert back(Order, plain) == order


def test_a_field_with_a_default_may_be_left_out() -> None:
    assert back(Order, {"id": str(ID), "lines": []}) == Order(ID, [])


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T08:30:00Z",
        "2026-01-31T09:30:00.000+01:00",
        "2026-01-31T08:30:00.000000000Z",
        "2026-01-31T08:30:00.0z",
    ],
)
def test_times_of_ruby_and_go_are_read(text: str) -> None:
    """Ruby's Time#iso8601 and as_json of Rails, Go's RFC 3339 with nanoseconds."""
    assert back(datetime, text) == MOMENT


def test_a_fraction_of_a_second_keeps_six_digits() -> None:
    assert back(datetime, "2026-01-31T08:30:00.123456789Z").microsecond == 123_456
    assert back(datetime, "2026-01-31T08:30:00.5Z").microsecond == 500_000


@pytest.mark.parametrize("plain", [12.5, "12.5", "0.125e2"])
def test_a_decimal_is_read_from_a_number_too(plain: Any) -> None:
    assert back(Decimal, plain) == Decimal("12.5")


@pytest.mark.parametrize(
    ("hint", "plain", "told"),
    [
        (datetime, "soon", ": is 'soon', not a time in ISO 8601, such as '2026-01-31T09:30:00+00:00'"),
        (datetime, 5, ": is 5, not a time in ISO 8601, such as '2026-01-31T09:30:00+00:00'"),
        (date, "2026-01-31T09:30:00", ": is '2026-01-31T09:30:00', not a date, such as '2026-01-31'"),
        (date, MOMENT, ": is a datetime, not a date, such as '2026-01-31'"),
        (uuid.UUID, "x" * 100, f": is '{'x' * 79}..., not a UUID"),
        (Decimal, True, ": is True, not a decimal number, such as '12.50'"),
        (Decimal, "ten", ": is 'ten', not a decimal number, such as '12.50'"),
        (Path, None, ": is None, not the text of a path"),
        (Colour, "green", ": is 'green', no Colour: 'red', 'blue'"),
        (set[date], "a", ": is 'a', not a list"),
        (set[Line], [{"sku": "x", "price": 1}], f": holds what no set can hold: {UNHASHABLE}"),
        (tuple[int, date], [1], ": has 1 values, not 2"),
        (list[date], ["2026-01-31", "x"], "[1]: is 'x', not a date, such as '2026-01-31'"),
        (dict[str, date], [], ": is a list, not an object"),
        (dict[str, date], {"a": 1}, "['a']: is 1, not a date, such as '2026-01-31'"),
        (dict[uuid.UUID, int], {"a": 1}, "['a']: is 'a', not a UUID"),
        (Order, [], ": is a list, not an object of Order"),
        (Order, {"id": str(ID)}, ".lines: is missing"),
        (Order, {"id": str(ID), "lines": [], "colour": 1}, ".colour: is no field of Order"),
        (Order, {"id": str(ID), "lines": [{"sku": "x", "price": "much"}]},
         ".lines[0].price: is 'much', not a decimal number, such as '12.50'"),
        (Line, Special("x", Decimal(1)), ": is a Special, not an object of Line"),
        (Positive, {"number": 0}, ": is refused by Positive: the number must be above 0"),
        (Options, {}, ".until: is missing"),
        (Options, {"until": 1}, ".until: is 1, not a date, such as '2026-01-31'"),
        (date | None, "x", ": is 'x', not a date, such as '2026-01-31'"),
        (date | uuid.UUID, "x",
         ": is none of date, UUID: is 'x', not a date, such as '2026-01-31'; is 'x', not a UUID"),
    ],
)  # fmt: skip
def test_an_error_names_the_part_and_says_what_was_expected(hint: Any, plain: Any, told: str) -> None:
    for convert in (from_json, to_json):
        with pytest.raises(Unconvertible) as error:
            convert(converter_for(hint), plain)
        assert str(error.value) == told


def test_text_for_a_type_or_text_is_pushed_as_it_was_given() -> None:
    assert there(date | str, "20260131") == "20260131"


def rows_of_the_docs() -> list[tuple[str, str]]:
    page = (Path(__file__).parents[2] / "docs/arguments.md").read_text("utf-8")
    table = page.partition("## Types and their JSON")[2].partition("\n\n")[2].partition("\n\n")[0]
    return [(hint, found[2]) for found in re.finditer(r"^\| (`.+?) \| `(.+?)` \|", table, re.MULTILINE)
            for hint in re.findall(r"`([^`]+)`", found[1]) if hint not in ("Enum", "TypedDict")]  # fmt: skip


@pytest.mark.parametrize(("hint", "plain"), rows_of_the_docs())
def test_the_table_in_the_docs_says_the_json_of_each_type(hint: str, plain: str) -> None:
    if hint == "Order":
        pytest.skip("a model of pydantic has its own tests")
    kind = eval(hint, {**globals(), "UUID": uuid.UUID})
    converter = converter_for(kind)
    assert converter is not None
    value = converter.load(json.loads(plain))
    assert there(kind, value) == json.loads(plain)


# --- hints that cannot be resolved

if typing.TYPE_CHECKING:
    from somewhere import Missing


def half_known(day: date, other: Missing, when: datetime = MOMENT) -> Missing: ...


@dataclass
class HalfKnown:
    day: date
    other: Missing


@pytest.mark.parametrize("holder", [half_known, HalfKnown])
def test_a_hint_that_cannot_be_resolved_is_left_out_with_a_warning(
    holder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    found = hints_of(holder)
    assert found["day"] is date
    assert "other" not in found
    [line] = caplog.messages
    assert line.startswith(f"the hint Missing of 'other' in {holder.__name__} cannot be resolved")
    assert "not only under TYPE_CHECKING" in line
