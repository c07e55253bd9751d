"""A Ruby process with the gem sidekiq-unique-jobs and a Python process work the same queue: `locks = native`.

The gem itself pushes the jobs, so the locks are as it makes them.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, own_broker, working
from gems import Gems
from programs import Background, make_due
from waiting import eventually

from goworkers_py import App
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.timing import Timing
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.lock import ruby_lock_of
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.wire import payload

pytestmark = pytest.mark.usefixtures("has_sidekiq")

WHILE_IT_RUNS = (
    "WhileExecuting", "WhileExecutingReject", "AroundPerform", "WhileBusy", "WhileWorking", "UntilAndWhileExecuting",
)  # fmt: skip
UNTIL_IT_HAS_RUN = (
    "UntilExecuted", "UntilCompleted", "UntilPerformed", "UntilProcessed", "UntilSuccessfullyCompleted",
)  # fmt: skip
UNTIL_IT_BEGINS = ("UntilExecuting", "WhileEnqueued")
ALL = (*WHILE_IT_RUNS, *UNTIL_IT_HAS_RUN, *UNTIL_IT_BEGINS, "UntilExpired")


class Locks:
    def __init__(self, gems: Gems, redis: redis_py.Redis) -> None:
        self._gems = gems
        self._redis = redis

    def __call__(self, *words: str) -> dict[str, Any]:
        return self._gems(*words, program="locks.rb")

    def push(self, *names: str, count: int = 1) -> list[str]:
        jids: list[str] = self("push", str(count), "a", *names)["jids"]
        return jids

    def sidekiq(self) -> Background:
        return self._gems.sidekiq("py", program="locks.rb")

    def ran_by(self, name: str) -> list[str]:
        return [who.decode() for who in self._redis.lrange(f"by:{name}", 0, -1)]

    def at_once(self, name: str) -> int:
        return max(map(int, self._redis.lrange(f"began:{name}", 0, -1)), default=0)


@pytest.fixture
def locks(gems: Gems, redis: redis_py.Redis) -> Locks:
    return Locks(gems, redis)


def code(redis: redis_py.Redis, name: str) -> Callable[[str], None]:
    """The same as in locks.rb."""

    def run(word: str) -> None:
        redis.rpush(f"began:{name}", redis.incr(f"inside:{name}:{word}"))
        redis.rpush(f"by:{name}", "python")
        time.sleep(0.02)
        assert eventually(lambda: not redis.exists("closed"), 60)
        redis.decr(f"inside:{name}:{word}")
        assert not redis.exists("failing")

    return run


@pytest.fixture
def app(redis_url: str, redis: redis_py.Redis) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="py", concurrency=1, prefetch=0), poll_interval=0.1) as app:
        app.use(dataclasses.replace(app.config, sections=(EchoConfig(locks="native"),)))
        for name in ALL:
            app.job(name, queue="py", retry_in=lambda *_: 3_600)(code(redis, name))
        yield app


def idle(redis: redis_py.Redis) -> bool:
    make_due(redis, "schedule")
    return not redis.llen("queue:py") and not redis.zcard("schedule") and not redis.keys("queue:py:*:inprogress")


def test_the_names_of_locks_here_are_all_that_the_gem_has(locks: Locks) -> None:
    assert {"".join(map(str.capitalize, name.split("_"))) for name in locks("known")["known"]} == set(ALL)


def test_jobs_of_one_lock_never_run_at_once_in_ruby_and_python(app: App, locks: Locks, redis: redis_py.Redis) -> None:
    """Without `while_executing_reject`: the job that Ruby rejects takes the lock from the job that runs, see below."""
    names = [name for name in WHILE_IT_RUNS if name != "WhileExecutingReject"]
    with locks.sidekiq(), working(app):
        locks.push(*names, count=10)
        assert eventually(lambda: idle(redis), 30)
    assert {name: locks.at_once(name) for name in names} == dict.fromkeys(names, 1)


@pytest.mark.parametrize("name", ["WhileExecuting", "WhileExecutingReject"])
def test_a_job_does_not_begin_here_while_ruby_runs_one_of_its_lock(
    app: App, locks: Locks, redis: redis_py.Redis, name: str
) -> None:
    """It waits, or is rejected where its options say so."""
    goes_to = "schedule" if name == "WhileExecuting" else "dead"
    redis.set("closed", "1")
    [first] = locks.push(name)
    with locks.sidekiq():  # has one thread
        assert eventually(lambda: locks.ran_by(name) == ["ruby"])
        with working(app):
            [second] = locks.push(name)
            assert eventually(lambda: redis.zcard(goes_to) == 1)
            [raw] = redis.zrange(goes_to, 0, -1)
            assert json.loads(raw)["jid"] == second
            digest = json.loads(raw)["lock_digest"].removesuffix(":RUN")
            assert redis.hkeys(f"{digest}:RUN:LOCKED") == [first.encode()]
            redis.delete("closed")
            assert eventually(lambda: idle(redis) and not redis.exists(f"{digest}:RUN:LOCKED"))
    assert len(locks.ran_by(name)) == (2 if goes_to == "schedule" else 1)  # the second by either of the two
    assert locks.at_once(name) == 1


@pytest.mark.parametrize("name", ["WhileExecuting", "UntilExecuted"])
def test_a_job_does_not_begin_in_ruby_while_one_of_its_lock_runs_here(
    app: App, locks: Locks, redis: redis_py.Redis, name: str
) -> None:
    """Ruby drops it, or does not even push it."""
    redis.set("closed", "1")
    with working(app):  # has one thread
        locks.push(name)
        assert eventually(lambda: locks.ran_by(name) == ["python"])
        with locks.sidekiq():
            [second] = locks.push(name)
            assert (second is None) == (name == "UntilExecuted")
            assert eventually(lambda: not redis.llen("queue:py"))
        while redis.llen("queue:py"):  # it gives back a job that it has fetched as it was stopped
            with locks.sidekiq():
                assert eventually(lambda: not redis.llen("queue:py"))
        redis.delete("closed")
        assert eventually(lambda: idle(redis))
    assert locks.ran_by(name) == ["python"]


def test_a_retry_of_a_job_that_failed_in_ruby_waits_for_the_next_job_that_has_its_lock(
    app: App, locks: Locks, redis: redis_py.Redis
) -> None:
    """The gem frees `until_executed` at a failure, so the next job gets it."""
    redis.set("failing", "1")
    locks.push("UntilExecuted")
    with locks.sidekiq():
        assert eventually(lambda: redis.zcard("retry") == 1)
        redis.delete("failing")
        redis.set("closed", "1")
        assert locks.push("UntilExecuted") != [None]
        assert eventually(lambda: len(locks.ran_by("UntilExecuted")) == 2)
        make_due(redis, "retry")
        with working(app):
            assert eventually(lambda: redis.zcard("schedule") == 1 or len(locks.ran_by("UntilExecuted")) == 3)
            redis.delete("closed")
            assert eventually(lambda: idle(redis))
    assert len(locks.ran_by("UntilExecuted")) == 3  # the last by either of the two
    assert locks.at_once("UntilExecuted") == 1
    assert redis.keys("uniquejobs:*:LOCKED") == []


def test_the_reaper_of_the_gem_sees_the_jobs_that_run_here(app: App, locks: Locks, redis: redis_py.Redis) -> None:
    names = ("WhileExecuting", "UntilExecuted")
    app.timing = Timing(beat_every_s=0.2)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(name="py", concurrency=2),)))
    redis.set("closed", "1")
    with working(app):
        locks.push(*names)
        assert eventually(lambda: all(locks.ran_by(name) for name in names))
        assert redis.zcard("uniquejobs:digests") == 2
        assert eventually(lambda: len([*redis.scan_iter("*:work")]) == 1)
        assert locks("orphans")["orphans"] == []
        redis.delete("closed")
        assert eventually(lambda: idle(redis))


def test_a_lock_of_a_job_that_ruby_rejected_and_people_pushed_again_is_held_while_it_runs(
    app: App, locks: Locks, redis: redis_py.Redis
) -> None:
    """Its payload has the digest with `:RUN`, and the gem takes that already at the push."""
    name = "UntilAndWhileExecuting"
    redis.set("closed", "1")
    with working(app):
        locks.push(name)
        assert eventually(lambda: locks.ran_by(name) == ["python"])
        with locks.sidekiq():
            locks.push(name)
            assert eventually(lambda: redis.zcard("dead") == 1)
        [raw] = redis.zrange("dead", 0, -1)
        digest = json.loads(raw)["lock_digest"]
        assert digest.endswith(":RUN")
        redis.delete("closed")
        assert eventually(lambda: idle(redis))
        redis.set("closed", "1")
        locks("retry-dead")
        assert eventually(lambda: len(locks.ran_by(name)) == 2)
        assert redis.hkeys(f"{digest}:LOCKED") == [json.loads(raw)["jid"].encode()]
        redis.delete("closed")
        assert eventually(lambda: idle(redis) and not redis.exists(f"{digest}:LOCKED"))


def test_a_worker_that_was_killed_leaves_the_lock_of_its_run_until_its_job_is_recovered(
    app: App, locks: Locks, redis: redis_py.Redis, redis_url: str
) -> None:
    name, killed = "WhileExecuting", "killed:1:aaaaaaaaaaaa"
    [jid] = locks.push(name)
    with own_broker(redis_url, sections=(EchoConfig(locks="native"),)) as broker:
        broker.recoverable.beat(Presence(killed, {"py": 0}))
        [delivery] = broker.transport.consume(killed, [("py", 1)], 1)
        lock = ruby_lock_of(payload.read(delivery.payload))
        assert lock is not None
        assert broker.neighbours is not None
        assert broker.require_part(RubyLocks).begin(lock)
    with locks.sidekiq():
        assert redis.hkeys(f"{lock.digest}:LOCKED") == [jid.encode()]
        locks.push(name)
        assert eventually(lambda: not redis.llen("queue:py"))
    assert locks.ran_by(name) == []
    redis.delete(Keys("").lease(killed))
    app.timing = Timing(recover_every_s=0.2, steady_for_s=0.1)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(name="other"),)))
    with working(app), locks.sidekiq():
        assert eventually(lambda: locks.ran_by(name) == ["ruby"])
