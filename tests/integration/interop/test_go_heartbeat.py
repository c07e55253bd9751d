"""The heartbeat of go-workers2 (its master branch) beside processes of ours: nothing of ours ends it.

It reads the hash of every name in `processes`, and ends for good at a name without one. A Go process without a
heartbeat counts as dead for the other Go processes, which then run its jobs again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from daemon import Daemon
from daemon import pyworkers as pyworkers_command
from programs import Background, GoWorkers, PyWorkers, entries, runs
from waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]  # the Go program may have to be built first

# What go-workers2 takes where it is told nothing.
DEAD_AFTER_S, BEAT_EVERY_S = 60, 5
SOON = """
import goworkers_py as workers
from goworkers_py.core.timing import Timing

workers.app.timing = Timing(recover_every_s=0.2)
"""


@pytest.fixture
def go_master(gw2_master: Path, redis_url: str, tmp_path: Path) -> GoWorkers:
    return GoWorkers(gw2_master, redis_url, tmp_path)


@pytest.fixture
def short_lived(redis_url: str, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of ours that a test may kill."""
    folder = tmp_path / "short-lived"
    folder.mkdir()
    with Daemon(folder, redis_url, SOON, "--queue", "other") as daemon:
        yield daemon.ready()


def names(redis: redis_py.Redis) -> dict[int, str]:
    """The members of `processes` by their pids."""
    return {int(name.split(b":")[-2]): name.decode() for name in redis.smembers("processes")}


@contextmanager
def beating(redis: redis_py.Redis, go: GoWorkers, *flags: str) -> Iterator[Background]:
    """A Go process whose heartbeat goes on to the end of the block."""

    def beat() -> int:
        (mine,) = (name for pid, name in names(redis).items() if pid == process.pid)
        return int(redis.hget(mine, "beat") or 0)

    with go.consume("-queue", "go", *flags) as process:
        assert eventually(lambda: process.pid in names(redis))
        yield process
        last = beat()
        assert eventually(lambda: beat() > last + 1), process.output


@pytest.mark.parametrize(
    ("dead_after_s", "beat_every_s"),
    [(10, 0.5), pytest.param(DEAD_AFTER_S, BEAT_EVERY_S, marks=pytest.mark.slow)],
)
def test_the_heartbeat_of_go_survives_the_death_of_the_only_python_process(
    redis: redis_py.Redis, go_master: GoWorkers, short_lived: Daemon, dead_after_s: float, beat_every_s: float
) -> None:
    with beating(redis, go_master, "-beat-every", f"{beat_every_s}s", "-dead-after", f"{dead_after_s}s") as go:
        name = eventually(lambda: names(redis).get(short_lived.process.pid))
        assert name
        short_lived.kill()
        # This Go process is less patient than one with the defaults; by as much the entry is made older.
        spared_s = DEAD_AFTER_S + BEAT_EVERY_S - dead_after_s - beat_every_s
        redis.pexpire(name, redis.pttl(name) - int(spared_s * 1000))
        assert eventually(lambda: name not in names(redis).values(), dead_after_s + 30), go.output
        assert not redis.exists(name)


def test_a_process_comes_with_its_hash_and_goes_before_it(
    redis: redis_py.Redis, go_master: GoWorkers, short_lived: Daemon, pyworkers: PyWorkers
) -> None:
    with beating(redis, go_master, "-beat-every", "3ms", "-dead-after", "1h"):
        dead = eventually(lambda: names(redis).get(short_lived.process.pid))
        assert dead
        short_lived.kill()
        with pyworkers("py") as heir:
            assert eventually(lambda: heir.process.pid in names(redis)), heir.output
            assert eventually(lambda: dead not in names(redis).values()), "it was declared dead at the heir's start"
            assert 0 < redis.ttl(dead) <= 300
            alive = names(redis)[heir.process.pid]
        assert alive not in names(redis).values()
        assert 0 < redis.ttl(alive) <= 300


def test_a_process_of_ours_takes_the_place_of_no_active_go_process(
    redis: redis_py.Redis, go_master: GoWorkers, pyworkers: PyWorkers
) -> None:
    with pyworkers("py", processes=4) as parent:
        assert eventually(lambda: len(names(redis)) == 4), parent.output
        with beating(redis, go_master, "-beat-every", "100ms", "-active-managers", "1") as go:
            mine = names(redis)[go.pid]
            beats = int(redis.hget(mine, "beat"))
            assert eventually(lambda: int(redis.hget(mine, "beat")) > beats + 1)
            go_master.produce("-queue", "go")
            assert eventually(lambda: len(runs(redis)) == 1), go.output


def test_enqueue_warns_of_a_number_of_retries_where_go_works_the_queue_and_offers_what_go_reads(
    redis: redis_py.Redis, redis_url: str, go_master: GoWorkers
) -> None:
    def enqueue(*flags: str) -> str:
        pushed = pyworkers_command("enqueue", "--redis", redis_url, *flags, "GoJob")
        assert pushed.returncode == 0
        return pushed.stderr

    with beating(redis, go_master, "-failing", "fails", "-beat-every", "100ms"):
        warning = enqueue("-q", "fails", "--retry", "3")
        assert "fetches from queue fails and does not retry a job whose `retry` is a number" in warning
        assert "--retry true --retry-max 3" in warning
        assert eventually(lambda: len(runs(redis, "raised")) == 1)
        for flags in (("-q", "fails", "--retry", "true", "--retry-max", "3"), ("-q", "elsewhere", "--retry", "3")):
            assert "go-workers2" not in enqueue(*flags)
        assert eventually(lambda: redis.zcard("goretry") == 1)
    (retried,) = entries(redis, "goretry")
    assert retried["retry_max"] == 3
