"""The option `is_failure`: an error that is none is tried again without spending a retry."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import redis as redis_py
from apps import in_progress, own_app, working
from waiting import eventually

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.errors import DiscardJob, KillJob, RetryJob
from goworkers_py.core.outcome import Reschedule
from goworkers_py.observe.run_stats import RESULTS
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

NOW = 1_739_522_590.25
BOOM = ConnectionError("boom")


def again(error: BaseException = BOOM, job: dict[str, Any] | None = None, **options: Any) -> Reschedule | None:
    raw = payload.write({"class": "J", "args": [], "jid": "abc", "queue": "q", "retry": True, **(job or {})})
    policy = RetryPolicy(random_below=lambda below: below - 1)
    return policy.again(Message(raw, "q"), error, CodeOptions(**options), NOW)


def is_other(error: BaseException) -> bool:
    return not isinstance(error, ConnectionError)


def test_only_the_errors_that_the_function_denies_are_no_failures() -> None:
    assert again(is_failure=is_other) is not None
    assert again(ValueError(), is_failure=is_other) is None
    assert again() is None, "without the option every error is a failure"


def test_the_job_waits_as_before_a_first_retry_however_often_it_was_run() -> None:
    first = again(is_failure=is_other)
    assert first is not None
    assert first.at == NOW + 15 + 9
    second = again(job=payload.read(first.payload), is_failure=is_other)
    assert second is not None
    assert (second.at, "retry_count" in payload.read(second.payload)) == (first.at, False)


def test_a_job_that_has_spent_its_retries_or_has_none_is_tried_again_all_the_same() -> None:
    for job in ({"retry": False}, {"retry": 0}, {"retry": 2, "retry_count": 7}, {"retry_for": 1, "failed_at": 1.0}):
        outcome = again(job=job, is_failure=is_other)
        assert outcome is not None
        assert payload.read(outcome.payload).items() >= job.items()


def test_retry_in_says_how_long_it_waits_or_how_it_ends() -> None:
    outcome = again(is_failure=is_other, retry_in=lambda count, error: 100)
    assert outcome is not None
    assert outcome.at == NOW + 109
    for end in ("discard", "kill"):
        assert again(is_failure=is_other, retry_in=end) is None


def test_retry_job_chooses_the_time_of_a_run_that_spends_no_retry() -> None:
    outcome = again(RetryJob(delay=7), is_failure=lambda error: not isinstance(error, RetryJob))
    assert outcome is not None
    assert outcome.at == NOW + 7


@pytest.mark.parametrize("error", [DiscardJob(), KillJob()])
def test_a_job_that_ends_itself_is_not_asked_about(error: BaseException) -> None:
    assert again(error, is_failure=lambda error: False) is None


def test_a_function_that_raises_or_forgets_to_return_makes_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    def fails(error: BaseException) -> bool:
        raise KeyError

    assert again(is_failure=fails) is None
    assert caplog.messages == ["is_failure failed; the error counts as a failure"]
    assert again(is_failure=lambda error: None) is None


def test_the_job_goes_to_the_schedule_with_its_queue_and_without_what_belongs_to_this_run() -> None:
    outcome = again(job={"queue": "elsewhere", "jid": "", "at": 1.0, "recovered": {}}, is_failure=is_other)
    assert outcome is not None
    job = json.loads(outcome.payload)
    assert (job["queue"], len(job["jid"]), "at" in job, "recovered" in job) == ("q", 24, False, False)


def test_a_job_that_ruby_would_lose_in_the_schedule_is_a_failure() -> None:
    lone = b'{"class":"J","args":["\\ud800"],"jid":"abc","retry":true}'
    assert RetryPolicy().again(Message(lone, "q"), BOOM, CodeOptions(is_failure=is_other), NOW) is None


def test_an_error_that_is_no_failure_is_told_to_no_handler_and_not_counted(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[object] = []
    caplog.set_level(logging.INFO)
    with own_app(redis_url) as app:

        @app.job("J", queue="q", retry=0, is_failure=is_other)
        def busy() -> None:
            raise BOOM

        app.on_error(lambda message, error: told.append(error))
        app.on_death(lambda message, error: told.append(error))
        busy.enqueue()
        with working(app):
            assert eventually(lambda: redis.zcard("schedule") == 1 and not in_progress(redis))
            assert (app.inspector.stats().processed, app.inspector.stats().failed) == (0, 0)
            row = app.runner._report()["jobs"]["q"]["J"]
            assert [name for name, count in zip(RESULTS, row, strict=False) if count] == ["requeued"]
    assert told == []
    assert "failed" not in caplog.text
    [line] = [one for one in caplog.messages if one.startswith("rescheduled: to run again in ")]
    assert line.endswith("without spending a retry: is_failure says no to ConnectionError: boom")
