"""Ruby pushes jobs in batches and under locks, Python runs them, and Ruby's own gems acknowledge their echoes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from gems import ECHOES, Gems
from programs import Ruby
from waiting import eventually

from goworkers_py import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.for_ruby.options import EchoConfig

pytestmark = pytest.mark.usefixtures("has_sidekiq")


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="py", concurrency=2)) as app:
        app.use(dataclasses.replace(app.config, sections=(EchoConfig(queue=ECHOES),)))
        app.job("PyReport", queue="py")(report)
        app.job("PyUnique", queue="py")(report)
        yield app


def report(word: str) -> None:
    if word == "fails":
        raise ValueError("failed <on purpose> é")


def told(redis: redis_py.Redis, name: str) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in redis.lrange(name, 0, -1)]


def test_a_batch_of_ruby_succeeds_when_its_jobs_have_ended_in_python(
    app: App, gems: Gems, redis: redis_py.Redis
) -> None:
    batch = gems("batch", "a", "b")
    with working(app), gems.sidekiq():
        assert eventually(lambda: len(redis.lrange("called", 0, -1)) == 2)
    assert {one["event"] for one in told(redis, "called")} == {"success", "complete"}
    assert [one["options"]["of"] for one in told(redis, "called")] == [batch["bid"]] * 2
    assert redis.exists("died", "retry", "dead") == 0


def test_a_batch_with_a_death_in_python_completes_with_a_failure_and_runs_death_handlers(
    app: App, gems: Gems, redis: redis_py.Redis
) -> None:
    batch = gems("batch", "a", "fails")
    redis.lset("queue:py", 0, _without_retry(redis.lindex("queue:py", 0)))
    with working(app), gems.sidekiq() as sidekiq:
        assert eventually(lambda: len(redis.lrange("called", 0, -1)) == 1)
        assert sidekiq.says("class=PyReport")
        assert eventually(lambda: redis.llen("died") == 1)  # a stop would end the run before, if that takes 2 s
    [called] = told(redis, "called")
    assert (called["event"], called["failures"]) == ("complete", 1)
    [died] = told(redis, "died")
    assert died == {
        "jid": batch["jids"][1],
        "class": "PyReport",
        "error": "Pyworkers::Echoes::Died",
        "message": "ValueError: failed <on purpose> é",
    }
    assert redis.zcard("dead") == 1  # the job's own, and none for the echo


def _without_retry(raw: bytes) -> bytes:
    return json.dumps({**json.loads(raw), "retry": 0}).encode()


def test_a_job_that_fails_and_then_succeeds_has_one_echo(app: App, gems: Gems, redis: redis_py.Redis) -> None:
    failures = ["first", "second"]

    @app.job("Flaky", queue="py", retry_in=lambda *_: 0.05)
    def flaky(word: str) -> None:
        if failures:
            raise ValueError(failures.pop())

    gems("batch-of", "Flaky", "a", "b")
    with working(app), gems.sidekiq():
        assert eventually(lambda: len(redis.lrange("called", 0, -1)) == 2)
    assert failures == []
    assert [one["failures"] for one in told(redis, "called")] == [0, 0]
    assert redis.exists("died") == 0


def test_an_echo_runs_the_middleware_of_every_sidekiq_and_not_the_job(
    app: App, ruby: Ruby, redis: redis_py.Redis
) -> None:
    app.job("FailingJob", queue="py")(report)  # in Ruby its code always raises
    app.job("Nowhere::PyJob", queue="py")(report)
    for name, word in (("FailingJob", "a"), ("Nowhere::PyJob", "a"), ("FailingJob", "fails")):
        ruby.produce("push", "--queue", "py", "--class", name, "--args", json.dumps([word]), bid="b", retry=0)
    with working(app), ruby.sidekiq(ECHOES, program="plain_echoes.rb"):
        assert eventually(lambda: redis.llen("ran") == 2 and redis.llen("died") == 1)
    assert {one["class"] for one in told(redis, "ran")} == {"FailingJob", "Nowhere::PyJob"}
    [died], [raised] = told(redis, "died"), told(redis, "raised")
    assert died == {
        "jid": raised["jid"],
        "class": "FailingJob",
        "error": "Pyworkers::Echoes::Died",
        "message": "ValueError: failed <on purpose> é",
    }
    assert not redis.exists("retry")
    assert redis.zcard("dead") == 1  # the job's own, and none for the echo


@pytest.mark.parametrize("name", ["add", "Nowhere::PyJob", "String"])
def test_a_class_that_ruby_lacks_has_its_echo_too(app: App, gems: Gems, redis: redis_py.Redis, name: str) -> None:
    app.job(name, queue="py")(lambda word: None)
    gems("batch-of", name, "a")
    with working(app), gems.sidekiq():
        assert eventually(lambda: len(redis.lrange("called", 0, -1)) == 2)
    assert redis.exists("retry", "dead", "died") == 0


@pytest.mark.parametrize("word", ["a", "fails"])
def test_a_lock_of_ruby_is_freed_when_its_job_has_ended_in_python(
    app: App, gems: Gems, redis: redis_py.Redis, word: str
) -> None:
    jid = gems.push("PyUnique", word)
    assert jid
    assert gems.push("PyUnique", word) is None
    [digest] = gems.digests()
    if word == "fails":
        redis.lset("queue:py", 0, _without_retry(redis.lindex("queue:py", 0)))
    with working(app), gems.sidekiq():
        assert eventually(lambda: not redis.exists(f"{digest}:LOCKED", digest))
        assert eventually(lambda: len(redis.lrange("died", 0, -1)) == (word == "fails"))
    assert gems.digests() == []
    assert gems.push("PyUnique", word) not in (None, jid)
