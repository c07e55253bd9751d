"""The thread that flushes groups: when it looks, and what the aggregation job is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import forget, state_at
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import DueGroups, Group
from goworkers_py.features.groups.service import AT_ONCE, LOOK_EVERY_S, GroupFlusher
from goworkers_py.runtime.outage import Outage
from goworkers_py.wire import payload


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    app.configure(broker="memory://flusher")
    yield app
    app.use(app.config)
    forget("memory://flusher")


def declared(app: App, **options: Any) -> None:
    @app.job("Invoice", queue="billing", **options)
    def invoice(*numbers: int) -> None: ...

    @invoice.aggregate
    def one(members: list[list[Any]]) -> list[Any]:
        return []


def flusher(app: App) -> GroupFlusher:
    return GroupFlusher(app.broker, app.runner.plan(), time.time, Outage("memory"))


class Refusing:
    """Groups are due. All but the last are refused."""

    def __init__(self, bad: int) -> None:
        self.names = ["bad"] * bad + ["good"]
        self.flushed: list[str] = []

    def due(self, job_class: str, limit: int, passed: int = 0) -> DueGroups:
        names = self.names[passed : passed + limit]
        return DueGroups([Group("q", job_class, name) for name in names], 0.0 if names[-1:] == ["bad"] else None)

    def flush(self, group: Group, into: Group, raw: bytes) -> int:
        if group.name == "bad":
            raise BrokerRefused("no")
        self.flushed.append(group.name)
        return 1


def test_a_process_without_an_aggregator_never_looks(app: App) -> None:
    assert flusher(app).run_once() == math.inf


def test_it_looks_once_a_second_and_earlier_for_a_group_that_is_due_before(app: App) -> None:
    state_at("memory://flusher").clock = lambda: 1_764_086_400.0  # no group is due while a busy machine stands still
    declared(app)
    assert flusher(app).run_once() == LOOK_EVERY_S
    app.enqueue_with_options("billing", "Invoice", [1], EnqueueOptions(group="user:7", group_grace=0.5))
    assert 0 < flusher(app).run_once() <= 0.5


@pytest.mark.parametrize("bad", [1, AT_ONCE, 3 * AT_ONCE])
def test_groups_that_are_refused_do_not_hold_up_the_others(app: App, bad: int) -> None:
    declared(app)
    groups = Refusing(bad)
    app.broker._parts = {Groups: groups}
    assert flusher(app).run_once() > 0
    assert groups.flushed == ["good"]


def test_the_aggregation_job_has_the_options_of_its_class_that_are_for_runs(app: App) -> None:
    declared(app, retry=3, tags=["money"], dead=False, expires_in=5, unique_for=60, track=True)
    spec = app.registry.job("Invoice")
    assert spec is not None
    fields = payload.read(flusher(app).job_of(Group("slow", "Invoice", "user:7", "set-1"), spec))
    assert fields["pyworkers"] == {
        "v": 1,
        "needs": ["group"],
        "group": {"name": "user:7", "queue": "slow", "set": "set-1"},
    }
    assert (fields["retry"], fields["tags"], fields["dead"], fields["queue"]) == (3, ["money"], True, "slow")
    assert fields["args"] == ["user:7"]
    assert {"expires_at", "track", "retain"} & set(fields) == set()
