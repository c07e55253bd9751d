"""Limits in the test modes: jobs that wait run when there is room, and those of a rate when the clock travels."""

from __future__ import annotations

import pytest
from apps import without_server

from goworkers_py import testing
from goworkers_py.api.app import App


@pytest.fixture
def app() -> App:
    return without_server()


def test_strict_jobs_run_in_order(app: App) -> None:
    ran: list[int] = []

    @app.job("Event", limits=[app.limit("order", concurrent=1)])
    def event(number: int) -> None:
        ran.append(number)

    with testing.fake(app) as sandbox:
        for number in range(3):
            event.enqueue(number)
        sandbox.run_all()
    assert ran == [0, 1, 2]


def test_the_jobs_of_a_rate_run_when_the_clock_travels(app: App) -> None:
    ran: list[int] = []

    @app.job("Call", limits=[app.limit("api", rate="1/minute")])
    def call(number: int) -> None:
        ran.append(number)

    with testing.fake(app) as sandbox:
        call.enqueue_bulk([[0], [1], [2]])
        sandbox.run_all()
        assert ran == [0]
        sandbox.travel(60)
        sandbox.run_all()
        assert ran == [0, 1]
        sandbox.travel(3_600)
        sandbox.run_all()
    assert ran == [0, 1, 2]


def test_pushes_in_inline_mode_run_at_once(app: App) -> None:
    ran: list[int] = []

    @app.job("Event", limits=[app.limit("order", concurrent=1, by=lambda number: number)])
    def event(number: int) -> None:
        ran.append(number)
        if number:
            event.enqueue(number - 1)

    with testing.inline(app):
        event.enqueue(2)
    assert ran == [2, 1, 0]
