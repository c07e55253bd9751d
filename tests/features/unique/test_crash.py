"""A unique job and its lock are there together or not at all, wherever a process is killed."""

from __future__ import annotations

import json

import pytest
import redis as redis_py
import unique_crash_points
from crash_points import lives
from servers import RedisServer


def jobs_of(redis: redis_py.Redis, step: int) -> list[dict[str, object]]:
    """The jobs that wait or are in progress."""
    lists = [f"queue:unique-{step}", *redis.keys(f"queue:unique-{step}:*:inprogress")]
    return [json.loads(raw) for key in lists for raw in redis.lrange(key, 0, -1)]


def lock_of(redis: redis_py.Redis, job: dict[str, object]) -> dict[bytes, bytes]:
    name = job["pyworkers"]["lock"]["name"]  # type: ignore[index]
    return redis.hgetall(f"pyworkers:lock:{name}")


@pytest.mark.parametrize("stride", [97, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_push_that_is_killed_leaves_the_job_and_its_lock_or_none_of_both(own: RedisServer, stride: int) -> None:
    redis, pushed = own.client(), []
    for step, _ in (steps := lives(unique_crash_points, "push", own.url, stride)):
        jobs = jobs_of(redis, step)
        assert len(jobs) <= 1
        if jobs:
            pushed.append(step)
            assert lock_of(redis, jobs[0])[b"jid"].decode() == jobs[0]["jid"]
    print(f"{len(steps)} pushes, {len(pushed)} of them happened")
    assert len(redis.keys("pyworkers:lock:*")) == len(pushed)
    assert 0 < len(pushed) < len(steps)


@pytest.mark.parametrize("stride", [83, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_job_that_is_killed_has_its_lock_and_newest_arguments_until_it_has_ended(
    own: RedisServer, stride: int
) -> None:
    redis, ended = own.client(), []
    for step, survived in (steps := lives(unique_crash_points, "run", own.url, stride)):
        ran = [json.loads(raw)["args"] for raw in redis.lrange(f"queue:ran-{step}", 0, -1)]
        assert ran in ([], [["newest"]])
        jobs = jobs_of(redis, step)
        if not jobs:
            ended.append(step)
            assert ran
            continue
        assert not survived
        [job] = jobs
        lock = lock_of(redis, job)
        assert lock[b"jid"].decode() == job["jid"]
        assert json.loads(lock[b"fields"])["args"] == [step, "newest"]
    print(f"{len(steps)} daemons, of which {len(ended)} have ended their job")
    assert len(redis.keys("pyworkers:lock:*")) == len(steps) - len(ended)
    assert 0 < len(ended) < len(steps)
