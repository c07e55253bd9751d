"""An application with its pages, and the browser that all tests of the pages share: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apps import own_app
from chromium import Browser, lacks_chromium
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as made:
        yield made


@pytest.fixture
def client(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a count, a search, and the answer of a process than a page waits for it."""
    monkeypatch.setattr("goworkers_py.web.site.visit.PANEL_WAIT_S", 20.0)
    for place in ("job_finding.SEARCH_WAIT_S", "process_commands.WAIT_S", "running_jobs.WAIT_S"):
        monkeypatch.setattr(f"goworkers_py.web.views.{place}", 20.0)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Its `visit` is called first in each test."""
    if reason := lacks_chromium():
        pytest.skip(reason)
    with Browser() as browser:
        yield browser
