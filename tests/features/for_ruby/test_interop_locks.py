"""Ruby pushes jobs under locks of sidekiq-unique-jobs, and Python takes and frees these by itself: `locks = native`."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from gems import Gems
from waiting import eventually

from goworkers_py import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.for_ruby.options import EchoConfig

pytestmark = pytest.mark.usefixtures("has_sidekiq")


class Code:
    """The code of all jobs: it waits until the gate opens."""

    def __init__(self) -> None:
        self.gate, self.began, self.failures = threading.Event(), [], []
        self.gate.set()

    began: list[str]
    failures: list[Exception]

    def run(self, word: str) -> None:
        self.began.append(word)
        assert self.gate.wait(120)  # Ruby may be started meanwhile
        if self.failures:
            raise self.failures.pop()


@pytest.fixture
def code() -> Iterator[Code]:
    code = Code()
    yield code
    code.gate.set()


@pytest.fixture
def app(redis_url: str, code: Code) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="py", concurrency=2), poll_interval=0.1) as app:
        app.use(dataclasses.replace(app.config, sections=(EchoConfig(locks="native"),)))
        for name in ("PyUnique", "PyStart", "PyLasting", "PyRunning", "PyBoth"):
            app.job(name, queue="py", retry_in=lambda *_: 3_600)(code.run)
        yield app


def change(redis: redis_py.Redis, **fields: Any) -> None:
    """Changes the job that waits."""
    redis.lset("queue:py", 0, json.dumps({**json.loads(redis.lindex("queue:py", 0)), **fields}))


def idle(redis: redis_py.Redis) -> bool:
    return not redis.llen("queue:py") and not redis.keys("queue:py:*:inprogress")


def lock_keys(redis: redis_py.Redis) -> list[bytes]:
    """The keys of all locks, without the lists of those on their way to one, which live for a few seconds."""
    return [
        key for key in redis.keys("uniquejobs:*") if not key.endswith((b"QUEUED", b"PRIMED", b"changelog", b"live"))
    ]


def test_a_lock_until_the_job_has_run_is_freed_at_its_success(app: App, gems: Gems, redis: redis_py.Redis) -> None:
    jid = gems.push("PyUnique", "a")
    assert jid
    assert gems.push("PyUnique", "a") is None
    with working(app):
        assert eventually(lambda: idle(redis))
    assert lock_keys(redis) == []
    assert gems.push("PyUnique", "a") not in (None, jid)


def test_it_lasts_through_a_retry_and_is_freed_at_death(
    app: App, gems: Gems, redis: redis_py.Redis, code: Code
) -> None:
    gems.push("PyUnique", "a")
    code.failures.append(ValueError())
    with working(app):
        assert eventually(lambda: redis.zcard("retry") == 1)
    assert gems.push("PyUnique", "a") is None
    [raw] = redis.zrange("retry", 0, -1)
    redis.delete("retry")
    redis.lpush("queue:py", json.dumps({**json.loads(raw), "retry": 0}))
    code.failures.append(ValueError())
    with working(app):
        assert eventually(lambda: redis.zcard("dead") == 1)
    assert lock_keys(redis) == []
    assert gems.push("PyUnique", "a")


def test_a_lock_until_the_job_begins_is_free_while_it_runs_and_taken_again_for_its_retry(
    app: App, gems: Gems, redis: redis_py.Redis, code: Code
) -> None:
    gems.push("PyStart", "a")
    assert gems.push("PyStart", "a") is None
    code.gate.clear()
    code.failures.append(ValueError())
    with working(app):
        assert eventually(lambda: code.began == ["a"])
        assert lock_keys(redis) == []
        code.gate.set()
        assert eventually(lambda: redis.zcard("retry") == 1)
    assert gems.push("PyStart", "a") is None
    redis.zadd("retry", {redis.zrange("retry", 0, -1)[0]: 1})
    with working(app):
        assert eventually(lambda: code.began == ["a", "a"] and idle(redis))
    assert lock_keys(redis) == []
    assert gems.push("PyStart", "a")


def test_a_retry_does_not_take_the_lock_of_the_next_job(
    app: App, gems: Gems, redis: redis_py.Redis, code: Code
) -> None:
    gems.push("PyStart", "a")
    code.gate.clear()
    code.failures.append(ValueError())
    with working(app):
        assert eventually(lambda: code.began == ["a"])
        app.inspector.pause("py")
        launcher = app.runner.in_background and app.runner.in_background.main
        assert launcher is not None
        assert eventually(lambda: launcher._services.pauses._paused == {"py"})
        following = gems.push("PyStart", "a")
        assert following
        code.gate.set()
        assert eventually(lambda: redis.zcard("retry") == 1)
        [digest] = gems.digests()
        assert redis.hkeys(f"{digest}:LOCKED") == [following.encode()]


def test_a_lasting_lock_stays_after_a_success_and_is_freed_at_death(
    app: App, gems: Gems, redis: redis_py.Redis, code: Code
) -> None:
    for word, failures in (("a", []), ("b", [ValueError()])):
        assert gems.push("PyLasting", word)
        change(redis, retry=0)
        code.failures += failures
        with working(app):
            assert eventually(lambda: idle(redis))
    assert gems.push("PyLasting", "a") is None
    assert gems.push("PyLasting", "b")


@pytest.mark.parametrize("name", ["PyRunning", "PyBoth"])
def test_two_jobs_of_one_lock_do_not_run_at_the_same_time(
    app: App, gems: Gems, redis: redis_py.Redis, code: Code, name: str
) -> None:
    """The second one waits among the scheduled jobs, or is rejected where its options say so."""
    first = gems.push(name, "a")
    assert first
    code.gate.clear()
    with working(app):
        assert eventually(lambda: code.began == ["a"])
        second = gems.push(name, "a")
        goes_to = "dead" if name == "PyBoth" else "schedule"
        assert eventually(lambda: redis.zcard(goes_to) == 1)
        [raw] = redis.zrange(goes_to, 0, -1)
        if goes_to == "schedule":  # it would be tried again after 5 s, and Ruby may take as long
            redis.zadd("schedule", {raw: time.time() + 3_600}, xx=True)
        digest = json.loads(raw)["lock_digest"].removesuffix(":RUN")  # which the gem has written for `while_executing`
        assert redis.hkeys(f"{digest}:RUN:LOCKED") == [first.encode()]
        code.gate.set()
        assert eventually(lambda: not redis.exists(f"{digest}:RUN:LOCKED"))
        if goes_to == "schedule":
            redis.zadd("schedule", {raw: 1}, xx=True)
            assert eventually(lambda: len(code.began) == 2 and idle(redis))
        else:
            assert json.loads(raw)["error_message"] == f"another job runs and holds the lock {digest}:RUN"
    assert json.loads(raw)["jid"] == second
    assert lock_keys(redis) == []
