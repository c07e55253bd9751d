"""The executions for Sidekiq's Metrics page, in the layouts of Sidekiq 7 and 8."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
import redis as redis_py
from apps import job, own_app, started
from daemon import pyworkers
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.fleet.sidekiq_metrics import SidekiqMetrics, layouts_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.neighbours import RedisNeighbours
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.outcome import DISCARD, DONE, REQUEUE, UNACKNOWLEDGED, Dead, Retry
from goworkers_py.core.timing import Timing
from goworkers_py.observe.executions import BOUNDS_S, Executions
from goworkers_py.observe.run_stats import RunStats

AT = datetime(2025, 2, 14, 8, 3, 59, tzinfo=timezone.utc).timestamp()
SEVEN = {"j|20250214|8:3", "Foo-14-08:3"}
EIGHT = {"j|250214|8:03", "j|250214|8:0", "h|Foo-14-8:3"}


def histogram(**counts: int) -> tuple[int, ...]:
    return tuple(counts.get(f"b{bucket}", 0) for bucket in range(len(BOUNDS_S) + 1))


FOO = Executions(5, 1, 1234, histogram(b0=3, b25=1))


@pytest.fixture
def connections(redis_url: str) -> Iterator[Connections]:
    connections = Connections(redis_url)
    yield connections
    connections.close()


def keys(redis: redis_py.Redis) -> set[str]:
    """All keys, without those of the processes."""
    return {key.decode() for key in redis.scan_iter() if key != b"processes" and not key.startswith(b"host:")}


def counts(redis: redis_py.Redis, key: str) -> dict[str, int]:
    return {field.decode(): int(value) for field, value in redis.hgetall(key).items()}


def buckets(redis: redis_py.Redis, key: str) -> list[int]:
    """The counts, as Sidekiq reads them."""
    words = [word for bucket in range(26) for word in ("GET", "u16", f"#{bucket}")]
    return list(redis.execute_command("BITFIELD_RO", key, *words))


def show(redis: redis_py.Redis, *versions: Any) -> None:
    for number, version in enumerate(versions):
        redis.sadd("processes", f"host:{number}:abc")
        redis.hset(f"host:{number}:abc", "info", version if isinstance(version, str) else json.dumps(version))


def test_the_bounds_of_the_histogram_are_those_of_sidekiq() -> None:
    assert [round(bound * 1000) for bound in BOUNDS_S] == [
        20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1100, 1700, 2500, 3800, 5750, 8500, 13000, 20000, 30000, 45000,
        65000, 100000, 150000, 225000, 335000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "hashes", "bits", "written"),
    [
        ("7", {"j|20250214|8:3": 8 * 3600}, "Foo-14-08:3", SEVEN),
        ("8", {"j|250214|8:03": 8 * 3600, "j|250214|8:0": 3 * 86400}, "h|Foo-14-8:3", EIGHT),
    ],
)
def test_executions_are_in_the_keys_that_the_version_reads(
    connections: Connections, redis: redis_py.Redis, choice: str, hashes: dict[str, int], bits: str, written: set[str]
) -> None:
    SidekiqMetrics(connections, Keys(), choice).write({"Foo": FOO}, AT)
    assert keys(redis) == written
    for key, life in hashes.items():
        assert counts(redis, key) == {"Foo|p": 5, "Foo|f": 1, "Foo|ms": 1234}
        assert life - 60 < redis.ttl(key) <= life
    assert buckets(redis, bits) == list(FOO.histogram)
    assert 8 * 3600 - 60 < redis.ttl(bits) <= 8 * 3600


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (0.0199, 0), (0.020, 1), (0.099, 4), (334.9, 24), (335.0, 25), (1e6, 25)]
)
def test_a_run_that_ended_well_falls_into_the_bucket_where_sidekiq_puts_it(seconds: float, bucket: int) -> None:
    tally = RunStats()
    tally.add("Foo", DONE, seconds, None)
    assert tally.executions() == {"Foo": Executions(1, 0, int(seconds * 1000), histogram(**{f"b{bucket}": 1}))}


def test_runs_that_failed_count_and_their_times_do_not() -> None:
    tally = RunStats()
    for outcome in (Retry(1.0, b""), Dead(b""), DISCARD, REQUEUE, UNACKNOWLEDGED):
        tally.add("Foo", outcome, 5.0, None)
    assert tally.executions() == {"Foo": Executions(3, 3, 0, histogram())}


def test_only_new_executions_are_added(connections: Connections, redis: redis_py.Redis) -> None:
    one, other = SidekiqMetrics(connections, Keys(), "8"), SidekiqMetrics(connections, Keys(), "8")
    one.write({"Foo": FOO}, AT)
    other.write({"Foo": FOO}, AT)  # another process
    more = Executions(6, 1, 1250, histogram(b0=4, b25=1))
    one.write({"Foo": more, "Bar": FOO}, AT)
    one.write({"Foo": more, "Bar": FOO}, AT)
    one.write({"Foo": more, "Bar": FOO}, AT + 60)
    assert counts(redis, "j|250214|8:03") == {
        "Foo|p": 11, "Foo|f": 2, "Foo|ms": 2484, "Bar|p": 5, "Bar|f": 1, "Bar|ms": 1234,
    }  # fmt: skip
    assert buckets(redis, "h|Foo-14-8:3") == list(histogram(b0=7, b25=2))
    assert not redis.exists("j|250214|8:04")


def test_a_bucket_that_is_full_stays_full(connections: Connections, redis: redis_py.Redis) -> None:
    SidekiqMetrics(connections, Keys(), "8").write({"Foo": FOO._replace(histogram=histogram(b1=70_000))}, AT)
    assert buckets(redis, "h|Foo-14-8:3") == list(histogram(b1=65_535))


def test_executions_that_could_not_be_written_are_written_with_the_next(own_redis: RedisServer) -> None:
    connections = Connections(own_redis.url)
    it = SidekiqMetrics(connections, Keys(), "7")
    own_redis.stop()
    with pytest.raises(BrokerUnavailable):
        it.write({"Foo": FOO}, AT)
    own_redis.start()
    it.write({"Foo": FOO._replace(runs=6)}, AT)
    assert counts(own_redis.client(), "j|20250214|8:3") == {"Foo|p": 6, "Foo|f": 1, "Foo|ms": 1234}
    connections.close()


def test_classes_that_would_break_the_page_are_left_out(connections: Connections, redis: redis_py.Redis) -> None:
    SidekiqMetrics(connections, Keys(), "7").write({"a|b": FOO, "": FOO, "\ud800": FOO, "Foo": FOO}, AT)
    assert keys(redis) == SEVEN
    assert len(counts(redis, "j|20250214|8:3")) == 3


def test_with_metrics_off_nothing_is_written(connections: Connections, redis: redis_py.Redis) -> None:
    SidekiqMetrics(connections, Keys(), "off").write({"Foo": FOO}, AT)
    assert not redis.keys()


@pytest.mark.parametrize(
    ("versions", "layouts"),
    [
        ([], {7, 8}),
        (["pyworkers 0.1.0", ""], {7, 8}),
        (["7.3.10"], {7}),
        (["8.1.0", "8.0.0"], {8}),
        (["10.0.0"], {8}),
        (["7.0.2", "8.1.0", "pyworkers 0.1.0"], {7, 8}),
        (["6.5.12"], set()),
    ],
)
def test_auto_writes_for_the_running_versions_and_for_all_when_none_is_known(
    versions: list[str], layouts: set[int]
) -> None:
    assert set(layouts_of(versions)) == layouts


@pytest.mark.parametrize(
    ("infos", "written"),
    [
        ([{"version": "7.3.0"}, {"version": "pyworkers 0.1.0"}], SEVEN),
        ([{"version": "8.1.0"}, "broken", "[]"], EIGHT),
        ([], SEVEN | EIGHT),
    ],
)
def test_auto_reads_the_versions_of_the_processes(
    connections: Connections, redis: redis_py.Redis, infos: list[Any], written: set[str]
) -> None:
    show(redis, *infos)
    SidekiqMetrics(connections, Keys(), "auto").write({"Foo": FOO}, AT)
    assert keys(redis) == written


def test_auto_reads_the_versions_again_later(connections: Connections, redis: redis_py.Redis) -> None:
    it = SidekiqMetrics(connections, Keys(), "auto", look_every_s=0)
    show(redis, {"version": "7.3.0"})
    it.write({"Foo": FOO}, AT)
    show(redis, {"version": "8.0.0"})
    it.write({"Foo": FOO._replace(runs=6)}, AT)
    assert counts(redis, "j|250214|8:03") == {"Foo|p": 1}


def test_without_the_permission_it_warns_once(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    redis = own_redis.client()
    redis.execute_command("ACL", "SETUSER", "walled", "on", ">secret", "~queue*", "+@all")
    connections = Connections(own_redis.url.replace("//", "//walled:secret@"))
    it = SidekiqMetrics(connections, Keys(), "7")
    with caplog.at_level(logging.WARNING):
        for runs in (1, 2, 3):
            it.write({"Foo": FOO._replace(runs=runs)}, AT)
    connections.close()
    (warning,) = caplog.messages
    assert "Metrics page: the server's access rules do not allow one of these keys: add a pattern for ~j|" in warning


def test_the_executions_of_a_process_are_written_while_it_works_and_at_its_end(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: dict[str, Callable[[], object]] = {"good": lambda: time.sleep(0.021), "bad": lambda: 1 / 0}
    with own_app(redis_url, timing=Timing(beat_every_s=0.05), metrics="8") as app:
        for queue in ("a", "b"):
            app.process(queue, lambda message: outcomes[message.args[0]](), 1)
        with started(app) as launcher:
            redis.lpush("queue:a", job("Foo", "good"))
            assert eventually(lambda: redis.keys("h|Foo-*"))
            redis.lpush("queue:a", job("Foo", "bad", retry=5), job("Foo", "bad", retry=0))
            redis.lpush("queue:b", job("Foo", "good"))
            monkeypatch.setattr(launcher._heartbeat, "_every_s", 1000)
            assert eventually(lambda: redis.zcard("retry") + redis.zcard("dead") == 2)
            assert eventually(lambda: redis.get("stat:processed") == b"4")
            assert launcher.stop()
    minutes = [counts(redis, key.decode()) for key in redis.keys("j|??????|*:??")]
    assert sum(minute.get("Foo|p", 0) for minute in minutes) == 4
    assert sum(minute.get("Foo|f", 0) for minute in minutes) == 2
    assert 42 <= sum(minute.get("Foo|ms", 0) for minute in minutes) < 20_000
    histograms = [buckets(redis, key.decode()) for key in redis.keys("h|Foo-*")]
    assert sum(map(sum, histograms)) == 2
    assert sum(histogram[0] for histogram in histograms) == 0
    assert not redis.keys("j|????????|*")


# --- marks


def test_a_mark_is_at_its_minute(connections: Connections, redis: redis_py.Redis) -> None:
    assert RedisNeighbours(connections, Keys()).mark_deploy("deploy abc", AT) is None
    assert redis.hgetall("20250214-marks") == {b"2025-02-14T08:03:00Z": b"deploy abc"}
    assert 90 * 86400 - 60 < redis.ttl("20250214-marks") <= 90 * 86400
    assert 0 < redis.ttl("deploylock-deploy abc") <= 60


def test_of_many_machines_that_deploy_the_first_one_makes_the_mark(
    connections: Connections, redis: redis_py.Redis
) -> None:
    RedisNeighbours(connections, Keys()).mark_deploy("deploy abc", AT)
    assert RedisNeighbours(connections, Keys()).mark_deploy("deploy abc", AT + 30) == "deploy abc"
    assert redis.hlen("20250214-marks") == 1
    assert RedisNeighbours(connections, Keys()).mark_deploy("deploy xyz", AT) == "deploy abc"


def test_the_command_marks_a_deploy(redis_url: str, redis: redis_py.Redis) -> None:
    done = pyworkers("mark", "deploy abc", PYWORKERS_REDIS=redis_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ((day,),) = [redis.keys("*-marks")]
    assert redis.hvals(day) == [b"deploy abc"]
    again = pyworkers("mark", "deploy abc", PYWORKERS_REDIS=redis_url)
    assert (again.returncode, again.stdout) == (0, "marked already\n")
    other = pyworkers("mark", "another", PYWORKERS_REDIS=redis_url)
    if redis.hlen(day) == 1:  # else the next minute has begun
        assert (other.returncode, other.stderr) == (1, "pyworkers: this minute has a mark already: deploy abc\n")
    empty = pyworkers("mark", " ", PYWORKERS_REDIS=redis_url)
    assert (empty.returncode, empty.stderr.splitlines()[0]) == (
        2, "pyworkers: the label is empty; see 'pyworkers mark --help'",
    )  # fmt: skip
