"""Sorts the rows of a table by one of its columns.

A view declares the columns of its table beside it, takes their parameter, and gives its rows to `sorted`. The macro
`th` of the templates writes the header of a column as a link, which gives that parameter: the order is a part of the
address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import Param

T = TypeVar("T")

SORT = "sort"  # the parameter
DOWN = "-"  # before the name of a column: the largest first

Key = Callable[[Any], Any]  # the value of a row. All values of a column have one type, or are None


class Columns:
    """The columns of one table, by the names that the parameter takes."""

    def __init__(self, *fields: str, **keys: Key) -> None:
        """`fields` are columns whose values are fields of the rows; `keys` tell the values of others."""
        self._keys: Mapping[str, Key] = {name: partial(_field, name) for name in fields} | keys

    @property
    def param(self) -> Param:
        return param_of(self)

    @property
    def choices(self) -> list[str]:
        return [*self._keys, *(f"{DOWN}{name}" for name in self._keys)]

    def sorted(self, rows: Iterable[T], chosen: str) -> list[T]:
        """`chosen` is what the parameter said; as they came when it is empty. Rows of the same value stay as they came,
        and rows without a value are last in both directions."""
        if not chosen:
            return list(rows)
        name = chosen.removeprefix(DOWN)
        if name not in self._keys:
            raise bad_request(f"{SORT}: this table has the columns {', '.join(self._keys)}, and not {name!r}")
        keyed = [(_comparable(self._keys[name](row)), row) for row in rows]
        known = [pair for pair in keyed if pair[0] is not None]
        known.sort(key=lambda pair: pair[0], reverse=chosen.startswith(DOWN))
        return [row for _, row in known] + [row for value, row in keyed if value is None]


def param_of(*tables: Columns) -> Param:
    """The parameter of a page that shows one of these tables."""
    choices = dict.fromkeys(choice for table in tables for choice in table.choices)
    return Param(SORT, f"a column to sort by; `{DOWN}` before it: the largest first", default="", choices=list(choices))


def _field(name: str, row: Any) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def _comparable(value: Any) -> Any:
    if value is None or value == "" or value != value:  # a time may be no number
        return None
    return value.casefold() if isinstance(value, str) else value
