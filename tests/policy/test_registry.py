from __future__ import annotations

import functools
import json
import re
import types
from pathlib import Path
from typing import Any

import pytest

from goworkers_py.config.job_options import NOTHING_SAID, CodeOptions
from goworkers_py.core.errors import ConfigError, UnknownJob
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message

FEW = CodeOptions(retry=2)


def message(queue: str = "default", **fields: Any) -> Message:
    return Message(json.dumps(fields).encode(), queue)


def invoice(order_id: int) -> None: ...


def report(order_id: int) -> None: ...


def send_mail(message: Message) -> None: ...


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.add(JobSpec("Billing::InvoiceJob", invoice, queue="billing", options=FEW))
    registry.add(JobSpec("report", report))
    return registry


def test_a_job_is_found_by_its_class_on_any_queue(registry: Registry) -> None:
    for queue in ("billing", "default", "other"):
        found = registry.find(message(queue, **{"class": "Billing::InvoiceJob"}))
        assert found.function is invoice
    assert registry.job("report") is registry.find(message(**{"class": "report"}))


def test_an_active_job_is_found_by_the_class_it_wraps(registry: Registry) -> None:
    wrapper = {"class": "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "wrapped": "report"}
    assert registry.find(message(**wrapper)).function is report


def test_a_handler_runs_every_job_of_its_queue_whatever_the_class(registry: Registry) -> None:
    registry.handle("mail", send_mail)
    for fields in ({"class": "report"}, {"class": "Unknown"}, {}):
        spec = registry.find(message("mail", **fields))
        assert (spec.function, spec.takes_message) == (send_mail, True)
        assert not registry.options_for(message("mail", **fields))
    assert registry.find(message("other", **{"class": "report"})).function is report
    with pytest.raises(UnknownJob):
        registry.find(message("other"))


def test_the_last_handler_of_a_queue_counts(registry: Registry) -> None:
    registry.handle("mail", invoice)
    registry.handle("mail", send_mail)
    assert registry.find(message("mail")).function is send_mail


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"class": "Billing::Other"},
            "no job is registered as 'Billing::Other': decorate one with @job('Billing::Other')",
        ),
        ({"class": "Invoice", "wrapped": "A"}, "no job is registered as 'A'"),
        ({}, "the job names no class, and queue 'mail' has no handler"),
        ({"class": 5}, "the job names no class"),
    ],
)
def test_the_error_of_an_unknown_job_says_what_to_do(registry: Registry, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(UnknownJob, match=re.escape(told)):
        registry.find(message("mail", **fields))
    assert registry.job(fields.get("class", "")) is None
    assert registry.options_for(message("mail", **fields)) is NOTHING_SAID


def test_the_names_and_queues_of_what_is_registered(registry: Registry) -> None:
    registry.handle("mail", send_mail)
    assert registry.names() == ["Billing::InvoiceJob", "report"]
    assert registry.queues() == ["billing", "default", "mail"]


def test_two_jobs_of_one_name_are_refused_and_the_first_stays(registry: Registry) -> None:
    with pytest.raises(ConfigError) as refused:
        registry.add(JobSpec("report", invoice))
    assert str(refused.value) == (
        f"two jobs are called 'report': {__name__}.report and {__name__}.invoice; "
        "give one of them another name: @job('Name')"
    )
    assert registry.job("report").function is report


@pytest.mark.parametrize(
    ("first", "second"),
    [(functools.partial(invoice, 1), functools.partial(invoice, 1)), (functools.partial(invoice, 1), invoice),
     (invoice, functools.partial(invoice, 1))],
)  # fmt: skip
def test_two_jobs_of_one_name_are_refused_even_if_one_has_no_source_line(first: Any, second: Any) -> None:
    registry = Registry()
    registry.add(JobSpec("again", first))
    with pytest.raises(ConfigError, match="two jobs are called 'again'"):
        registry.add(JobSpec("again", second))


def test_the_same_job_may_be_registered_twice(registry: Registry) -> None:
    again = functools.partial(invoice, 1)
    for _ in range(2):
        registry.add(JobSpec("report", report, queue="other"))
        registry.add(JobSpec("partial", again))
    assert registry.job("report").queue == "other"


def test_a_module_that_is_imported_twice_registers_its_jobs_again(registry: Registry, tmp_path: Path) -> None:
    """As `__main__` and by its name, or reloaded: the function objects differ, their code is the same."""
    source = tmp_path / "jobs.py"
    source.write_text("def add(a, b): ...\n\n\ndef other(a, b): ...\n")
    modules = [types.ModuleType(name) for name in ("__main__", "jobs")]
    for module in modules:
        exec(compile(source.read_text(), str(source), "exec"), vars(module))
    first, second = modules
    registry.add(JobSpec("add", first.add))
    registry.add(JobSpec("add", second.add))
    assert registry.job("add").function is second.add
    with pytest.raises(ConfigError, match=re.escape("two jobs are called 'add': jobs.add and jobs.other")):
        registry.add(JobSpec("add", second.other))
