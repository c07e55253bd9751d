"""The retries of a job whose arguments do not fit its code: by the clock, for a deploy, and not by the count."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.errors import ArgumentsDoNotFit
from goworkers_py.core.outcome import DISCARD, Dead, Outcome, Retry
from goworkers_py.links.handlers import Handlers
from goworkers_py.links.retry import RetryLink
from goworkers_py.policy.registry import Registry
from goworkers_py.policy.retry import UNFIT_FOR_S, RetryPolicy
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps

NOW = 1_700_000_000.0
UNFIT = ArgumentsDoNotFit("day: is 5, not a date")
LONGEST_PAUSE_S = 60


def message(**fields: Any) -> Message:
    return Message(payload.write({"class": "J", "jid": "j1", "args": [1], "retry": True, **fields}), "q")


def decide(
    message: Message, error: BaseException = UNFIT, now: float = NOW, style: str = "seconds", **options: Any
) -> Outcome:
    return RetryPolicy(timestamps=Timestamps(style)).decide(message, error, CodeOptions(**options), now)


def life(message: Message, **options: Any) -> list[Outcome]:
    """The outcomes of a job whose arguments fit no worker, until it is not retried any more."""
    outcomes, now = [decide(message, **options)], NOW
    while isinstance(retry := outcomes[-1], Retry):
        now = retry.at
        outcomes.append(decide(Message(retry.payload, "q"), now=now, **options))
    return outcomes


@pytest.mark.parametrize("fields", [{}, {"retry": 1}, {"retry": 3, "retry_count": 2, "failed_at": NOW - 9}], ids=str)
def test_it_is_retried_for_ten_minutes_whatever_the_count_then_it_is_dead(fields: dict[str, Any]) -> None:
    *retries, last = life(message(**fields))
    times = [retry.at - NOW for retry in retries if isinstance(retry, Retry)]
    pauses = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert all(15 <= pause <= LONGEST_PAUSE_S for pause in pauses)
    assert UNFIT_FOR_S < times[-1] <= UNFIT_FOR_S + LONGEST_PAUSE_S, "the last try is the first one after ten minutes"
    assert isinstance(last, Dead)
    told = payload.read(last.payload)
    assert (told["error_class"], told["error_message"]) == ("goworkers_py.ArgumentsDoNotFit", str(UNFIT))
    assert told.get("retry_count") == fields.get("retry_count")
    assert "unfit_since" not in told, "a retry by hand gets ten minutes of its own"


@pytest.mark.parametrize("style", ["seconds", "ms"])
def test_the_job_keeps_the_time_since_which_it_does_not_fit(style: str) -> None:
    first = decide(message(), style=style)
    assert isinstance(first, Retry)
    second = decide(Message(first.payload, "q"), now=NOW + 30, style=style)
    assert isinstance(second, Retry)
    written = Timestamps(style).write(NOW)
    one, other = payload.read(first.payload), payload.read(second.payload)
    assert (one["unfit_since"], one["failed_at"], other["unfit_since"], other["failed_at"]) == (written,) * 4
    assert other["retried_at"] == Timestamps(style).write(NOW + 30)


def test_no_retry_of_the_job_is_spent() -> None:
    first = decide(message(retry=1))
    assert isinstance(first, Retry)
    failed = decide(Message(first.payload, "q"), RuntimeError())
    assert isinstance(failed, Retry), "its one retry is left"
    told = payload.read(failed.payload)
    assert told["retry_count"] == 0
    assert "unfit_since" not in told, "the next misfit counts from its own time"


@pytest.mark.parametrize(("fields", "kind"), [({"retry": False}, type(DISCARD)), ({"retry": 0}, Dead)], ids=str)
def test_a_job_without_retries_gets_none(fields: dict[str, Any], kind: type) -> None:
    assert [type(outcome) for outcome in life(message(**fields))] == [kind]


def test_retry_for_ends_the_tries_earlier() -> None:
    *_, last_retry, last = life(message(retry_for=100))
    assert isinstance(last_retry, Retry)
    assert 100 < last_retry.at - NOW <= 100 + LONGEST_PAUSE_S
    assert isinstance(last, Dead)


def test_retry_in_may_end_the_tries_but_not_lengthen_the_pauses() -> None:
    assert isinstance(decide(message(), retry_in="kill"), Dead)
    assert decide(message(), retry_in=lambda count, error: "discard") is DISCARD
    outcome = decide(message(), retry_in=86_400)
    assert isinstance(outcome, Retry)
    assert outcome.at <= NOW + LONGEST_PAUSE_S


def test_dead_false_discards_it_at_the_end() -> None:
    assert life(message(dead=False))[-1] is DISCARD


def test_the_log_warns_while_it_is_retried_and_has_an_error_when_it_is_dead(caplog: pytest.LogCaptureFixture) -> None:
    def unfit(message: Message) -> Outcome:
        raise UNFIT

    run = RetryLink(RetryPolicy(), Registry(), Handlers(), lambda: NOW)(unfit)
    with caplog.at_level(logging.INFO):
        run(message())
        run(message(unfit_since=NOW - UNFIT_FOR_S - 1))
    assert [(line.levelname, line.exc_info is not None) for line in caplog.records] == [
        ("WARNING", False),
        ("ERROR", True),
    ]
