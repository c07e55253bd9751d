"""Every producer at length: all jobs run once each, in their order, and every list and set is left empty."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis as redis_py
from programs import GoWorkers, PyWorkers, Ruby, leftovers
from waiting import eventually

from goworkers_py import App

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]  # the Go programs may have to be built first

LONG_S = 60.0

Produce = Callable[[int], list[str]]  # that many jobs with the arguments [0], [1], ... on queue py; returns the jids
PRODUCERS = ("ruby", "gw1", "gw2", "python")


@pytest.fixture
def producer(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> Callable[[str], Produce]:
    """By name. Only what that one needs must be there."""

    def named(name: str) -> Produce:
        if name == "ruby":
            ruby: Ruby = request.getfixturevalue("ruby")
            return lambda count: ruby.produce("bulk", "--queue", "py", "--class", "TerseJob", "--count", str(count))
        if name == "python":
            app: App = request.getfixturevalue("python")
            return lambda count: [jid or "" for jid in app.enqueue_bulk("py", "TerseJob", [[i] for i in range(count)])]
        go = GoWorkers(request.getfixturevalue("go_binaries") / name, redis_url, tmp_path)
        return lambda count: go.produce("-queue", "py", "-class", "TerseJob", "-count", str(count))

    return named


def processed(redis: redis_py.Redis) -> int:
    return int(redis.get("stat:processed") or 0)


@pytest.mark.parametrize("name", PRODUCERS)
def test_ten_thousand_jobs_run_once_each_in_queue_order(
    redis: redis_py.Redis, pyworkers: PyWorkers, producer: Callable[[str], Produce], name: str
) -> None:
    jids = producer(name)(10_000)
    queued = [raw.decode() for raw in reversed(redis.lrange("queue:py", 0, -1))]
    with pyworkers("py=1"):
        assert eventually(lambda: processed(redis) >= 10_000, LONG_S)
        assert eventually(lambda: not leftovers(redis))
    ran = pyworkers.terse_runs()
    # The producer of go-workers pushes to the end that is popped next.
    assert [json.loads(raw)["jid"] for raw in ran] == (jids[::-1] if name == "gw1" else jids)
    assert ran == queued
    assert sorted(json.loads(raw)["args"] for raw in ran) == [[i] for i in range(10_000)]
    assert (redis.get("stat:processed"), redis.get("stat:failed")) == (b"10000", None)
    assert leftovers(redis) == []


def test_two_daemons_run_once_each_what_all_producers_push_at_once(
    redis: redis_py.Redis, pyworkers: PyWorkers, producer: Callable[[str], Produce]
) -> None:
    producers = [producer(name) for name in PRODUCERS]
    with pyworkers("py=5"), pyworkers("py=5"), ThreadPoolExecutor() as pool:
        pushing = [pool.submit(produce, 1_500) for produce in producers]
        jids = [jid for pushed in pushing for jid in pushed.result()]
        assert eventually(lambda: processed(redis) >= len(jids), LONG_S)
        assert eventually(lambda: not leftovers(redis))
    assert sorted(json.loads(raw)["jid"] for raw in pyworkers.terse_runs()) == sorted(jids)
    assert len(set(jids)) == 6_000
    assert leftovers(redis) == []
