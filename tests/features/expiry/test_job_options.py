"""The options of expiry: each of the two replaces the other, and one counts from the push."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis as redis_py
from apps import queue

from goworkers_py import App, EnqueueOptions
from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.errors import WorkersError

NOW = 1_700_000_000.0


def test_expires_in_counts_from_the_push_or_from_the_time_of_a_scheduled_job() -> None:
    hour = EnqueueOptions(expires_in=3_600)
    assert hour.fields == {}
    assert hour.fields_at(NOW) == {"expires_at": NOW + 3_600}
    assert EnqueueOptions(expires_in=timedelta(hours=1), retry=2).fields_at(NOW) == {
        "retry": 2, "expires_at": NOW + 3_600
    }  # fmt: skip


def test_expires_at_is_written_in_epoch_seconds(app: App, redis: redis_py.Redis) -> None:
    at = datetime(2030, 1, 1, tzinfo=timezone.utc)
    app.job("J", queue="q", expires_at=at)(print).enqueue()
    app.job("J", queue="q")(print).set(expires_at=at.timestamp()).enqueue()
    app.enqueue_with_options("q", "J", [], EnqueueOptions(expires_at=at))
    assert [json.loads(raw)["expires_at"] for raw in queue(redis)] == [at.timestamp()] * 3


def test_each_expiry_of_a_push_replaces_both_of_the_decorator_and_of_an_earlier_set() -> None:
    for one, other in (({"expires_in": 60}, {"expires_at": NOW}), ({"expires_at": NOW}, {"expires_in": 60})):
        assert EnqueueOptions(**other).over(CodeOptions(**one)).said == other  # type: ignore[typeddict-item]
        assert EnqueueOptions(**one).replaced(**other).said == other
    assert EnqueueOptions(retry=1).over(CodeOptions(expires_in=60)).said == {"retry": 1, "expires_in": 60}
    assert EnqueueOptions(expires_in=60).replaced(expires_in=None).said == {}


@pytest.mark.parametrize("place", ["@job", "set()", "EnqueueOptions"])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"expires_in": 60, "expires_at": NOW}, "expires_in and expires_at are both given; give one of them"),
        ({"expires_in": 0}, "expires_in must be seconds above 0 or a timedelta, is 0"),
        ({"expires_at": "noon"}, "expires_at must be epoch seconds or a datetime, is 'noon'"),
    ],
)
def test_a_wrong_expiry_is_refused_in_every_place(place: str, options: dict[str, Any], told: str, app: App) -> None:
    declare: dict[str, Callable[..., object]] = {
        "@job": lambda **options: app.job("Other", **options)(print),
        "set()": app.job("J", queue="q")(print).set,
        "EnqueueOptions": EnqueueOptions,
    }
    with pytest.raises(WorkersError, match=re.escape(told)):
        declare[place](**options)


def test_only_an_option_that_needs_something_of_the_worker_says_so() -> None:
    assert EnqueueOptions(retry=3, timeout=5).needs == set()
    assert EnqueueOptions(expires_in=60).needs == EnqueueOptions(expires_at=NOW).needs == {"expires"}
