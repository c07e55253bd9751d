"""Batches in the test modes."""

from __future__ import annotations

from typing import Any

import pytest

import goworkers_py
from goworkers_py import testing
from goworkers_py.api.app import App


@pytest.fixture
def app() -> App:
    return App()


def test_a_batch_fires_its_callback_in_a_test(app: App) -> None:
    ran: list[Any] = []
    job, report = app.job("Job")(ran.append), app.job("Report")(ran.append)
    with testing.fake(app=app):
        with app.batch(on_success=report) as batch:
            job.enqueue(1)
            job.enqueue(2)
        testing.run_all()
        assert ran == [1, 2, batch.bid]
        assert batch.status().state == "ended"  # type: ignore[union-attr]


def test_jobs_of_a_batch_run_at_once_inside_of_inline(app: App) -> None:
    ran: list[Any] = []
    job, report = app.job("Job")(ran.append), app.job("Report")(ran.append)
    add = app.job("Add")(lambda one: one + 1)
    with testing.inline(app=app):
        with app.batch(on_complete=report) as batch:
            job.enqueue(1)
            assert ran == [1]
        assert ran == [1, batch.bid]
        app.chain(add.s(1), job.s(goworkers_py.PREVIOUS)).enqueue()
        assert ran == [1, batch.bid, 2]
