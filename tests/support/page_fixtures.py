"""Fixtures for tests of pages. A conftest.py imports them for every test of its folder."""

from __future__ import annotations

import pytest
import redis as redis_py
import web_scene
from web_scene import Scene
from wsgi_client import Client

from goworkers_py.api.app import App
from goworkers_py.web import application


@pytest.fixture
def client(app: App) -> Client:
    """Asks the pages of `app`, and may do everything."""
    return Client(application(app, authorize=lambda environ, action: True))


@pytest.fixture
def scene(app: App, redis: redis_py.Redis) -> Scene:
    """Fills the empty database."""
    return web_scene.restored(web_scene.fill, app, redis)


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a count, a search, and the answer of a process than a page waits for it."""
    monkeypatch.setattr("goworkers_py.web.site.visit.PANEL_WAIT_S", 20.0)
    monkeypatch.setattr("goworkers_py.web.views.job_finding.SEARCH_WAIT_S", 20.0)
    for place in ("cancelling.views.WAIT_S", "calls.views.WAIT_S"):
        monkeypatch.setattr(f"goworkers_py.features.{place}", 20.0)
