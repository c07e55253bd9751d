"""The browser that all tests of the pages share: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Browser, lacks_chromium
from page_fixtures import client, patient_pages, scene  # noqa: F401


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Its `visit` is called first in each test."""
    if reason := lacks_chromium():
        pytest.skip(reason)
    with Browser() as browser:
        yield browser
