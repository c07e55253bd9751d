"""Cancels in the test modes."""

from __future__ import annotations

import pytest
from apps import without_server

from goworkers_py.api.app import App
from goworkers_py.testing.sandbox import Sandbox


@pytest.fixture
def app() -> App:
    return without_server()


def test_a_cancelled_job_does_not_run(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []
    job = app.job("J")(ran.append)
    first, second = str(job.enqueue(1)), str(job.enqueue(2))
    assert app.cancel(first) == "cancelled"
    sandbox.run_all()
    assert ran == [2]
    assert app.cancel(second, timeout=0.01) == "not found"
