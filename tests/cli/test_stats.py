"""`pyworkers stats`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import redis as redis_py
from apps import job, own_app
from calls import Call, one_line
from daemon import Daemon, pyworkers
from denied import Walled
from servers import RedisServer

# --- run


def test_stats_name_a_counter_that_holds_no_number(redis_url: str, redis: redis_py.Redis) -> None:
    redis.set("stat:processed", "abc")
    done = pyworkers("stats", "--redis", redis_url)
    assert done.returncode == 1
    assert done.stderr == "pyworkers: key stat:processed holds no number; it counts as 0 here\n"
    assert done.stdout.split()[:2] == ["processed", "0"]


@pytest.mark.parametrize("key", ["stat:failed", "retry", "queues", "pyworkers:owners"])
def test_stats_name_a_key_of_another_type_and_show_the_rest(
    key: str, call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    redis.rpush(key, "strange")
    redis.set("stat:processed", 7)
    done = call("stats", "--redis", redis_url)
    told = one_line(done.stderr)
    assert (done.returncode, done.stdout.splitlines()[0].split()) == (1, ["processed", "7"])
    assert told.startswith(f"key {key} is a list, and must be a ")
    assert told.endswith("; it counts as 0 here")


# --- stats, version, config check, help


@pytest.fixture
def some_jobs(redis: redis_py.Redis) -> None:
    redis.sadd("queues", "q", "empty")
    redis.lpush("queue:q", job("J", enqueued_at=time.time() - 100), job("J"))
    redis.zadd("schedule", {"a": 1})
    redis.zadd("dead", {"a": 1, "b": 2})
    redis.set("stat:processed", 12345)


@pytest.mark.usefixtures("some_jobs")
def test_stats_are_a_table_for_people(redis_url: str) -> None:
    done = pyworkers("stats", "--redis", redis_url)
    assert (done.returncode, done.stderr) == (0, "")
    table = [line.split() for line in done.stdout.splitlines()]
    assert table[:9] == [
        ["processed", "12345"], ["failed", "0"], ["scheduled", "1"], ["parked", "0"], ["outbox", "0"],
        ["retries", "0"], ["dead", "2"],
        ["in", "progress", "0"], ["processes", "0"],
    ]  # fmt: skip
    assert table[10:12] == [["queue", "size", "latency"], ["empty", "0", "0.0", "s"]]
    assert table[12][:2] == ["q", "2"]
    assert table[12][3] == "min"
    assert max(map(len, done.stdout.splitlines())) < 80


def test_stats_show_ages_as_other_lists_do(call: Call, redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url) as app:
        old = app.job("Old", queue="q")(print)
        with app.batch("old") as batch:
            old.enqueue()
        cid = app.chain(old.s()).enqueue()
    redis.hset(f"pyworkers:batch:{batch.bid}", "at", time.time() - 3 * 3_600)
    redis.hset(f"pyworkers:chain:{cid}", "since", time.time() - 3 * 3_600)
    shown = call("stats", PYWORKERS_REDIS=redis_url).stdout
    ages = [line.split(maxsplit=2) for line in shown.splitlines() if line.startswith("oldest")]
    assert ages == [["oldest", "batch", "3 h"], ["oldest", "link", "3 h"]]


@pytest.mark.usefixtures("some_jobs")
def test_stats_are_json_for_programs(call: Call, redis_url: str) -> None:
    figures = json.loads(call("stats", "--json", "--redis", redis_url).stdout)
    assert (figures["processed"], figures["dead"]) == (12345, 2)
    assert [(queue["name"], queue["size"]) for queue in figures["queues"]] == [("empty", 0), ("q", 2)]


def test_stats_of_an_empty_server_are_a_table(call: Call, redis_url: str) -> None:
    lines = call("stats", "--redis", redis_url).stdout.splitlines()
    assert (len(lines), lines[9]) == (12, "")
    assert lines[10].split() == ["server", "version", "up", "clients", "memory", "peak", "limit"]


def test_stats_tell_of_the_server_where_it_allows_that(call: Call, own_redis: RedisServer) -> None:
    own_redis.client().config_set("maxmemory", 3 << 29)
    walled = Walled(own_redis)
    walled.allow_all_but()
    row = call("stats", "--redis", walled.url).stdout.splitlines()[-1]
    name, *cells = re.split(" {2,}", row)
    assert (name, cells[-1]) == (f"127.0.0.1:{own_redis.port}", "1.5 GB")
    shapes = (r"\w+ \d[\d.]+", r"[\d.]+ s", r"\d", r"[\d.]+ MB", r"[\d.]+ MB", ".*")
    assert all(re.fullmatch(shape, cell) for shape, cell in zip(shapes, cells, strict=True)), cells
    (facts,) = json.loads(call("stats", "--json", "--redis", walled.url).stdout)["servers"]
    assert (facts["address"], facts["max_bytes"]) == (f"127.0.0.1:{own_redis.port}", 3 << 29)
    walled.allow_all_but("INFO")
    done = call("stats", "--redis", walled.url)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 9)
    assert json.loads(call("stats", "--json", "--redis", walled.url).stdout)["servers"] == []


def test_stats_count_a_process_and_its_job_in_progress(
    here: Path, call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    sleepy = "import time\nimport goworkers_py as w\n@w.job('Sleep', queue='q')\ndef run(): time.sleep(60)\n"
    redis.lpush("queue:q", job("Sleep"))
    with Daemon(here, redis_url, sleepy, "-t", "0.1") as daemon:
        daemon.says("class=Sleep queue=q INFO: start")
        figures = json.loads(call("stats", "--json", "--redis", redis_url).stdout)
        assert (figures["in_progress"], figures["processes"]) == (1, 1)
        assert daemon.stop() == 0
