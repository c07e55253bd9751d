"""An exception that ends a push says which rows were pushed before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import simplejson
from apps import own_app

from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.places import waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import (
    ArgumentError,
    BatchEnded,
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    DuplicateJob,
    PushError,
    TooManyHeld,
)
from goworkers_py.features.unique.holders import LockHolders

ROWS = [[number] for number in range(2_500)]


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3)) as app:
        yield app


def waiting(app: App) -> dict[int, str]:
    """The jids of the jobs in the queue, by their argument."""
    found = app.inspector.jobs(waiting_in("q"))
    jobs = [simplejson.loads(job.payload) for job in found]
    assert len({job["jid"] for job in jobs}) == len(jobs)
    return {job["args"][0]: job["jid"] for job in jobs}


def told(error: PushError) -> dict[int, str]:
    """What the error of a push of ROWS, or of its first ones, says: as `waiting`."""
    return {number: jid for number, jid in enumerate(error.pushed) if jid is not None}


def unique_job(app: App, **options: Any) -> Any:
    return app.job("Order", queue="q", unique_for=60, **options)(lambda number: None)


def test_a_batch_that_is_cancelled_between_two_slices_hides_no_job(app: App) -> None:
    job = app.job("Job", queue="q")(lambda number: None)
    with app.batch() as batch:

        def cancels(fields: dict[str, Any]) -> dict[str, Any]:
            if fields["args"] == [1_700]:  # as the second slice is written
                batch.cancel()
            return fields

        with app.with_client_link(cancels), pytest.raises(BatchEnded) as raised:
            job.enqueue_bulk(ROWS)
    assert told(raised.value) == waiting(app)
    assert len(raised.value.pushed) == 2_500
    assert [*told(raised.value)] == [*range(1_000)]
    assert "nothing" not in str(raised.value)


def test_a_duplicate_in_the_second_slice_hides_no_other_row(app: App) -> None:
    job = unique_job(app, on_conflict="raise")
    first = job.enqueue(1_700)
    with pytest.raises(DuplicateJob) as raised:
        job.enqueue_bulk(ROWS)
    assert raised.value.jid == first
    assert waiting(app) == {**told(raised.value), 1_700: first}
    assert [number for number, jid in enumerate(raised.value.pushed) if jid is None] == [1_700]


def test_the_first_of_several_duplicates_is_raised(app: App) -> None:
    job = unique_job(app, on_conflict="raise")
    first, second = job.enqueue(0), job.enqueue(2)
    with pytest.raises(DuplicateJob) as raised:
        job.enqueue_bulk(ROWS[:4])
    assert raised.value.jid == first
    assert waiting(app) == {**told(raised.value), 0: first, 2: second}


def test_a_batch_that_ends_while_holders_of_locks_are_looked_for_hides_no_job(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = unique_job(app)
    job.enqueue(1)

    with app.batch() as batch:

        def gone(_: object, asked: Sequence[tuple[str, object]]) -> set[str]:
            batch.cancel()
            return {lock for lock, _ in asked}

        monkeypatch.setattr(LockHolders, "gone", gone)
        with pytest.raises(BatchEnded) as raised:
            job.enqueue_bulk(ROWS[:3])
    assert [*told(raised.value)] == [0, 2]
    assert told(raised.value).items() <= waiting(app).items()


@pytest.fixture
def named_jobs(app: App) -> Iterator[Any]:
    """Tracked jobs whose jids a client link has chosen: job-0, job-1 and so on."""

    def named(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "jid": f"job-{fields['args'][0]}"}

    with app.with_client_link(named):
        yield app.job("Tracked", queue="q", track=True)(lambda number: None)


def test_a_duplicate_among_tracked_jobs_hides_no_other_row(app: App, named_jobs: Any) -> None:
    named_jobs.enqueue(1)
    with pytest.raises(DuplicateJob) as raised:
        named_jobs.enqueue_bulk(ROWS[:4])
    assert raised.value.pushed == ["job-0", None, "job-2", "job-3"]
    assert waiting(app) == {**told(raised.value), 1: "job-1"}


def test_a_tracked_job_that_was_deleted_is_pushed_beside_a_duplicate(app: App, named_jobs: Any) -> None:
    for number in 1, 2:
        named_jobs.enqueue(number)
    status = JobLookup.settled_status
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobLookup, "settled_status", lambda self, jid: status(self, "none" if jid == "job-2" else jid))
        with pytest.raises(DuplicateJob) as raised:
            named_jobs.enqueue_bulk(ROWS[:4])
    assert raised.value.pushed == ["job-0", None, "job-2", "job-3"]


def test_the_error_of_a_look_for_a_tracked_job_hides_no_row(named_jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise BrokerUnavailable("down")

    named_jobs.enqueue(1)
    monkeypatch.setattr(JobLookup, "settled_status", away)
    with pytest.raises(BrokerUnavailable) as raised:
        named_jobs.enqueue_bulk(ROWS[:3])
    assert raised.value.pushed == ["job-0", None, "job-2"]


def test_a_refusal_that_no_feature_explains_hides_no_row(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: object, pushes: Sequence[Push]) -> list[Published]:
        return [Published.PUSHED, Published.REFUSED, Published.PUSHED]

    monkeypatch.setattr(type(app.broker.transport), "publish", refuses)
    with pytest.raises(BrokerRefused) as raised:
        app.enqueue_bulk("q", "Job", ROWS[:3])
    assert [*told(raised.value)] == [0, 2]


@pytest.mark.parametrize("error", [ArgumentError("no"), KeyError("tenant")])
def test_the_error_of_a_client_link_hides_no_earlier_slice(app: App, error: Exception) -> None:
    def fails(fields: dict[str, Any]) -> dict[str, Any]:
        if fields["args"] == [1_700]:
            raise error
        return fields

    with app.with_client_link(fails), pytest.raises(type(error)) as raised:
        app.enqueue_bulk("q", "Job", ROWS)
    assert len(raised.value.pushed) == 2_500  # type: ignore[attr-defined]
    assert told(raised.value) == waiting(app)  # type: ignore[arg-type]


def test_errors_of_other_calls_say_that_nothing_was_pushed(app: App) -> None:
    with pytest.raises(ArgumentError) as raised:
        app.enqueue_bulk("q", "", ROWS)
    assert raised.value.pushed == ()
    assert issubclass(BrokerError, PushError)
    assert app.inspector.count(waiting_in("q")) == 0


def test_a_block_holds_back_all_rows_of_a_call_or_none(app: App) -> None:
    """Who catches the error, and pushes again what `pushed` does not name, loses no row and doubles none."""
    job = app.job("Job", queue="q")(lambda number: None)

    def fails(fields: dict[str, Any]) -> dict[str, Any]:
        if fields["args"] == [1_700]:
            raise ArgumentError("no")
        return fields

    with app.atomic():
        job.enqueue(-1)
        with app.with_client_link(fails), pytest.raises(ArgumentError) as raised:
            job.enqueue_bulk(ROWS)
        assert told(raised.value) == {}
        with pytest.raises(TooManyHeld) as too_many:
            job.enqueue_bulk([[number] for number in range(12_000)])
        assert told(too_many.value) == {}  # type: ignore[arg-type]
        job.enqueue_bulk(ROWS)
    assert sorted(waiting(app)) == [-1, *(number for [number] in ROWS)]


def test_a_duplicate_that_a_link_has_pushed_is_no_answer_to_the_push_around_it(app: App) -> None:
    audit = unique_job(app, on_conflict="raise")
    audit.enqueue("all")

    def audits(fields: dict[str, Any]) -> dict[str, Any]:
        if fields["args"] == [1_700]:
            audit.enqueue_bulk([["one"], ["all"]])
        return fields

    with app.with_client_link(audits), pytest.raises(DuplicateJob) as raised:
        app.enqueue_bulk("q", "Job", ROWS)
    found = {number: jid for number, jid in waiting(app).items() if not isinstance(number, str)}
    assert sorted(found) == [*range(1_000)]
    assert (told(raised.value), len(raised.value.pushed)) == (found, 2_500)
