"""The counts of a batch agree with its jobs, its callbacks and the links of a chain are pushed once, wherever a process
is killed."""

from __future__ import annotations

import json
import time

import batch_crash_points
import pytest
import redis as redis_py
from apps import own_app, working
from crash_points import lives
from servers import RedisServer
from waiting import eventually

from goworkers_py.config.options import QueueConfig
from goworkers_py.core.timing import TIMING


def listed(redis: redis_py.Redis, key: str) -> list[dict[str, object]]:
    return [json.loads(raw) for raw in redis.lrange(key, 0, -1)]


def batches_by_name(redis: redis_py.Redis) -> dict[str, dict[str, str]]:
    records = [redis.hgetall(key) for key in redis.keys("pyworkers:batch:*")]
    texts = [{name.decode(): value.decode() for name, value in record.items()} for record in records]
    return {record["name"]: record for record in texts}


@pytest.mark.parametrize("stride", [251, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_batch_has_counted_the_jobs_that_a_killed_program_has_pushed(own: RedisServer, stride: int) -> None:
    redis, steps = own.client(), lives(batch_crash_points, "open", own.url, stride)
    records, partly = batches_by_name(redis), 0
    for step, survived in steps:
        record, jobs = records.get(f"batch-{step}"), listed(redis, f"queue:batch-{step}")
        assert int(record["total"] if record else 0) == len(jobs)
        if record:
            assert record["holds"] == "0" or not survived
            partly += 0 < len(jobs) < 3
    print(f"{len(steps)} programs, {len(records)} batches, {partly} of them filled in part")
    assert 0 < partly < len(records) <= len(steps)


@pytest.mark.parametrize("stride", [211, pytest.param(11, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("untraced")
def test_a_batch_whose_daemon_is_killed_ends_once_under_the_next_one(own: RedisServer, stride: int) -> None:
    redis, steps = own.client(), lives(batch_crash_points, "end", own.url, stride)
    names = [f"batch-{step}" for step, _ in steps]
    killed = [name for name in names if "ended" not in batches_by_name(redis)[name]]
    for name, record in batches_by_name(redis).items():  # after the kill, before the next daemon
        left = [*listed(redis, f"queue:{name}")]
        for key in redis.keys(f"queue:{name}:*:inprogress"):
            left += listed(redis, key.decode())
        ended = sum(int(record.get(way, 0)) for way in ("succeeded", "failed", "cancelled", "expired"))
        assert len(left) == int(record["total"]) - ended
    queues = [QueueConfig(name=name, concurrency=1) for name in names]
    with own_app(own.url, *queues, timing=TIMING, timeout=1) as app:
        for step, _ in steps:
            batch_crash_points.jobs_of(app, step)
        # The leases of the killed daemons have not expired yet.
        for key in redis.keys("pyworkers:lease:*"):
            redis.delete(key)
        with working(app):
            assert eventually(lambda: all("ended" in one for one in batches_by_name(redis).values()), within_s=120)
    for step, _ in steps:
        callbacks = listed(redis, f"queue:ended-{step}")
        assert len({job["jid"] for job in callbacks}) == len(callbacks) == 2  # of the death and of the end
        record = batches_by_name(redis)[f"batch-{step}"]
        assert (record["succeeded"], record["failed"]) == ("2", "1")
    print(f"{len(steps)} daemons, {len(killed)} batches ended under the next one")
    assert 0 < len(killed) < len(steps)


@pytest.mark.parametrize("stride", [307, pytest.param(13, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("untraced")
def test_a_chain_whose_daemon_is_killed_runs_each_link_once_under_the_next_one(own: RedisServer, stride: int) -> None:
    redis, steps = own.client(), lives(batch_crash_points, "chain", own.url, stride)
    names = [f"batch-{step}" for step, _ in steps]
    states = [redis.hget(key, "state") for key in redis.keys("pyworkers:chain:*")]
    for name in names:  # the link that is at work is in one place
        left = listed(redis, f"queue:{name}")
        for key in redis.keys(f"queue:{name}:*:inprogress"):
            left += listed(redis, key.decode())
        assert len({job["jid"] for job in left}) == len(left) <= 2
    with own_app(own.url, *(QueueConfig(name=name, concurrency=1) for name in names), timeout=1) as app:
        for step, _ in steps:
            batch_crash_points.link_jobs(app, step)
        for key in redis.keys("pyworkers:lease:*"):
            redis.delete(key)
        with working(app):
            assert eventually(lambda: all(one.state == "ended" for one in app.chains.all()), within_s=120)
    for step, _ in steps:
        [ended] = listed(redis, f"queue:ended-{step}")
        assert ended["args"] == [[2, 11]]
    print(f"{len(steps)} daemons, {states.count(b'running')} chains ended under the next one")
    assert 0 < states.count(b"running") < len(steps)


def test_any_language_opens_and_fills_a_batch_with_plain_commands(own: RedisServer) -> None:
    """The steps of docs/batches.md."""
    redis, bid, now = own.client(), "nightly", time.time()
    report = {"class": "Report", "args": [bid], "jid": "r1", "queue": "reports", "retry": True, "created_at": now}
    record = {"v": 1, "name": "nightly", "at": now, "total": 0, "holds": 1, "retain": 60, "to": '["reports"]'}
    with redis.pipeline() as pipe:
        callback = {"success": json.dumps(report), "success:queue": "reports"}
        pipe.hset(f"pyworkers:batch:{bid}", mapping={**record, **callback})
        pipe.expire(f"pyworkers:batch:{bid}", 7_776_000)
        pipe.zadd("pyworkers:batches", {bid: now + 7_776_000})
        pipe.execute()
    ours = {"v": 1, "needs": ["batch"], "batch": {"id": bid, "to": ["reports"]}}
    for number in range(3):
        job = {"class": "Job", "args": [number], "jid": f"j{number}", "queue": "q", "retry": True, "pyworkers": ours}
        with redis.pipeline() as pipe:
            pipe.hincrby(f"pyworkers:batch:{bid}", "total", 1)
            pipe.sadd("queues", "q")
            pipe.lpush("queue:q", json.dumps(job))
            if number == 2:
                pipe.hincrby(f"pyworkers:batch:{bid}", "holds", -1)
            pipe.execute()
    with own_app(own.url, QueueConfig(name="q", concurrency=2), timeout=1) as app:
        ran: list[int] = []
        app.job("Job", queue="q")(ran.append)
        with working(app):
            assert eventually(lambda: redis.llen("queue:reports") == 1)
    assert sorted(ran) == [0, 1, 2]
    [pushed] = listed(redis, "queue:reports")
    assert {**pushed, "enqueued_at": 0} == {**report, "enqueued_at": 0}
    assert [one.state for one in app.batches.all()] == ["ended"]
