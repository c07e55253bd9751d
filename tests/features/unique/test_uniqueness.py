from __future__ import annotations

import hashlib
from typing import Any

import pytest
import simplejson
from hypothesis import given
from hypothesis import strategies as st

from goworkers_py.features.unique.uniqueness import DIGITS, Uniqueness

SIMPLE = st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False))
ARGS = st.lists(st.one_of(SIMPLE, st.lists(SIMPLE), st.dictionaries(st.text(), SIMPLE)))


class Kind(str):
    """A text that is written as another text."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"


def named_by_json(args: list[Any]) -> str:
    text = simplejson.dumps([args], sort_keys=True, separators=(",", ":"))
    return f"Sync:{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


@given(ARGS)
def test_a_lock_is_named_after_the_json_of_the_arguments(args: list[Any]) -> None:
    assert Uniqueness("Sync", 60).name(args, {}) == named_by_json(args)


@pytest.mark.parametrize("args", [[], [7], [-7, "abc"], [True], ["a b"], ['"'], ["é"], [10**30], [1.5], [Kind("a")]])
def test_a_lock_of_few_plain_arguments_has_the_same_name(args: list[Any]) -> None:
    assert Uniqueness("Sync", 60).name(args, {}) == named_by_json(args)


def test_the_name_of_a_lock_of_numbers_and_names_asks_no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goworkers_py.features.unique.uniqueness._canonical", None)
    assert Uniqueness("Sync", 60).name([7, "abc"], {}) == named_by_json([7, "abc"])
