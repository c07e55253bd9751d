"""A job that would start too late is dropped, counted and told of. It never runs."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest
import redis as redis_py
from apps import in_progress, job, own_app, queue, working
from waiting import eventually

from goworkers_py import Message, current_message
from goworkers_py.core.outcome import EXPIRED
from goworkers_py.features.expiry.api import handlers_of
from goworkers_py.features.expiry.run import ExpiringRuns
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.registry import Registry

NOW = 1_700_000_000.0


def message(**fields: Any) -> Message:
    return Message(job("J", jid="abc", **fields), "q")


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def expiry(registry: Registry, counters: Counters) -> ExpiringRuns:
    return ExpiringRuns(registry, counters, lambda: NOW)


# --- which jobs expire


@pytest.mark.parametrize(
    ("field", "value", "dropped"),
    [
        ("expires_at", NOW - 0.001, True),
        ("expires_at", NOW, False),
        ("expires_at", NOW + 1, False),
        ("expires_at", int(NOW) - 1, True),
        ("expires_at", int(NOW * 1000) - 1, True),  # Sidekiq 8's milliseconds
        ("expires_at", int(NOW * 1000) + 1, False),
        ("expires_at", "2023-11-14 22:13:19 UTC", False),  # go-workers' text: only a number is a time
        ("expiry", NOW - 1, True),  # Sidekiq Pro's
        ("expiry", NOW + 1, False),
    ],
)
def test_a_job_expires_when_its_time_has_passed(field: str, value: Any, dropped: bool, expiry: ExpiringRuns) -> None:
    assert expiry.dropped(message(**{field: value})) is (EXPIRED if dropped else None)


def test_our_own_field_overrides_that_of_sidekiq_pro(expiry: ExpiringRuns) -> None:
    assert expiry.dropped(message(expires_at=NOW + 1, expiry=NOW - 1)) is None


@pytest.mark.parametrize("value", [None, True, "noon", [], {}, 1e30])
def test_what_is_no_time_is_told_and_the_job_does_not_expire(
    value: Any, expiry: ExpiringRuns, caplog: pytest.LogCaptureFixture
) -> None:
    assert expiry.dropped(message(expires_at=value)) is None
    assert caplog.messages == ["its expires_at is no time in epoch seconds: the job does not expire"]


# --- what becomes known of it


def test_a_job_that_expired_is_logged_counted_and_told(
    expiry: ExpiringRuns, registry: Registry, counters: Counters, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    handlers_of(registry).append(lambda message: told.append(message.jid))
    caplog.set_level(logging.INFO)
    expiry.dropped(message(expires_at=NOW - 2.5))
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("INFO", "expired: not begun by its expires_at, and not run")
    assert vars(record)["late"] == 2.5
    assert told == ["abc"]
    assert counters.snapshot() == {"expired": 1}


def test_a_handler_that_raises_changes_nothing_for_the_job_and_the_other_handlers(
    expiry: ExpiringRuns, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fails(message: Message) -> None:
        raise SystemExit

    handlers_of(registry)[:] = [fails, lambda message: told.append(message.jid)]
    assert expiry.dropped(message(expires_at=NOW - 1)) is EXPIRED
    assert told == ["abc"]
    assert "fails" in caplog.text


# --- a daemon


def test_a_job_that_would_start_too_late_never_runs(redis_url: str, redis: redis_py.Redis) -> None:
    ran: list[str] = []
    told: list[tuple[str, bool]] = []
    with own_app(redis_url) as app:
        late = app.job("Late", queue="q", expires_in=0.001)(lambda: ran.append("late"))
        app.job("Ruby", queue="q")(lambda: ran.append("ruby"))
        timely = app.job("Timely", queue="q", expires_in=3_600)(lambda: ran.append("timely"))

        @app.on_expire
        def expired(message: Message) -> None:
            told.append((message.job_class, current_message() is message))

        late.enqueue()
        redis.lpush("queue:q", job("Ruby", expires_at=time.time() - 1))
        time.sleep(0.01)
        timely.enqueue()
        with working(app):
            assert eventually(lambda: ran == ["timely"] and not in_progress(redis))
            assert sorted(told) == [("Late", True), ("Ruby", True)]
            assert eventually(lambda: (app.inspector.stats().processed, app.inspector.stats().failed) == (1, 0))
            assert app.runner._report()["counts"]["expired"] == 2
    assert not queue(redis)
    assert not redis.exists("retry", "dead", "schedule")


def test_a_retry_expires_too(redis_url: str, redis: redis_py.Redis) -> None:
    told: list[int | None] = []
    redis.zadd("retry", {job("J", retry_count=3, expires_at=time.time() - 1): 1.0})
    with own_app(redis_url) as app:
        app.job("J", queue="q")(print)
        app.on_expire(lambda message: told.append(message.retry_count))
        with working(app):
            assert eventually(lambda: told == [3] and not in_progress(redis))
    assert not redis.exists("retry", "queue:q", "dead")


def test_a_scheduled_job_expires_so_long_after_its_time(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url) as app:
        app.job("J", queue="q", expires_in=60)(print).enqueue_at(4_000_000_000)
    [(raw, at)] = redis.zrange("schedule", 0, -1, withscores=True)
    assert (at, json.loads(raw)["expires_at"]) == (4_000_000_000, 4_000_000_060)


def test_an_older_worker_is_told_that_it_must_not_run_the_job(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url) as app:
        app.job("J", queue="q", expires_in=60)(print).enqueue()
        app.job("Plain", queue="q")(print).enqueue()
    expiring, plain = map(json.loads, queue(redis))
    assert expiring["pyworkers"] == {"v": 1, "needs": ["expires"]}
    assert "pyworkers" not in plain
