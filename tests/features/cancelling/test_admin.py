"""Cancels of all jobs that a filter wants, on the memory broker and on Redis."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.wire.message import Message, current_message


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=2)) as app:
        yield app


def test_all_wanted_jobs_are_cancelled_wherever_they_wait(app: App) -> None:
    names: list[str] = []
    app.on_cancel(lambda message: names.append(message.jid))
    one = app.job("J", queue="q", tags=["eu"])(lambda: None)
    other = app.job("Other", queue="q")(lambda: None)
    gone = [str(one.enqueue_in(1_000)), str(one.enqueue()), str(one.set(queue="r").enqueue())]
    kept = str(other.enqueue())
    assert app.inspector.cancel_all(Filter(tag="eu"), dry_run=True).cancelled == 3
    counts = app.inspector.cancel_all(Filter(tag="eu"))
    assert (counts.cancelled, counts.requested, counts.too_late) == (3, 0, 0)
    assert sorted(names) == sorted(gone)
    assert [job.jid for job in app.inspector.jobs(waiting_in("q"))] == [kept]
    assert app.inspector.cancel_all(Filter(tag="eu")).cancelled == 0


def test_the_timelines_of_cancelled_jobs_say_so(app: App) -> None:
    one = app.job("J", queue="q", track=True)(lambda: None)
    found = [str(one.enqueue_in(1_000)), str(one.enqueue())]
    assert app.inspector.cancel_all(Filter(job_class="J")).cancelled == 2
    assert [app.inspector.timeline(jid)[-1].reason for jid in found] == ["cancelled", "cancelled"]


def test_wanted_jobs_that_run_are_cancelled_and_the_others_go_on(app: App) -> None:
    begun, go_on, ended = threading.Semaphore(0), threading.Event(), []

    def wait(name: str) -> None:
        begun.release()
        message: Message | None = current_message()
        while not go_on.wait(0.02):
            pass
        assert message is not None
        ended.append(name)

    one = app.job("J", queue="q")(wait)
    with working(app):
        one.enqueue("a")
        one.enqueue("b")
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        counts = app.inspector.cancel_all(Filter(argument="a"), timeout=30)
        assert (counts.cancelled, counts.requested) == (1, 0)
        go_on.set()
        assert eventually(lambda: ended == ["b"])


def test_a_job_that_cannot_be_interrupted_yet_is_requested(app: App) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(30)

    one = app.job("J", queue="q", interrupt=False)(wait)
    with working(app):
        one.enqueue()
        assert begun.wait(30)
        counts = app.inspector.cancel_all(Filter(job_class="J"), timeout=0.1)
        go_on.set()
    assert (counts.cancelled, counts.requested) == (0, 1)
