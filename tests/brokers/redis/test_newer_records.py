"""Records that a newer release of pyworkers has written, in a fleet of mixed releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis as redis_py
from apps import own_app, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig

LATER = {"later": "x"}  # a field that this release does not know


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("q", 1), timeout=1) as app:
        yield app


def push_unique(app: App, ran: list[int]) -> Callable[[], bool]:
    job = app.job("One", queue="q", unique_for=600)(ran.append)
    job.enqueue(1)
    return lambda: ran == [1]


def push_batch(app: App, ran: list[int]) -> Callable[[], bool]:
    job = app.job("Part", queue="q")(ran.append)
    callback = app.job("Callback", queue="q")(ran.append)
    with app.batch("b", on_success=callback.s(9)):
        job.enqueue(1)
    return lambda: ran[:1] == [1]


def push_chain(app: App, ran: list[int]) -> Callable[[], bool]:
    job = app.job("Link", queue="q")(ran.append)
    app.chain(job.s(1), job.s(9)).enqueue()
    return lambda: ran[:1] == [1]


PUSHES = {"pyworkers:lock:*": push_unique, "pyworkers:batch:*": push_batch, "pyworkers:chain:*": push_chain}


@pytest.mark.parametrize("pattern", PUSHES)
def test_a_record_of_another_version_is_left_alone(app: App, redis: redis_py.Redis, pattern: str) -> None:
    ran: list[int] = []
    has_run = PUSHES[pattern](app, ran)
    [key] = redis.keys(pattern)
    redis.hset(key, mapping={"v": "2", **LATER})
    record = redis.hgetall(key)
    with working(app):
        assert eventually(has_run)
    assert redis.hgetall(key) == record
    assert ran == [1], "nothing came of a record that nobody here can read"


@pytest.mark.parametrize("pattern", ["pyworkers:batch:*", "pyworkers:chain:*"])
def test_a_field_that_this_release_does_not_know_stays(app: App, redis: redis_py.Redis, pattern: str) -> None:
    ran: list[int] = []
    PUSHES[pattern](app, ran)
    [key] = redis.keys(pattern)
    redis.hset(key, mapping=LATER)
    with working(app):
        assert eventually(lambda: ran == [1, 9])
    assert redis.hgetall(key).items() >= {b"later": b"x"}.items()


def test_the_settings_of_a_limit_of_another_version_are_left_alone(app: App, redis: redis_py.Redis) -> None:
    ran: list[int] = []
    app.job("Limited", queue="q", limits=[app.limit("two", concurrent=2)])(ran.append).enqueue(1)
    record = {b"v": b"2", b"later": b"x"}
    redis.hset("pyworkers:limit:two", mapping=record)  # type: ignore[arg-type]
    with working(app):
        assert eventually(lambda: redis.zcard("schedule") == 1), "it is tried again later"
    assert redis.hgetall("pyworkers:limit:two") == record
    assert ran == []


def test_the_lock_of_another_version_keeps_others_out(app: App, redis: redis_py.Redis) -> None:
    job = app.job("One", queue="q", unique_for=600)(print)
    job.enqueue(1)
    [key] = redis.keys("pyworkers:lock:*")
    redis.hset(key, "v", "2")
    assert job.enqueue(1) is None
    assert redis.hget(key, "v") == b"2"
