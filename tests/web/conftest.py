"""An application with its pages, and the browser that all tests of the pages share: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Browser, lacks_chromium
from patient_pages import patient_pages  # noqa: F401  # a fixture for every test
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application


@pytest.fixture
def client(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Its `visit` is called first in each test."""
    if reason := lacks_chromium():
        pytest.skip(reason)
    with Browser() as browser:
        yield browser
