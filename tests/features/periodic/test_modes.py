"""Periodic jobs in the test modes."""

from __future__ import annotations

import datetime
import time

import pytest

from goworkers_py import testing
from goworkers_py.api.app import App


@pytest.fixture
def app() -> App:
    app = App()
    app.configure(broker="memory://test_modes_periodic")
    return app


def test_travelling_pushes_the_periodic_jobs_of_each_slot_in_between(app: App) -> None:
    ran: list[str] = []

    @app.periodic(every=1_800, args=lambda slot: [slot.isoformat()])
    @app.job
    def often(slot: str) -> None:
        ran.append(slot)

    with testing.fake(app):
        testing.travel_to(datetime.datetime(2030, 1, 1, 0, 10, tzinfo=datetime.timezone.utc))
        testing.travel(3_600)
        testing.assert_not_enqueued(often)
        testing.travel(3_600, periodic=True)
        testing.assert_enqueued(often, "2030-01-01T01:30:00+00:00")
        testing.assert_enqueued(often, count=2)
        testing.run_all()
        testing.travel(600, periodic=True)
        testing.assert_enqueued(often, count=2)
    assert ran == ["2030-01-01T01:30:00+00:00", "2030-01-01T02:00:00+00:00"]


def test_more_slots_than_one_look_fires_are_all_pushed(app: App) -> None:
    @app.periodic(every=1)
    @app.job
    def tick() -> None: ...

    began = time.time()
    with testing.fake(app):
        testing.travel(2_500, periodic=True)
        assert 2_500 <= len(testing.jobs(tick)) <= 2_501 + time.time() - began


def test_inline_runs_them_at_once(app: App) -> None:
    ran: list[int] = []

    @app.periodic(every=60, args=[7])
    @app.job
    def tick(number: int) -> None:
        ran.append(number)

    with testing.inline(app):
        testing.travel(60, periodic=True)
    assert ran == [7]
