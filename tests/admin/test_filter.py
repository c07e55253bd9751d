"""Which jobs a filter wants."""

from __future__ import annotations

import pytest
from apps import job

from goworkers_py.admin.filter import Filter, Refined
from goworkers_py.wire.stored_job import StoredJob

MAIL = StoredJob(
    b'{"class":"Mail","jid":"m1","queue":"mail","tags":["eu","slow"],"enqueued_at":1700000000.5,'
    b'"args":[42,1.50,"a b",{"pdf":true},true,1e3,null],"kwargs":{"to":"ada"},"error_message":"no \\u0041da"}'
)
WRAPPED = StoredJob(
    b'{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"Report","args":[{"job_class":"Report","arguments":[7,"x"]}]}'
)


@pytest.mark.parametrize("argument", [
    "42", "1.5", "1.50", "a b", '{"pdf": true}', '{"pdf":true}', "true", "1000.0", "1e3", "null", "ada",
])  # fmt: skip
def test_a_job_is_wanted_by_a_whole_argument(argument: str) -> None:
    assert Filter(argument=argument).fits(MAIL)


@pytest.mark.parametrize("argument", ["4", "a", "pdf", "1", "to", "[]", "42.5", '{"pdf": false}', "[" * 100_000])
def test_a_job_is_not_wanted_by_a_part_of_an_argument_or_another_value(argument: str) -> None:
    assert not Filter(argument=argument).fits(MAIL)


def test_the_arguments_of_a_job_of_rails_are_those_inside_of_it() -> None:
    assert [Filter(argument=text).fits(WRAPPED) for text in ("7", "x", "Report")] == [True, True, False]
    assert Filter(job_class="Report").fits(WRAPPED)


@pytest.mark.parametrize(("wanted", "fits"), [
    (Filter(tag="eu"), True), (Filter(tag="e"), False), (Filter(queue="mail"), True), (Filter(queue="mai"), False),
    (Filter(error="no Ada"), True), (Filter(error="no Bob"), False), (Filter(job_class="Mail", tag="us"), False),
    (Filter(since=1700000000.5, until=1700000000.5), True), (Filter(since=1700000001), False),
    (Filter(until=1700000000), False),
])  # fmt: skip
def test_a_job_is_wanted_when_it_fits_every_field(wanted: Filter, fits: bool) -> None:
    assert wanted.fits(MAIL) is fits


def test_the_time_of_a_set_counts_more_than_that_of_the_payload() -> None:
    later = StoredJob(MAIL.payload, at=1800000000.0)
    assert Filter(since=1750000000).fits(later)
    assert not Filter(until=1750000000).fits(later)


def test_a_job_whose_time_nobody_knows_is_not_wanted_by_time() -> None:
    assert not Filter(since=0).fits(StoredJob(job()))
    assert not Filter(since=0).fits(StoredJob(b"no job"))


@pytest.mark.parametrize("payload", [b"no job", b'{"class":"A","args":{"0":42},"kwargs":[42],"tags":"eu"}'])
def test_payloads_of_other_shapes_fit_no_field(payload: bytes) -> None:
    one = StoredJob(payload)
    assert not any(wanted.fits(one) for wanted in (Filter(argument="42"), Filter(tag="eu"), Filter(queue="q")))


def test_a_filter_says_what_it_wants() -> None:
    wanted = Filter(tag="eu", argument="42", queue="mail", since=1700000000, until=1e300)
    assert str(wanted) == (
        "with tag eu, with the argument 42, of queue mail, since 2023-11-14 22:13:20 UTC, until 1e+300"
    )
    assert (wanted.empty, Filter().empty, Filter(since=0.0).empty) == (False, True, False)


def test_a_refined_filter_wants_some_of_the_jobs_of_another() -> None:
    wanted = Refined(Filter(jids=["m1"], since=1.0, until=2e9), lambda one: one.queue == "")
    assert (wanted.jids, wanted.since, wanted.until) == (["m1"], 1.0, 2e9)
    assert wanted.fits(MAIL)
    assert not wanted.fits(StoredJob(MAIL.payload, "mail"))


def test_a_jid_with_half_a_character_is_found_as_ruby_may_have_written_it() -> None:
    job = StoredJob(b'{"class":"J","args":[],"jid":"5\\ud800"}')
    assert Filter(jids=["5\ud800"]).fits(job)
    assert not Filter(jids=["6\ud800"]).fits(job)
