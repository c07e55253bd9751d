"""`assert_enqueued` and `assert_not_enqueued`, and the texts of their errors."""

from __future__ import annotations

import datetime
from typing import Any
from unittest.mock import ANY

import pytest

from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.testing import Sandbox


@pytest.fixture
def invoice(app: App) -> Job[..., Any]:
    return app.job("Billing::InvoiceJob", queue="billing")(lambda *args: None)


def refused(sandbox: Sandbox, *args: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        sandbox.assert_enqueued(*args, **options)
    return str(raised.value)


def test_a_push_is_found_by_job_or_class_by_arguments_and_queue(sandbox: Sandbox, invoice: Job[..., Any]) -> None:
    jid = invoice.enqueue(42, {"pages": [1, 2]})
    for job in (invoice, "Billing::InvoiceJob"):
        assert [found.jid for found in sandbox.assert_enqueued(job)] == [jid]
    sandbox.assert_enqueued(invoice, 42, {"pages": [1, 2]}, queue="billing")
    sandbox.assert_enqueued(invoice, 42, ANY, count=1)
    sandbox.assert_enqueued(invoice, ANY, {"pages": ANY})
    for args in ([42], [42, ANY, ANY], [43, ANY], [42, {"pages": [1]}], [42, {"page": [1, 2]}]):
        refused(sandbox, invoice, *args)
    refused(sandbox, invoice, queue="mail")
    refused(sandbox, "Billing::Invoice")


def test_keyword_arguments_are_compared(app: App, sandbox: Sandbox) -> None:
    app.client_middleware(lambda job: {**job, "kwargs": {"pdf": True}})
    app.enqueue("q", "J", [1])
    sandbox.assert_enqueued("J", 1, pdf=True)
    sandbox.assert_enqueued("J", 1, pdf=ANY)
    assert refused(sandbox, "J", 1, pdf=False).startswith("J(1, pdf=False) was enqueued 0 times")
    refused(sandbox, "J", 1)
    refused(sandbox, "J", 1, html=ANY)
    assert sandbox.jobs()[0].kwargs == {"pdf": True}


def test_the_time_of_a_scheduled_job_is_compared(sandbox: Sandbox, invoice: Job[..., Any]) -> None:
    at = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
    invoice.enqueue_in(datetime.timedelta(hours=1), 1)
    invoice.enqueue_at(at, 2)
    sandbox.assert_enqueued(invoice, 1, delay=3600)
    sandbox.assert_enqueued(invoice, 2, at=at)
    sandbox.assert_enqueued(invoice, 2, at=at.timestamp())
    refused(sandbox, invoice, 1, delay=3500)
    refused(sandbox, invoice, 1, at=at)
    text = refused(sandbox, invoice, 2, at=at.timestamp() + 1)
    assert text.startswith("Billing::InvoiceJob(2) at 2100-01-01T00:00:01.000Z was enqueued 0 times")
    invoice.enqueue(3)
    refused(sandbox, invoice, 3, delay=3600)


def test_arguments_of_annotated_types_are_compared_as_they_are_pushed(app: App, sandbox: Sandbox) -> None:
    @app.job("J")
    def job(day: datetime.date, *, until: datetime.date | None = None) -> None: ...

    day = datetime.date(2100, 1, 1)
    job.enqueue(day, until=day)
    sandbox.assert_enqueued(job, day, until=day)
    sandbox.assert_enqueued(job, "2100-01-01", until=ANY)
    refused(sandbox, job, datetime.date(2100, 1, 2), until=day)


def test_jobs_that_have_run_count_too(app: App, sandbox: Sandbox, invoice: Job[..., Any]) -> None:
    app.job("Order", atomic=True)(lambda: invoice.enqueue(42) and None).enqueue()
    sandbox.run_all()
    assert sandbox.jobs() == []
    sandbox.assert_enqueued("Order", count=1)
    sandbox.assert_enqueued(invoice, 42, count=1)


def test_the_error_shows_what_was_enqueued_the_nearest_first(
    app: App, sandbox: Sandbox, invoice: Job[..., Any]
) -> None:
    assert refused(sandbox, invoice, 42) == (
        "Billing::InvoiceJob(42) was enqueued 0 times, expected at least 1; nothing was enqueued"
    )
    app.enqueue("mail", "Welcome", ["ada"])
    invoice.enqueue(1, {"pdf": True})
    invoice.enqueue_in(60, 42, {"pdf": False})
    app.enqueue("billing", "Billing::InvoiceJobs", [42])
    first = (
        "Billing::InvoiceJob(42, {'pdf': True}) in queue billing in 60 s was enqueued 0 times, expected at least 1. "
        "Enqueued, the nearest first:"
    )
    assert refused(sandbox, invoice, 42, {"pdf": True}, queue="billing", delay=60).splitlines() == [
        first,
        "    Billing::InvoiceJob(42, {'pdf': False}) in queue billing, 60 s after its push",
        "    Billing::InvoiceJob(1, {'pdf': True}) in queue billing",
        "    Billing::InvoiceJobs(42) in queue billing",
        "    Welcome('ada') in queue mail",
    ]


def test_the_error_about_a_count_says_both_numbers_and_shows_ten_jobs_at_most(
    sandbox: Sandbox, invoice: Job[..., Any]
) -> None:
    invoice.enqueue_bulk([[number] for number in range(12)])
    assert refused(sandbox, invoice, 3, count=2).startswith(
        "Billing::InvoiceJob(3) was enqueued 1 time, expected 2. Enqueued, the nearest first:\n"
        "    Billing::InvoiceJob(3) in queue billing\n"
    )
    assert refused(sandbox, invoice, count=2).endswith("    and 2 more")


def test_a_push_that_must_not_be_is_found(sandbox: Sandbox, invoice: Job[..., Any]) -> None:
    sandbox.assert_not_enqueued()
    invoice.enqueue(42)
    sandbox.assert_not_enqueued(invoice, 43)
    sandbox.assert_not_enqueued("Other")
    sandbox.assert_not_enqueued(queue="mail")
    with pytest.raises(AssertionError, match=r"Billing::InvoiceJob\(42\) was enqueued 1 time, expected 0"):
        sandbox.assert_not_enqueued(invoice, 42)
    with pytest.raises(AssertionError, match=r"(?s)expected none:.*    Billing::InvoiceJob\(42\) in queue billing"):
        sandbox.assert_not_enqueued()


def test_a_push_that_a_client_link_stops_is_none(app: App, sandbox: Sandbox) -> None:
    app.client_middleware(lambda job: None)
    app.enqueue("q", "J", [])
    sandbox.assert_not_enqueued()
