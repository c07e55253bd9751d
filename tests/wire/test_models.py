"""Models of pydantic, where it is installed."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from goworkers_py.wire.conversion import converter_for
from goworkers_py.wire.scalars import Unconvertible, from_json, to_json

pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed (extra `pydantic`)")


class Line(pydantic.BaseModel):  # type: ignore[name-defined,misc]
    price: Decimal
    day: date = pydantic.Field(alias="onDay")


class Strict(pydantic.BaseModel):  # type: ignore[name-defined,misc]
    model_config = pydantic.ConfigDict(strict=True)
    day: date


class Order(pydantic.BaseModel):  # type: ignore[name-defined,misc]
    lines: list[Line]
    notes: dict[str, Any] = pydantic.Field(default_factory=dict)


DAY = date(2026, 1, 31)
PLAIN = {"lines": [{"price": "1.50", "onDay": "2026-01-31"}], "notes": {}}


def test_a_model_is_written_and_read_by_its_own_rules() -> None:
    order = Order(lines=[Line(price=Decimal("1.50"), onDay=DAY)])
    plain = json.loads(json.dumps(to_json(converter_for(list[Order]), [order])))
    assert plain == [PLAIN]
    assert from_json(converter_for(list[Order]), plain) == [order]
    assert to_json(converter_for(Order), PLAIN) == PLAIN


def test_a_strict_model_reads_its_json() -> None:
    assert from_json(converter_for(Strict), {"day": "2026-01-31"}) == Strict(day=DAY)


def test_an_error_has_the_path_that_pydantic_tells() -> None:
    for convert in (from_json, to_json):
        with pytest.raises(Unconvertible) as error:
            convert(converter_for(Order), {"lines": [{"price": "much", "onDay": "2026-01-31"}]})
        assert error.value.path == ".lines[0].price"
        with pytest.raises(Unconvertible, match=r"^\.lines\[0\]\.price: .*; and 1 more$"):
            convert(converter_for(Order), {"lines": [{"price": "much"}]})
