"""The table of a job's options: every place that takes options checks them by the table."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_py
from apps import queue

from goworkers_py import App, ArgumentError, ConfigError, EnqueueOptions, Job
from goworkers_py.config.job_options import CodeOptions, PushOptions, SetOptions, WireOptions, options_of
from goworkers_py.core.errors import WorkersError
from goworkers_py.core.outcome import Dead, Retry
from goworkers_py.features.job_options import FeatureOptions
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire.message import Message

NOW = 1_700_000_000.0

# A value of each option in WireOptions, and its form in the payload.
VALUES: dict[str, tuple[Any, Any]] = {
    "retry": (3, 3),
    "retry_max": (4, 4),
    "retry_for": (90.5, 90),
    "retry_queue": ("slow", "slow"),
    "dead": (False, False),
    "backtrace": (5, 5),
    "tags": (("a", "b"), ["a", "b"]),
    "timeout": (1.5, 1.5),
    "track": (True, True),
    "retain": (90.5, 90),
    "time_slice": (1.5, 1.5),
    "checkpoint": (2, 2),
    "log_level": ("debug", "debug"),
}
SAID = {name: said for name, (said, _) in VALUES.items()}
WRITTEN = {name: written for name, (_, written) in VALUES.items()}


Declare = Callable[..., Any]


def places(app: App) -> dict[str, Declare]:
    return {
        "@job": lambda **options: app.job("Other", **options)(print),
        "set()": app.job("J", queue="q")(run).set,
        "EnqueueOptions": EnqueueOptions,
    }


def run() -> None: ...


def pushed(redis: redis_py.Redis) -> dict[str, Any]:
    (job,) = map(json.loads, queue(redis))
    redis.delete("queue:q")
    return {name: value for name, value in job.items() if name in VALUES}


# Together they are one field of the payload, see tests/features/unique/test_api.py.
GROUPED = {"group_grace", "group_max_delay", "group_max_size"}
PRIORITY = {"priority"}  # it is no field: it chooses the queue, see tests/runtime/test_priorities.py


def test_every_wire_option_of_the_engine_has_a_value_in_this_test() -> None:
    """Those of a feature have tests in its folder."""
    of_engine = set(options_of(WireOptions)) - set(options_of(FeatureOptions))
    assert of_engine <= set(VALUES) | GROUPED | PRIORITY


def test_the_decorator_set_and_a_push_write_the_same_fields(app: App, redis: redis_py.Redis) -> None:
    app.job("Said", queue="q", **SAID)(run).enqueue()
    assert pushed(redis) == WRITTEN
    app.job("Unsaid", queue="q")(run).set(**SAID).enqueue()
    assert pushed(redis) == WRITTEN
    app.enqueue_with_options("q", "Unsaid", [], EnqueueOptions(**SAID))
    assert pushed(redis) == WRITTEN


def test_options_given_at_enqueue_override_the_decorators(app: App, redis: redis_py.Redis) -> None:
    others: dict[str, Any] = {
        "retry": False, "retry_max": 0, "retry_for": 5, "retry_queue": "other", "dead": True, "backtrace": False,
        "tags": [], "timeout": 9, "track": False, "retain": 7, "time_slice": 8, "checkpoint": 9,
        "log_level": "error",
    }  # fmt: skip
    job = app.job("J", queue="q", **SAID)(run)
    job.set(**others).enqueue()
    assert pushed(redis) == others
    job.set(**others).set(retry=7).enqueue()
    assert pushed(redis) == {**others, "retry": 7}
    job.enqueue()
    assert pushed(redis) == WRITTEN


def test_none_removes_an_option_of_an_earlier_set(app: App, redis: redis_py.Redis) -> None:
    job = app.job("J", queue="q", retry=7)(run)
    job.set(at=time.time() + 3_600).set(at=None).enqueue()
    assert pushed(redis) == {"retry": 7}
    job.set(retry=5).set(retry=None).enqueue()
    assert pushed(redis) == {"retry": 7}
    for name in (None, ""):
        job.set(queue="slow").set(queue=name).enqueue()
        assert pushed(redis) == {"retry": 7}


def test_an_empty_retry_queue_counts_as_not_given(app: App, redis: redis_py.Redis) -> None:
    job = app.job("J", queue="q", retry_queue="")(run)
    job.enqueue()
    assert pushed(redis) == {"retry": True}
    assert app.registry.queues() == ["q"]
    job.set(retry_queue="slow").set(retry_queue="").enqueue()
    assert pushed(redis) == {"retry": True}


def test_tags_may_be_a_set(app: App, redis: redis_py.Redis) -> None:
    app.job("J", queue="q", tags={"b", "a", "c"})(run).enqueue()
    assert pushed(redis) == {"retry": True, "tags": ["a", "b", "c"]}


def test_options_that_older_programs_give_in_extra_are_accepted_there(app: App, redis: redis_py.Redis) -> None:
    extra = {"retry_max": 4, "log_level": "debug"}
    job = app.job("J", queue="q", retry_max=9, log_level="info")(run).set(extra=extra)
    job.enqueue()
    assert pushed(redis) == {"retry": True, **extra}
    job.set(retry_max=5).enqueue()
    assert pushed(redis) == {"retry": True, "retry_max": 5, "log_level": "debug"}
    with pytest.raises(ArgumentError, match="log_level must be one of"):
        EnqueueOptions(extra={"log_level": "loud"})


def test_an_option_that_is_not_given_is_not_written(app: App, redis: redis_py.Redis) -> None:
    nothing = dict.fromkeys(VALUES)
    app.job("J", queue="q", **nothing)(run).set(**nothing).enqueue()
    assert pushed(redis) == {"retry": True}


@pytest.mark.parametrize("place", ["@job", "set()", "EnqueueOptions"])
@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"retries": 3}, "retries is not an option; did you mean 'retry'?"),
        ({"loglevel": "debug"}, "loglevel is not an option; did you mean 'log_level'?"),
        ({"colour": "red"}, "colour is not an option"),
        ({"retry": "yes"}, "retry must be true, false or a number of retries, is 'yes'"),
        ({"retry": -1}, "retry must be true, false or a number of retries, is -1"),
        ({"retry_max": True}, "retry_max must be a number of retries, is True"),
        ({"tags": "ml"}, "tags must be a list of strings, is 'ml'"),
        ({"timeout": 0}, "timeout must be seconds above 0, is 0"),
        ({"log_level": "loud"}, "log_level must be one of debug, info, warn, warning, error, fatal, is 'loud'"),
        ({"dead": "no"}, "dead must be a bool, is 'no'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unknown_option_or_a_wrong_value_is_refused_at_the_call(
    place: str, option: dict[str, Any], told: str, app: App
) -> None:
    kind: type[WorkersError] = ConfigError if place == "@job" else ArgumentError
    with pytest.raises(kind, match=f"{re.escape(told)}$"):
        places(app)[place](**option)


@pytest.mark.parametrize(
    ("place", "option", "told"),
    [
        ("@job", {"deadline": NOW}, "deadline is not an option of @job; it is one of job.set(...)"),
        ("@job", {"jid": "x"}, "jid is not an option of @job; it is one of job.set(...)"),
        ("set()", {"retry_in": 5}, "retry_in is not an option of job.set(...); it is one of @job"),
        ("EnqueueOptions", {"queue": "q"}, "queue is not an option of EnqueueOptions; it is one of @job"),
    ],
)
def test_an_option_that_belongs_elsewhere_says_where(place: str, option: dict[str, Any], told: str, app: App) -> None:
    with pytest.raises(WorkersError, match=f"{re.escape(told)}$"):
        places(app)[place](**option)


@pytest.mark.parametrize(
    ("place", "bad"),
    [("@job", ""), *((place, bad) for place in ("@job", "set()") for bad in (5, "\ud800"))],
)
def test_a_queue_is_a_name(place: str, bad: Any, app: App) -> None:
    with pytest.raises(WorkersError, match="queue must be a name"):
        places(app)[place](queue=bad)


# --- the options of the job's code apply when the payload has none


def decided(code: CodeOptions, now: float = NOW, **fields: Any) -> Any:
    message = Message(json.dumps({"class": "J", "args": [], "jid": "x", **fields}).encode(), "q")
    return RetryPolicy(max_retries=9).decide(message, ValueError(), code, now)


def test_retry_max_of_the_code_limits_the_retries_of_a_job_with_retry_true() -> None:
    code = CodeOptions(retry_max=2)
    assert isinstance(decided(code, retry=True, retry_count=0), Retry)
    assert isinstance(decided(code, retry=True, retry_count=1), Dead)
    assert isinstance(decided(code, retry=True, retry_max=4, retry_count=1), Retry), "the payload overrides"
    assert isinstance(decided(code, retry=4, retry_count=1), Retry)


def test_retry_for_of_the_code_ends_the_retries_by_time() -> None:
    code = CodeOptions(retry_for=60)
    assert isinstance(decided(code, retry_count=50, failed_at=NOW - 59), Retry)
    assert isinstance(decided(code, retry_count=0, failed_at=NOW - 61), Dead)
    assert isinstance(decided(code, retry_count=0, failed_at=NOW - 61, retry_for=90), Retry)


def test_the_log_level_of_the_code_applies_when_the_payload_has_none() -> None:
    app = App()
    app.job("J", log_level="debug")(run)
    assert app.registry.any_log_levels
    for fields, level in (({}, 10), ({"log_level": "error"}, 40), ({"log_level": "shout"}, None)):
        message = Message(json.dumps({"class": "J", "args": [], **fields}).encode(), "q")
        assert app.registry.log_level_for(message) == level


# --- signatures and docs


def test_the_signatures_are_the_table() -> None:
    """An editor shows the options from the signatures."""
    for function, table in (
        (App.job, CodeOptions),
        (App.defaults, CodeOptions),
        (Job.set, SetOptions),
        (EnqueueOptions.__init__, PushOptions),
    ):
        assert function.__annotations__["options"] == f"Unpack[{table.__name__}]"


@pytest.mark.parametrize("name", ["a\ud800", "x" * 1_001])
@pytest.mark.parametrize("option", ["jid", "group", "retry_queue"])
def test_a_name_that_no_worker_takes_is_refused_at_the_push(option: str, name: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{option} must be a "):
        EnqueueOptions(**{option: name})  # type: ignore[arg-type]
