"""A limited job, its place and its line are right together, wherever a process is killed."""

from __future__ import annotations

import json
import subprocess
import sys

import limit_crash_points
import pytest
import redis as redis_py
from apps import own_app
from crash_points import lives
from servers import RedisServer

from goworkers_py.core.errors import LimitTimeout
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Slot


def jobs_of(redis: redis_py.Redis, step: int) -> dict[str, list[str]]:
    """The places in which each job is, by its argument: 'line', or where it can be run from."""
    places: dict[str, list[str]] = {}
    lists = [f"queue:limited-{step}", *redis.keys(f"queue:limited-{step}:*:inprogress")]
    held = [(raw, "queue") for key in lists for raw in redis.lrange(key, 0, -1)]
    held += [(raw, "queue") for raw in redis.zrange("schedule", 0, -1) if f"limited-{step}".encode() in raw]
    line = redis.lrange(f"pyworkers:line:limit:limit-{step}", 0, -1)
    for raw, place in [*held, *((entry.partition(b"\n")[2], "line") for entry in line)]:
        job = json.loads(raw)
        places.setdefault(job["args"][0], []).append(f"{place} {job['jid']}")
    return places


def holders_of(redis: redis_py.Redis, step: int) -> list[str]:
    fields = redis.hkeys(f"pyworkers:slot:limit-{step}")
    return [name.decode().removeprefix("s:") for name in fields if name.startswith(b"s:")]


def check_line(redis: redis_py.Redis, step: int, places: dict[str, list[str]]) -> None:
    """Each job is in one place. Somebody who can run has the place while a job waits; so its end lets that one go."""
    assert all(len(one) == 1 for one in places.values()), places
    told = [one.split() for [one] in places.values()]
    line = {jid for place, jid in told if place == "line"}
    holders = holders_of(redis, step)
    assert len(holders) <= 1
    name = f"limit:limit-{step}"
    if line:
        assert set(holders) & {jid for place, jid in told if place == "queue"}
        assert redis.sismember("pyworkers:lines", name)
        assert redis.zscore("pyworkers:limits:due", name) is not None


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_push_that_is_killed_leaves_the_job_in_its_line_or_nowhere(own: RedisServer, stride: int) -> None:
    redis, pushed = own.client(), []
    for step, _ in (steps := lives(limit_crash_points, "push", own.url, stride)):
        places = jobs_of(redis, step)
        assert places["first"][0].startswith("queue")
        check_line(redis, step, places)
        if "second" in places:
            assert places["second"][0].startswith("line")
            pushed.append(step)
    print(f"{len(steps)} pushes, {len(pushed)} of them happened")
    assert 0 < len(pushed) < len(steps)


@pytest.mark.parametrize("stride", [227, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_run_that_is_killed_loses_no_job_and_leaves_no_line_without_a_place(own: RedisServer, stride: int) -> None:
    redis, ended = own.client(), 0
    for step, survived in (steps := lives(limit_crash_points, "run", own.url, stride)):
        places, ran = jobs_of(redis, step), {one.decode() for one in redis.lrange(f"ran-{step}", 0, -1)}
        check_line(redis, step, places)
        assert {"first", "second"} - set(places) <= ran
        ended += 2 - len(places)
        if survived:
            assert places == {}
            assert holders_of(redis, step) == []
    print(f"{len(steps)} daemons, which have ended {ended} jobs")
    assert 0 < ended < 2 * len(steps)


BLOCK = """
import time
import goworkers_py as workers
workers.configure(redis={url!r})
with workers.limit("one", concurrent=1).acquire(timeout=30):
    print("in", flush=True)
    time.sleep(60)
"""


@pytest.mark.usefixtures("untraced")
def test_a_block_that_is_killed_frees_its_strict_limit(own: RedisServer) -> None:
    """No recovery begins a block again. No daemon runs: a block that waits finds out that the other one is dead."""
    with (
        subprocess.Popen([sys.executable, "-c", BLOCK.format(url=own.url)], stdout=subprocess.PIPE) as killed,
        own_app(own.url) as app,
    ):
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"in\n"
        one = app.limit("one", concurrent=1)
        with pytest.raises(LimitTimeout), one.acquire(timeout=0.1):
            raise AssertionError
        killed.kill()
        killed.wait()
        with one.acquire(timeout=30):
            assert len(app.broker.require_part(Limits).holders(Slot("one"))) == 1
