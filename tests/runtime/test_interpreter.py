from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from goworkers_py.runtime.interpreter import (
    AT_START,
    GARBAGE_EVERY,
    collect_garbage_less_often,
    warn_where_unsupported,
)


@pytest.mark.parametrize(("locked", "warned"), [(True, False), (False, True)])
def test_a_build_without_the_interpreters_lock_is_warned_of(
    locked: bool, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: locked, raising=False)
    warn_where_unsupported()
    assert ("does not support yet" in caplog.text) is warned


def test_a_python_that_does_not_say_has_the_lock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    warn_where_unsupported()
    assert caplog.text == ""


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
@pytest.mark.parametrize(
    ("chosen", "then"),
    [
        pytest.param(700, GARBAGE_EVERY, id="the default"),
        pytest.param(2_000, GARBAGE_EVERY, id="the default since 3.13"),
        pytest.param(0, 0, id="never"),
        pytest.param(50_000, 50_000, id="less often"),
        pytest.param(500, 500, id="more often"),
    ],
)
def test_garbage_is_collected_less_often_where_the_program_has_not_chosen(chosen: int, then: int) -> None:
    gc.set_threshold(chosen, 7, 5)
    collect_garbage_less_often()
    assert gc.get_threshold()[:2] == (then, 7)


@pytest.mark.usefixtures("thresholds")
@pytest.mark.parametrize(("chosen", "then"), [(700, GARBAGE_EVERY), (100_000, 100_000)])
def test_a_start_collects_less_often_still_and_ends(chosen: int, then: int) -> None:
    gc.set_threshold(chosen, 7, 5)
    collect_garbage_less_often(AT_START)
    assert gc.get_threshold()[0] == (AT_START if then == GARBAGE_EVERY else chosen)
    collect_garbage_less_often()
    assert gc.get_threshold()[:2] == (then, 7)
