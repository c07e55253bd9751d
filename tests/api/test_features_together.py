"""Jobs with two features, where the features together decide how a job goes on."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import PARKED, SCHEDULED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import RetryJob


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3), poll_interval=1) as app:
        yield app


def parked(app: App) -> int:
    return app.inspector.count(PARKED)


@pytest.mark.parametrize("options", [{"unique_until": "start"}, {"on_conflict": "replace"}], ids=str)
def test_a_job_that_waits_for_a_limit_has_not_begun(app: App, options: dict[str, Any]) -> None:
    ran: list[str] = []

    wide = app.limit("wide", concurrent=2)

    @app.job("Sync", queue="q", unique_for=60, unique_by=lambda key, *_: key, limits=[wide], **options)
    def sync(key: int, text: str) -> None:
        ran.append(text)

    with working(app):
        assert eventually(lambda: app.inspector.set_limit("wide", concurrent=0))
        jid = sync.enqueue(1, "old")
        assert eventually(lambda: parked(app) == 1)
        second = sync.enqueue(1, "new")
        app.inspector.unset_limit("wide")
        assert eventually(lambda: ran)
        assert eventually(lambda: not [*app.inspector.locks()])
    assert (second, ran) == ((jid, ["new"]) if "on_conflict" in options else (None, ["old"]))


def test_a_job_expires_while_another_one_holds_its_lock(app: App) -> None:
    @app.job("Sync", queue="q", unique_for=60, on_conflict="reschedule", track=True)
    def sync(key: int) -> None: ...

    sync.enqueue_in(3600, 1)
    late = sync.set(expires_at=time.time() - 1).enqueue(1)
    assert late is not None
    list(app.inspector.retry(SCHEDULED, Filter(jids=[late])))
    with working(app):
        assert eventually(lambda: app.status(late).state == "expired")


@pytest.mark.parametrize("place", [SCHEDULED, waiting_in("q")], ids=lambda place: place.state.value)
def test_a_link_that_is_deleted_between_two_runs_frees_its_strict_limit(app: App, place: Place) -> None:
    order = app.limit("order", concurrent=1)

    @app.job("Event", queue="q", limits=[order], is_failure=lambda error: False)
    def event() -> None:
        raise RetryJob(delay=3600)

    @app.job("Steps", queue="q", limits=[order])
    def steps(*, cursor: int = 0) -> Iterator[int]:
        while True:  # until the process stops
            time.sleep(0.001)
            yield 1

    app.chain((event if place == SCHEDULED else steps).s()).enqueue()
    with working(app):
        assert eventually(lambda: [slot.holders for slot in app.inspector.slots("order")])
        assert place != SCHEDULED or eventually(lambda: app.inspector.count(SCHEDULED))
    list(app.inspector.delete(place, Filter()))
    assert app.inspector.count(place) == 0
    assert [slot.holders for slot in app.inspector.slots("order")] == []


def test_a_job_that_is_pushed_again_with_other_arguments_counts_under_their_key(app: App) -> None:
    ran: list[str] = []
    options: dict[str, Any] = {"unique_for": 60, "on_conflict": "reschedule"}

    @app.job("Event", queue="q", limits=[app.limit("order", concurrent=1, by=lambda order: order)], **options)
    def event(order: str) -> None:
        ran.append(order)

    event.enqueue("a")
    [job] = app.inspector.jobs(waiting_in("q"))
    app.inspector.pause("q")  # the job of the key `a` waits, and holds its place
    app.inspector.enqueue_again(job, args=["b"], queue="r")
    app.use(dataclasses.replace(app.config, queues=[*app.config.queues, QueueConfig(name="r")]))
    with working(app):
        assert eventually(lambda: ran)
    assert ran == ["b"]


def test_a_scheduled_member_of_a_class_that_is_tracked_by_its_code_ends(app: App) -> None:
    @app.job("Invoice", queue="q", sidekiq_status=True, group_grace=0.01)
    def invoice(number: int) -> None: ...

    @invoice.aggregate
    def first(members: list[list[Any]]) -> list[Any]:
        return members[0]

    jid = invoice.set(group="user:7").enqueue_in(0.1, 1)
    assert jid is not None
    with working(app):
        assert eventually(lambda: app.status(jid).state == "completed")
    # A worker that stands still as it lets the member join is written down as running it.
    states = [move.state for move in app.status(jid).timeline if move.state != "running"]
    assert states == ["grouped", "completed"]
