from __future__ import annotations

import sys

import pytest

from goworkers_py.runtime.interpreter import warn_where_unsupported


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
