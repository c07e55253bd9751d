"""The arguments of a job and the parameters of its function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from goworkers_py.core.errors import ArgumentError, ArgumentsDoNotFit
from goworkers_py.policy.arguments import Arguments

DAY = date(2026, 1, 31)
TEXT = "2026-01-31"


def report(day: date, *days: date, until: date | None = None, **others: Decimal) -> None: ...


def plain(number: int, text: str = "", *rest: Any, options: dict[str, Any] | None = None) -> None: ...


class Report:
    def __call__(self, day: date) -> None: ...

    def at(self, day: date) -> None: ...


class Made:
    def __init__(self, day: date) -> None: ...


@functools.wraps(report)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


async def later(day: date) -> None: ...


def of(function: Callable[..., Any]) -> Arguments:
    return Arguments("J", function)


def test_arguments_are_converted_by_their_places_and_names() -> None:
    args, kwargs = [DAY, DAY, DAY], {"until": DAY, "price": Decimal("1.5")}
    written = [TEXT, TEXT, TEXT], {"until": TEXT, "price": "1.5"}
    assert of(report).dump(args, kwargs) == written
    assert of(report).load(*written) == (args, kwargs)


@pytest.mark.parametrize(
    "function",
    [wrapped, later, Report(), Report().at, Made, functools.partial(wrapped), functools.partial(report, until=DAY)],
)
def test_the_hints_are_those_of_the_function_that_the_user_wrote(function: Callable[..., Any]) -> None:
    assert of(function).load([TEXT], {}) == ([DAY], {})


def test_arguments_that_a_partial_binds_are_not_counted() -> None:
    arguments = of(functools.partial(lambda text, day: None, "x"))
    assert arguments.load([TEXT], {}) == ([TEXT], {})

    def two(text: str, day: date) -> None: ...

    assert of(functools.partial(two, "x")).load([TEXT], {}) == ([DAY], {})


@pytest.mark.parametrize("function", [plain, print, max, lambda *anything: None])
def test_a_function_without_such_hints_is_known_as_plain_after_the_first_look(function: Callable[..., Any]) -> None:
    arguments = of(function)
    args, kwargs = [1], {"sep": 2}
    assert arguments.load(args, kwargs)[0] is args
    assert arguments.plain
    assert not of(report).plain


def test_a_default_of_none_means_that_none_is_allowed() -> None:
    def run(day: date = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert of(run).load([None], {"day": None}) == ([None], {"day": None})


def test_an_error_names_the_job_and_the_part() -> None:
    with pytest.raises(ArgumentsDoNotFit, match=r"^J: days\[1\]: is 'x', not a date"):
        of(report).load([TEXT, TEXT, "x"], {})
    with pytest.raises(ArgumentsDoNotFit, match=r"^J: price: is 'x', not a decimal"):
        of(report).load([TEXT], {"price": "x"})
    with pytest.raises(ArgumentError, match=r"^J: day: is 'x', not a date") as error:
        of(report).dump(["x"], {})
    assert type(error.value) is ArgumentError, "a job that pushes another one with wrong arguments is not unfit itself"


def test_arguments_too_many_pass_and_are_refused_by_the_call() -> None:
    def run(day: date) -> None: ...

    assert of(run).load([TEXT, 2], {"more": 1}) == ([DAY, 2], {"more": 1})
    with pytest.raises(ArgumentError, match="J cannot be called with these arguments: too many positional arguments"):
        of(run).check([TEXT, 2], {})


class TypeAliasType:
    """`type Tree = list[Tree]` of Python 3.12."""

    @property
    def __value__(self) -> Any:
        return list[self]  # type: ignore[valid-type]


def test_a_hint_that_contains_itself_is_plain_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def run(tree: int) -> None: ...

    run.__annotations__["tree"] = TypeAliasType()
    assert of(run).load([["x"]], {}) == ([["x"]], {})
    assert "is not understood, so its values pass as plain JSON" in caplog.text


def by_place_only(a: int, /, b: int, c: int = 0) -> None: ...
def with_rest(a: int, *rest: int) -> None: ...
def with_named(a: int, *, named: int) -> None: ...
def with_named_default(a: int = 0, *, named: int = 0) -> None: ...
def with_others(**others: int) -> None: ...
def nothing() -> None: ...


@pytest.mark.parametrize(
    "function", [by_place_only, with_rest, with_named, with_named_default, with_others, nothing, max, Report()]
)
@pytest.mark.parametrize("count", range(5))
def test_a_push_by_place_is_refused_exactly_where_python_refuses_the_call(
    function: Callable[..., Any], count: int
) -> None:
    try:
        inspect.signature(function).bind(*range(count))
        fits = True
    except TypeError:
        fits = False
    except ValueError:  # a builtin without a signature
        fits = True
    try:
        Arguments("Job", function).check(range(count), {})
        assert fits
    except ArgumentError:
        assert not fits


def test_a_push_by_place_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = Arguments("Job", plain)
    arguments.check([1], {})
    monkeypatch.setattr(inspect.Signature, "bind", None)
    arguments.check([1, "text"], {})
