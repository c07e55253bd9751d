"""The browser that all tests of the pages share: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Browser, lacks_chromium


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a count than a page waits for it."""
    monkeypatch.setattr("goworkers_py.web.site.visit.PANEL_WAIT_S", 20.0)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Its `visit` is called first in each test."""
    if reason := lacks_chromium():
        pytest.skip(reason)
    with Browser() as browser:
        yield browser
