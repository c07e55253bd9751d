"""A whole daemon on the memory broker, with no server at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import Changed, Place
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.job_state import JobState

ADDRESS = "memory://daemon"
RETRIES = Place(JobState.RETRY)


@contextmanager
def program(**options: Any) -> Iterator[App]:
    with own_app(ADDRESS, QueueConfig("q", concurrency=3), **options) as app:
        yield app


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    forget(ADDRESS)


def test_jobs_run_and_publish_jobs_that_run() -> None:
    ran = []
    with program() as app:

        @app.job("Add", queue="q")
        def add(one: int, other: int) -> None:
            ran.append((one, other))
            if other:
                add.enqueue(one, 0)

        for number in range(200):
            add.enqueue(number, 1)
        add.enqueue_in(0.2, "later", 0)
        with working(app):
            assert eventually(lambda: len(ran) == 401)
        assert {one for one, _ in ran} == {*range(200), "later"}
        assert app.broker.admin.stats().processed == 401


def test_a_job_that_fails_is_retried_or_dead() -> None:
    with program(poll_interval=0.1) as app:

        @app.job("Fail", queue="q")
        def fail() -> None:
            raise RuntimeError("always")

        fail.enqueue()
        fail.set(retry=0).enqueue()
        with working(app):
            assert eventually(lambda: (app.inspector.stats().retries, app.inspector.stats().dead) == (1, 1))
            assert list(app.inspector.retry(RETRIES, Filter())) == [(1, Changed(done=1))]
            assert eventually(lambda: app.inspector.stats().processed == 3)
        stats = app.inspector.stats()
        assert (stats.failed, stats.retries, stats.dead, stats.in_progress) == (3, 1, 1, 0)


def test_jobs_that_one_program_leaves_are_run_by_another_program_in_the_process() -> None:
    begun, ended, let_go = threading.Event(), [], threading.Event()

    def job_in(app: App) -> Any:
        @app.job("Slow", queue="q")
        def slow(number: int) -> None:
            begun.set()
            let_go.wait(40)
            ended.append(number)

        return slow

    with program(timeout=0) as first:
        slow = job_in(first)
        for number in range(9):
            slow.enqueue(number)
        first.start()
        assert begun.wait(20)
        quitting = threading.Thread(target=first.quit)
        quitting.start()
        quitting.join(20)
        stats = first.broker.admin.stats()
        assert (stats.in_progress, stats.processes) == (0, 0)
        assert [queue.size for queue in stats.queues] == [9]
        let_go.set()
    with program() as second:
        job_in(second)
        with working(second):
            assert eventually(lambda: second.broker.admin.stats().processed == 9)
    assert {*ended} == {*range(9)}
