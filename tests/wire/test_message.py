from __future__ import annotations

import asyncio
import datetime
import json
import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsontext import VALUES, examples

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire.message import (
    Message,
    Timestamps,
    current_message,
    describe_job,
    epoch,
    reset_current,
    set_current,
    whole_number,
)

property_test = examples(100)


def message(queue: str = "default", **fields: Any) -> Message:
    return Message(json.dumps(fields).encode(), queue)


# --- fields


def test_a_message_shows_what_sidekiq_writes() -> None:
    raw = (
        b'{"retry":5,"queue":"billing","tags":["money"],"args":[42,{"pdf":true}],"class":"Billing::InvoiceJob",'
        b'"jid":"b4a577edbccf1d805744efa9","created_at":1739522590.25,"enqueued_at":1739522590250,"bid":"x"}'
    )
    job = Message(raw, "billing")
    assert (job.job_class, job.jid, job.queue, job.args) == (
        "Billing::InvoiceJob", "b4a577edbccf1d805744efa9", "billing", [42, {"pdf": True}],
    )  # fmt: skip
    assert (job.tags, job.retry_count, job.created_at, job.enqueued_at, job.failed_at) == (
        ["money"], None, 1739522590.25, 1739522590.25, None,
    )  # fmt: skip
    assert job.raw == raw
    assert job["bid"] == job.get("bid") == "x"
    assert job.get("nothing", 7) == 7
    assert "bid" in job
    assert "nothing" not in job
    assert json.loads(job.to_json()) == json.loads(raw)
    with pytest.raises(KeyError):
        job["nothing"]


def test_a_message_has_a_json_form_that_people_can_read() -> None:
    assert message(args=["é"]).to_json() == '{"args": ["é"]}'


def test_the_queue_of_a_message_is_the_one_it_was_fetched_from() -> None:
    assert Message(b'{"queue":"ns:bad"}', "bad").queue == "bad"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"class": "A::B"}, "A::B"),
        ({"class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "ReportJob"}, "ReportJob"),
        ({"class": "A", "wrapped": None}, "A"),
        ({"class": "A", "wrapped": ""}, "A"),
        ({}, ""),
        ({"class": None}, ""),
        ({"class": 5}, ""),
        ({"class": ["A"]}, ""),
    ],
)
def test_the_class_is_the_wrapped_one_if_there_is_one(fields: dict[str, Any], name: str) -> None:
    assert message(**fields).job_class == name


@pytest.mark.parametrize("jid", [None, 5, ["x"], True])
def test_a_jid_that_is_no_text_is_none(jid: Any) -> None:
    assert message(jid=jid).jid == ""
    assert message().jid == ""


@pytest.mark.parametrize(
    ("count", "seen"),
    [(0, 0), (3, 3), (-1, -1), (None, None), (True, None), ("3", None), (2.0, None), (10**4000, None)],
)
def test_the_retry_count_is_a_whole_number_or_none(count: Any, seen: int | None) -> None:
    assert message(retry_count=count).retry_count == seen


@pytest.mark.parametrize(("tags", "seen"), [(["a", 1], ["a", "1"]), ([], []), ("a", []), (None, []), ({"a": 1}, [])])
def test_tags_are_a_list_of_texts(tags: Any, seen: list[str]) -> None:
    assert message(tags=tags).tags == seen


@pytest.mark.parametrize("args", [[1], [], {"a": 1}, "text", None])
def test_args_are_shown_as_they_are(args: Any) -> None:
    assert message(args=args).args == args
    assert message().args is None


def test_changed_args_change_neither_the_raw_bytes_nor_the_other_fields() -> None:
    job = message(args=[1, 2], jid="x")
    raw = job.raw
    job.args = [3]
    assert job.raw == raw
    assert job["args"] == [1, 2]


def test_only_args_queue_and_raw_can_be_set() -> None:
    with pytest.raises(AttributeError):
        message().jid = "x"
    with pytest.raises(AttributeError):
        message().other = "x"


def test_a_payload_that_is_no_job_makes_no_message() -> None:
    with pytest.raises(UnreadablePayload):
        Message(b"[]", "default")


def test_a_message_and_raw_bytes_are_described_for_people() -> None:
    assert repr(message("mail", **{"class": "A", "jid": "1"})) == "<Message A jid=1 queue=mail>"
    assert describe_job(b'{"class":"A","jid":"1"}', "mail") == "class=A jid=1 queue=mail"
    assert describe_job(b"{}", "mail") == "class=? jid=? queue=mail"
    assert describe_job(b"\xff", "mail") == "an unreadable payload queue=mail"


# --- times


@pytest.mark.parametrize(
    ("written", "at"),
    [
        (1739522590.1234567, 1739522590.1234567),
        (1739522590.0, 1739522590.0),
        (1739522590, 1739522590.0),  # go-workers on a whole second
        (1739522590123, 1739522590.123),
        (1739522590123.0, 1739522590.123),
        (0, 0.0),
        (-1.5, -1.5),
        ("2025-02-14 08:43:10 UTC", 1739522590.0),
        ("2025-02-14 08:43:10", 1739522590.0),
        ("1970-01-01 00:00:00 UTC", 0.0),
        ("2025-02-14 08:43:10 CET", None),
        ("2025-02-14T08:43:10Z", None),
        ("2025-02-30 08:43:10 UTC", None),
        ("1739522590.5", None),
        ("", None),
        (None, None),
        (True, None),
        (False, None),
        ([], None),
        ({}, None),
        (math.inf, None),
        (-math.inf, None),
        (10**400, None),
        (-(10**400), None),
        (1e300, None),
    ],
)
def test_times_are_read_in_every_form_that_is_written(written: Any, at: float | None) -> None:
    assert epoch(written) == at


@pytest.mark.parametrize("field", ["created_at", "enqueued_at", "failed_at"])
def test_each_time_of_a_message_is_in_seconds(field: str) -> None:
    assert getattr(message(**{field: 1739522590123}), field) == 1739522590.123
    assert getattr(message(**{field: [1]}), field) is None
    assert getattr(message(), field) is None


def test_the_boundary_between_seconds_and_milliseconds() -> None:
    assert epoch(99_999_999_999) == 99_999_999_999.0
    assert epoch(100_000_000_000) == 100_000_000.0


@given(st.integers(-(10**9), 10**11))
@property_test
def test_go_times_are_utc_to_the_second(at: int) -> None:
    moment = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
    assert epoch(f"{moment:%Y-%m-%d %H:%M:%S} UTC") == at


@given(st.floats(0, 99_999_999_999, allow_nan=False))
@property_test
def test_seconds_come_back_to_the_last_bit(at: float) -> None:
    assert epoch(json.loads(json.dumps(Timestamps().write(at)))) == at


@given(st.floats(1e9, 9e9, allow_nan=False))
@property_test
def test_milliseconds_come_back_to_the_millisecond(at: float) -> None:
    written = Timestamps("ms").write(at)
    assert type(written) is int
    assert at - 0.0011 < (epoch(written) or 0) <= at


def test_whole_seconds_keep_their_fraction_so_that_sidekiq_8_takes_them_for_seconds() -> None:
    assert json.dumps(Timestamps().write(1700000000)) == "1700000000.0"
    assert json.dumps(Timestamps("ms").write(1700000000.5)) == "1700000000500"


@given(VALUES)
@property_test
def test_any_value_is_a_finite_time_or_none(text: str) -> None:
    value = json.loads(text)
    at = epoch(value)
    assert at is None or math.isfinite(at)
    number = whole_number(value)
    assert number is None or (type(number) is int and number == value)


# --- the current message


def test_outside_a_job_there_is_no_current_message() -> None:
    assert current_message() is None


def test_each_thread_has_its_own_current_message() -> None:
    job, seen = message(jid="mine"), []
    token = set_current(job)
    thread = threading.Thread(target=lambda: seen.append(current_message()))
    thread.start()
    thread.join()
    assert current_message() is job
    reset_current(token)
    assert current_message() is None
    assert seen == [None]


def test_the_tasks_of_an_async_job_see_its_message() -> None:
    async def job() -> Message | None:
        return await asyncio.create_task(inner())

    async def inner() -> Message | None:
        await asyncio.sleep(0)
        return current_message()

    mine = message(jid="mine")
    token = set_current(mine)
    try:
        assert asyncio.run(job()) is mine
    finally:
        reset_current(token)
