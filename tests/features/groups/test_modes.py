"""Groups in the test modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from goworkers_py import testing
from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.features.groups.end import AT_ONCE

ran: list[tuple[int, ...]] = []


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    app.configure(broker="memory://")
    yield app
    app.use(app.config)


@pytest.fixture
def invoice(app: App) -> Job[..., None]:
    ran.clear()

    @app.job("Invoice", queue="billing", group_max_size=3)
    def invoice(*numbers: int) -> None:
        ran.append(numbers)

    @invoice.aggregate
    def one_invoice(members: list[list[Any]]) -> list[Any]:
        return [number for args in members for number in args]

    return invoice


def test_a_group_is_aggregated_when_it_is_due(app: App, invoice: Job[..., None]) -> None:
    with testing.fake(app) as sandbox:
        invoice.set(group="user:7").enqueue_bulk([[1], [2]])
        sandbox.assert_enqueued(invoice, count=2)
        assert [job.args for job in sandbox.jobs(invoice)] == [[1], [2]]
        assert sandbox.run_all() == []
        sandbox.travel(60)
        runs = sandbox.run_all()
        assert [run.outcome for run in runs] == ["done", "done"]
        assert ran == [(1, 2)]
        sandbox.assert_enqueued(invoice, 1, 2, queue="billing", count=1)
        assert sandbox.jobs() == []


def test_a_full_group_is_aggregated_at_the_next_run(app: App, invoice: Job[..., None]) -> None:
    with testing.fake(app) as sandbox:
        invoice.set(group="user:7").enqueue_bulk([[number] for number in range(4)])
        sandbox.run_all()
        assert ran == [(0, 1, 2)]


def test_inline_aggregates_each_push_at_once(app: App, invoice: Job[..., None]) -> None:
    with testing.inline(app) as sandbox:
        invoice.set(group="user:7").enqueue(1)
        assert ran == [(1,)]
        invoice.set(group="user:7").enqueue_in(3600, 2)
        assert ran == [(1,), (2,)]
        assert sandbox.jobs() == []


def test_a_scheduled_member_is_aggregated_after_its_time(app: App, invoice: Job[..., None]) -> None:
    with testing.fake(app) as sandbox:
        invoice.set(group="user:7").enqueue_in(100, 1)
        sandbox.travel(100)
        assert [run.outcome for run in sandbox.run_all()] == ["joined"]
        sandbox.assert_enqueued(invoice, count=1)
        sandbox.travel(60)
        sandbox.run_all()
        assert ran == [(1,)]


def test_an_aggregator_that_fails_raises_in_the_test(app: App) -> None:
    @app.job("Invoice")
    def invoice(number: int) -> None: ...

    @invoice.aggregate
    def one_invoice(members: list[list[Any]]) -> list[Any]:
        raise RuntimeError("no")

    with testing.fake(app) as sandbox:
        invoice.set(group="user:7").enqueue(1)
        sandbox.travel(60)
        with pytest.raises(RuntimeError, match="no"):
            sandbox.run_all()
        assert [job.job_class for job in sandbox.retries()] == ["Invoice"]


def test_a_large_group_ends_in_steps(app: App, invoice: Job[..., None]) -> None:
    """Its one job runs once, in the first step. Then the members end, some in each step."""
    count = 2 * AT_ONCE + 200
    with testing.fake(app) as sandbox:
        large = invoice.set(group="user:7", group_max_size=5_000, track=True)
        jids = large.enqueue_bulk([[number] for number in range(count)])
        sandbox.travel(60)
        sandbox.run_all()
        assert ran == [tuple(range(count))]
        assert sandbox.jobs() == []
        states = Counter(str(app.status(jid).state) for jid in jids)
    assert states == {"completed": count}


def test_a_large_group_whose_members_have_expired_ends_in_steps(app: App, invoice: Job[..., None]) -> None:
    count = AT_ONCE + 200
    with testing.fake(app) as sandbox:
        large = invoice.set(group="user:7", group_max_size=5_000, track=True, expires_in=10)
        jids = large.enqueue_bulk([[number] for number in range(count)])
        invoice.set(group="user:7", group_max_size=5_000).enqueue(-1)
        sandbox.travel(60)
        sandbox.run_all()
        assert ran == [(-1,)]
        assert {str(app.status(jid).state) for jid in jids} == {"expired"}
