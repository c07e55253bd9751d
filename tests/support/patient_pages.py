"""A fixture for tests of pages. A conftest.py imports it for every test of its folder."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a count, a search, and the answer of a process than a page waits for it."""
    monkeypatch.setattr("goworkers_py.web.site.visit.PANEL_WAIT_S", 20.0)
    monkeypatch.setattr("goworkers_py.web.views.job_finding.SEARCH_WAIT_S", 20.0)
    for place in ("cancelling.views.WAIT_S", "calls.views.WAIT_S"):
        monkeypatch.setattr(f"goworkers_py.features.{place}", 20.0)
