from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsontext import JOBS, examples, field_texts
from retry_decisions import ABSENT, BOOM, NOW, decide, fields_of, fields_raw, job, no_jitter

from goworkers_py.config.job_options import CodeOptions, checked
from goworkers_py.core.errors import ArgumentError, DiscardJob, KillJob, RetryJob
from goworkers_py.core.outcome import DISCARD, Dead, Outcome, Retry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps

# --- the retry limit


def life(message: Message, policy: RetryPolicy, options: CodeOptions) -> tuple[int, Outcome]:
    """Fails the job until it is not retried any more. Returns the number of retries, and the last outcome."""
    retries = 0
    while isinstance(outcome := policy.decide(message, BOOM, options, NOW), Retry):
        assert fields_of(outcome)["retry_count"] == retries
        message = Message(outcome.payload, message.queue)
        retries += 1
    return retries, outcome


@pytest.mark.parametrize(
    ("fields", "of_code", "retries", "buried"),
    [
        ({"retry": True}, True, 25, True),
        ({"retry": True}, 3, 25, True),  # the payload overrides the code
        ({"retry": True}, False, 25, True),
        ({"retry": False}, True, 0, False),
        ({"retry": 0}, True, 0, True),
        ({"retry": 1}, True, 1, True),
        ({"retry": 7}, False, 7, True),
        ({"retry": 40}, True, 40, True),
        ({"retry": -1}, True, 0, True),
        ({"retry": None}, True, 25, True),
        ({"retry": None}, 2, 2, True),
        ({"retry": None}, 0, 0, True),
        ({"retry": None}, False, 0, False),
        ({}, True, 25, True),
        ({}, 2, 2, True),
        ({}, False, 0, False),
        ({"retry": "true"}, 2, 25, True),
        ({"retry": "false"}, 2, 25, True),  # to Ruby every text is true
        ({"retry": ""}, 2, 25, True),
        ({"retry": 5.0}, 2, 25, True),
        ({"retry": []}, 2, 25, True),
        ({"retry": 10**30}, True, 25, True),  # too large for a count
        ({"retry": True, "retry_max": 2}, True, 2, True),
        ({"retry": True, "retry_max": 0}, True, 0, True),
        ({"retry": True, "retry_max": -1}, True, 25, True),
        ({"retry": True, "retry_max": "2"}, True, 25, True),
        ({"retry": True, "retry_max": True}, True, 25, True),
        ({"retry": 3, "retry_max": 1}, True, 3, True),
        ({"retry": False, "retry_max": 3}, True, 0, False),
        ({"retry_max": 2}, True, 2, True),
    ],
)
def test_a_job_that_always_fails_has_the_retries_it_asked_for(
    fields: dict[str, Any], of_code: bool | int, retries: int, buried: bool
) -> None:
    had, end = life(job(**fields), RetryPolicy(random_below=no_jitter), CodeOptions(retry=of_code))
    assert had == retries
    assert isinstance(end, Dead) == buried
    if isinstance(end, Dead):
        assert fields_of(end)["retry_count"] == retries
    else:
        assert end is DISCARD


@pytest.mark.parametrize("retry", [True, "true", ABSENT])
def test_retry_true_means_the_configured_number_of_retries(retry: Any) -> None:
    assert life(job(retry=retry), RetryPolicy(max_retries=4), CodeOptions())[0] == 4
    assert life(job(retry=6), RetryPolicy(max_retries=4), CodeOptions())[0] == 6


@pytest.mark.parametrize(
    ("count", "counted", "stamp"),
    [
        (ABSENT, 0, "failed_at"),
        (None, 0, "failed_at"),
        (0, 1, "retried_at"),
        (5, 6, "retried_at"),
        (-1, 0, "retried_at"),  # Sidekiq's "retry now" of a job that died of its first failure
        (-2, -1, "retried_at"),
        ("3", 0, "failed_at"),
        (True, 0, "failed_at"),
        (2.0, 0, "failed_at"),
        (10**30, 0, "failed_at"),
    ],
)
def test_the_first_failure_sets_failed_at_and_the_others_count_up(count: Any, counted: int, stamp: str) -> None:
    fields = fields_of(decide(job(retry_count=count, retry=25)))
    assert fields["retry_count"] == counted
    assert {"failed_at", "retried_at"} & set(fields) == {stamp}
    assert fields[stamp] == NOW


def test_retry_now_of_a_dead_job_gives_it_one_more_run() -> None:
    dead = decide(job(retry=3, retry_count=2))
    assert isinstance(dead, Dead)
    by_hand = payload.splice(dead.payload, {"retry_count": fields_of(dead)["retry_count"] - 1})
    assert isinstance(decide(Message(by_hand, "default")), Dead)


# --- retry_for


@pytest.mark.parametrize(
    ("fields", "retried"),
    [
        ({"retry_for": 60, "failed_at": NOW - 59}, True),
        ({"retry_for": 60, "failed_at": NOW - 60}, True),
        ({"retry_for": 60, "failed_at": NOW - 60.5}, False),
        ({"retry_for": 60.5, "failed_at": NOW - 60.5}, True),
        ({"retry_for": 60, "failed_at": int((NOW - 59) * 1000)}, True),
        ({"retry_for": 60, "failed_at": int((NOW - 61) * 1000)}, False),
        ({"retry_for": 60, "failed_at": "2025-02-14 08:43:00 UTC"}, True),
        ({"retry_for": 60, "failed_at": "2025-02-14 08:42:00 UTC"}, False),
        ({"retry_for": 60, "failed_at": "no time"}, True),
        ({"retry_for": 60}, True),
        ({"retry_for": 0}, True),
        ({"retry_for": -1}, False),
        ({"retry_for": 60, "failed_at": NOW - 59, "retry": 5, "retry_count": 90}, True),  # from 8.1 on only time counts
        ({"retry_for": 60, "failed_at": NOW - 61, "retry": 5, "retry_count": 0}, False),
        ({"retry_for": 10**400, "failed_at": NOW - 1}, True),
        ({"retry_for": 60, "failed_at": 10**400}, True),
        ({"retry_for": None, "retry": 5, "retry_count": 4}, False),
        ({"retry_for": True, "retry": 5, "retry_count": 4}, False),
        ({"retry_for": "60", "retry": 5, "retry_count": 4}, False),
    ],
)
def test_retry_for_is_counted_from_the_first_failure(fields: dict[str, Any], retried: bool) -> None:
    assert isinstance(decide(job(**fields)), Retry if retried else Dead)


def test_retry_for_without_end_is_read_too() -> None:
    raw = b'{"class":"A","jid":"1","retry_for":1e300,"failed_at":1.5}'
    retried = decide(Message(raw, "default"))
    assert isinstance(retried, Retry)
    assert payload.read(retried.payload)["args"] == [], "Sidekiq's client refuses a job without"
    # 1e400 means no end either, but it is infinite to Ruby, which would lose the job from the retry set.
    assert isinstance(decide(Message(raw.replace(b"300", b"400"), "default")), Dead)


def test_retry_for_does_not_revive_a_job_that_wants_no_retry() -> None:
    assert decide(job(retry=False, retry_for=60)) is DISCARD


# --- the delay


@pytest.mark.parametrize(("count", "seconds", "jitter"), [(0, 15, 10), (1, 16, 20), (2, 31, 30), (24, 331_791, 250)])
def test_the_delay_is_sidekiqs(count: int, seconds: int, jitter: int) -> None:
    asked: list[int] = []

    def random_below(below: int) -> int:
        asked.append(below)
        return below - 1

    message = job(retry=25, retry_count=ABSENT if count == 0 else count - 1)
    outcome = RetryPolicy(random_below=random_below).decide(message, BOOM, CodeOptions(), NOW)
    assert isinstance(outcome, Retry)
    assert outcome.at == NOW + seconds + jitter - 1
    assert asked == [jitter]


@given(st.integers(-3, 30))
@examples(50)
def test_the_jitter_stays_in_its_bounds(count: int) -> None:
    outcome = RetryPolicy().decide(job(retry=100, retry_count=count - 1), BOOM, CodeOptions(), NOW)
    assert isinstance(outcome, Retry)
    c = max(count, 0)
    assert c**4 + 15 <= outcome.at - NOW <= c**4 + 15 + 10 * (c + 1) - 1


@pytest.mark.parametrize("count", [10**6, 2**62, -(2**62)])
def test_a_strangers_count_makes_a_delay_that_a_sorted_set_can_hold(count: int) -> None:
    outcome = decide(job(retry=2**63 - 1, retry_count=count))
    assert isinstance(outcome, Retry)
    assert NOW < outcome.at < 1e13


# --- options in the job's code


def at_of(outcome: Outcome) -> float:
    assert isinstance(outcome, Retry)
    return outcome.at - NOW


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize(
    ("wish", "seconds"),
    [(7, 7), (0.5, 0.5), (86_400, 86_400), (None, 15), (0, 15), (-5, 15), (math.nan, 15), (math.inf, 15), (1e300, 15),
     (10**400, 15), ("soon", 15), ([7], 15)],
)  # fmt: skip
def test_retry_in_sets_the_delay_or_the_default_applies(wish: Any, seconds: float, as_function: bool) -> None:
    retry_in = (lambda count, error: wish) if as_function else wish
    if not as_function and not (wish is None or (isinstance(wish, int | float) and 0 < wish < math.inf)):
        with pytest.raises(ArgumentError, match=r"^retry_in must be seconds above 0"):
            checked({"retry_in": retry_in}, CodeOptions)
        return
    assert at_of(decide(job(), retry_in=retry_in)) == pytest.approx(seconds)


class Incomparable:
    """Raises when it is compared, as an array of numpy does."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None


@pytest.mark.parametrize("wish", [0, math.nan, "soon", Incomparable()])
def test_a_retry_in_that_is_no_delay_is_a_warning(wish: Any, caplog: pytest.LogCaptureFixture) -> None:
    decide(job(), retry_in=lambda count, error: wish)
    assert f"retry_in gave {wish!r}" in caplog.text


def test_retry_in_is_called_with_the_count_and_the_error_and_gets_jitter() -> None:
    asked = []

    def retry_in(count: int, error: BaseException) -> float:
        asked.append((count, error))
        return 100

    policy = RetryPolicy(random_below=lambda below: below - 1)
    assert at_of(policy.decide(job(retry_count=1), BOOM, CodeOptions(retry_in=retry_in), NOW)) == 100 + 29
    assert asked == [(2, BOOM)]


@pytest.mark.parametrize(("wish", "kind"), [("discard", type(DISCARD)), ("kill", Dead)])
def test_retry_in_may_discard_or_kill(wish: str, kind: type[Outcome]) -> None:
    assert isinstance(decide(job(), retry_in=lambda count, error: wish), kind)
    assert isinstance(decide(job(), retry_in=wish), kind)


class Unwanted(DiscardJob):
    pass


class Hopeless(KillJob):
    pass


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(DiscardJob(), type(DISCARD)), (Unwanted(), type(DISCARD)), (KillJob(), Dead), (Hopeless(), Dead)],
)
def test_retry_in_may_raise_discard_job_or_kill_job(raised: BaseException, kind: type[Outcome]) -> None:
    assert isinstance(decide(job(), retry_in=raising(raised)), kind)


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(1), KeyboardInterrupt(), RetryJob(delay=3)])
def test_retry_in_that_fails_is_reported_and_the_default_applies(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    assert at_of(decide(job(), retry_in=raising(raised))) == 15
    assert "retry_in failed" in caplog.text


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        raise error

    return function


def test_retry_in_does_not_lift_the_limit() -> None:
    assert isinstance(decide(job(retry=2, retry_count=1), retry_in=60), Dead)


def test_retry_in_is_not_called_for_a_job_without_retries() -> None:
    assert decide(job(retry=False), retry_in=raising(AssertionError("asked"))) is DISCARD


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(RetryJob(delay=3), 3), (RetryJob(delay=0), 0), (RetryJob(at=NOW + 4.5), 4.5), (RetryJob(at=NOW - 100), 0)],
)
def test_a_job_may_say_when_it_runs_again(error: RetryJob, seconds: float) -> None:
    assert at_of(decide(job(), error, retry_in=99)) == seconds


def test_retry_job_counts_as_a_failure() -> None:
    fields = fields_of(decide(job(retry=3, retry_count=1), RetryJob("later", delay=3)))
    assert (fields["retry_count"], fields["error_message"]) == (2, "later")
    assert isinstance(decide(job(retry=3, retry_count=2), RetryJob(delay=3)), Dead)
    assert decide(job(retry=False), RetryJob(delay=3)) is DISCARD


@pytest.mark.parametrize("error", [DiscardJob(), Unwanted("no more")])
def test_a_job_may_discard_itself(error: DiscardJob) -> None:
    assert decide(job(), error) is DISCARD
    assert decide(job(retry=0), error) is DISCARD


@pytest.mark.parametrize("error", [KillJob(), Hopeless("no hope")])
def test_a_job_may_go_to_the_dead_set_at_once(error: KillJob) -> None:
    fields = fields_of(decide(job(retry=25), error))
    assert fields["retry_count"] == 0
    assert isinstance(decide(job(), error), Dead)
    assert isinstance(decide(job(retry=False), error), Dead)  # no retry, but KillJob asks for a burial


@pytest.mark.parametrize(
    ("of_payload", "of_code", "buried"),
    [
        (ABSENT, True, True),
        (ABSENT, False, False),
        (None, False, False),
        (True, False, True),
        (False, True, False),
        (0, True, True),  # to Ruby only false and null are not true
        ("false", True, True),
    ],
)
@pytest.mark.parametrize("error", [BOOM, KillJob()])
def test_dead_says_whether_an_exhausted_job_is_buried(
    of_payload: Any, of_code: bool, buried: bool, error: BaseException
) -> None:
    outcome = decide(job(retry=0, dead=of_payload), error, dead=of_code)
    assert isinstance(outcome, Dead) if buried else outcome is DISCARD


# --- the rewritten job


def test_a_failure_leaves_sidekiqs_fields_in_their_order() -> None:
    raw = b'{"retry":true,"queue":"q","args":[1.10],"class":"A","jid":"1","created_at":1.50,"enqueued_at":2.50}'
    first = decide(Message(raw, "q"), backtrace=False)
    assert isinstance(first, Retry)
    assert first.payload == raw[:-1] + (
        b',"error_message":"boom","error_class":"RuntimeError","retry_count":0,"failed_at":1739522590.25}'
    )
    second = decide(Message(first.payload, "q"), KeyError("é"), now=NOW + 60, backtrace=False)
    assert isinstance(second, Retry)
    assert second.payload.decode() == raw.decode()[:-1] + (
        ',"error_message":"\'é\'","error_class":"KeyError","retry_count":1,"failed_at":1739522590.25,'
        '"retried_at":1739522650.25}'
    )


def test_a_fleet_of_sidekiq_8_gets_milliseconds() -> None:
    def written(**fields: Any) -> bytes:
        return fields_raw(decide(job(**fields), style="ms", backtrace=False))

    assert b'"failed_at":1739522590250}' in written()
    assert b'"retried_at":1739522590250}' in written(retry_count=0)
    assert b'"failed_at":1739522580000,' in written(retry_count=0, failed_at="2025-02-14 08:43:00 UTC")


@pytest.mark.parametrize(
    ("fields", "of_code", "queue"),
    [
        ({}, "", "fetched"),
        ({"queue": "elsewhere"}, "", "fetched"),
        ({"queue": "ns:fetched"}, "", "fetched"),  # go-workers leaks its namespace into what it retries
        ({"retry_queue": "slow"}, "", "slow"),
        ({"retry_queue": "slow"}, "code", "slow"),
        ({}, "code", "code"),
        ({"retry_queue": ""}, "code", "code"),
        ({"retry_queue": None}, "", "fetched"),
        ({"retry_queue": 5}, "", "fetched"),
    ],
)
def test_a_retry_goes_to_its_retry_queue_or_where_it_came_from(
    fields: dict[str, Any], of_code: str, queue: str
) -> None:
    assert fields_of(decide(job("fetched", **fields), retry_queue=of_code))["queue"] == queue


def test_a_retry_queue_that_cannot_be_a_key_is_ignored() -> None:
    message = Message(b'{"class":"A","jid":"1","retry_queue":"\\ud800"}', "default")
    assert fields_of(decide(message))["queue"] == "default"


@pytest.mark.parametrize("field", ["created_at", "enqueued_at", "failed_at", "retried_at"])
@pytest.mark.parametrize(("text", "time"), [("2025-02-14 08:43:00 UTC", 1739522580.0), ("soon", None)])
def test_gos_text_times_become_numbers(field: str, text: str, time: float | None) -> None:
    count = 1 if field == "failed_at" else ABSENT
    assert fields_of(decide(job(retry_count=count, **{field: text})))[field] == time


def test_the_first_failure_gets_the_current_time_whatever_a_stranger_wrote() -> None:
    assert fields_of(decide(job(failed_at="2025-02-14 08:43:00 UTC")))["failed_at"] == NOW


@pytest.mark.parametrize("time", ["1739522590", "1739522590123", "1.5e9", "1739522590.10", "null", "[1]"])
def test_other_times_stay_as_they_were_written(time: str) -> None:
    message = Message(f'{{"class":"A","jid":"1","enqueued_at":{time},"created_at":{time}}}'.encode(), "default")
    texts = field_texts(fields_raw(decide(message)))
    assert texts["enqueued_at"] == texts["created_at"] == time


def test_at_is_dropped_since_sidekiq_would_schedule_the_job_again() -> None:
    assert "at" not in fields_of(decide(job(at=1.5)))
    assert "at" not in fields_of(decide(job(at=1.5, retry=0)))


def test_a_failed_run_ends_the_count_of_deaths_since_its_process_survived_it() -> None:
    assert "recovered" not in fields_of(decide(job(recovered=[NOW - 60])))
    assert "recovered" not in fields_of(decide(job(recovered=[NOW - 60], retry=0)))


@pytest.mark.parametrize("jid", [ABSENT, "", None])
def test_a_job_without_a_jid_gets_one_so_that_two_of_them_do_not_become_one(jid: Any) -> None:
    one, other = fields_of(decide(job(jid=jid)))["jid"], fields_of(decide(job(jid=jid)))["jid"]
    assert re.fullmatch("[0-9a-f]{24}", one)
    assert one != other


def test_arguments_that_a_middleware_changed_are_not_retried() -> None:
    message = job(args=[1, 2])
    message.args = ["changed"]
    assert fields_of(decide(message))["args"] == [1, 2]


def test_numbers_of_any_size_do_not_keep_a_job_from_its_retry() -> None:
    many = b"9" * 5_000
    for field in (b"retry", b"retry_count", b"retry_max", b"retry_for", b"failed_at", b"backtrace", b"enqueued_at"):
        raw = b'{"class":"A","jid":"1","args":[%s],"%s":%s}' % (many, field, many)
        outcome = decide(Message(raw, "default"))
        assert isinstance(outcome, Retry)
        assert field_texts(outcome.payload)["args"] == f"[{many.decode()}]"


_WRITTEN = {"queue", "error_message", "error_class", "retry_count", "failed_at", "retried_at", "error_backtrace", "jid"}


_TIMES = {"created_at", "enqueued_at", "failed_at", "retried_at"}


_ERRORS = [BOOM, RetryJob(delay=1), KillJob(), ValueError("\ud800"), ValueError(b"\xff"), SystemExit()]


@given(JOBS, st.sampled_from(_ERRORS), st.sampled_from([True, 0, 3]), st.sampled_from(["seconds", "ms"]))
@examples(150)
def test_any_job_fails_properly_and_keeps_its_other_fields(
    raw: bytes, error: BaseException, retry: bool | int, style: str
) -> None:
    before, message = field_texts(raw), Message(raw, "default")
    policy = RetryPolicy(timestamps=Timestamps(style))
    outcome = policy.decide(message, error, CodeOptions(retry=retry, backtrace=5), NOW)
    if outcome is DISCARD:
        assert message.get("retry") is False or message.get("dead") is False
        return
    assert isinstance(outcome, Retry | Dead)
    if isinstance(outcome, Retry):
        assert NOW <= outcome.at < 1e13
    after = field_texts(outcome.payload)
    assert payload.read(outcome.payload)["queue"]
    for name, text in before.items():
        if (name, text) == ("args", "null"):
            assert after["args"] == "[]"
        elif name not in _WRITTEN and name != "at" and not (name in _TIMES and text.startswith('"')):
            assert after[name] == text.replace("\n", "").replace("\r", "")
    assert set(after) <= set(before) | _WRITTEN | {"args"}
