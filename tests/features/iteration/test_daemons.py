"""Iterable jobs in real processes that are stopped and killed. The ledger, a file, tells which steps were done."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import redis as redis_py
from apps import queue
from daemon import Daemon
from waiting import eventually

from goworkers_py.features.iteration.cursor import CURSOR_LIFE_S

STEPS = 60

JOBS = f"""
    import os, time
    import goworkers_py as workers

    def done():
        return len(open("ledger").readlines()) if os.path.exists("ledger") else 0

    @workers.job("Count", queue="q", checkpoint=1e-9)
    def count(*, cursor=0):
        for step in range(cursor, {STEPS}):
            while done() >= 20 and not os.path.exists("goes on"):
                open("waits", "a").close()
                time.sleep(0.01)
            with open("ledger", "a") as ledger:
                ledger.write(f"{{step}}\\n")
            yield step + 1

    @workers.job("Waits", queue="q", checkpoint=3_600)  # none, however long the machine pauses before the yield
    def waits(*, cursor=0):
        with open("ledger", "a") as ledger:
            ledger.write(f"{{cursor}}\\n")
        if cursor == 0:
            yield 1
            with open("ledger", "a") as ledger:
                ledger.write("repeated\\n")
            while not os.path.exists("goes on"):
                time.sleep(0.01)
            yield 2
"""


class Ledger:
    def __init__(self, directory: Path) -> None:
        self._file = directory / "ledger"
        self._goes_on = directory / "goes on"

    @property
    def lines(self) -> list[str]:
        return self._file.read_text("utf-8").split() if self._file.exists() else []

    @property
    def waits(self) -> bool:
        """Whether a step has begun that waits until it may go on."""
        return self._goes_on.with_name("waits").exists()

    def let_go_on(self) -> None:
        self._goes_on.touch()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def daemon(tmp_path: Path, redis_url: str, *flags: str) -> Daemon:
    return Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", *flags)


def push(redis: redis_py.Redis, job_class: str) -> bytes:
    payload = json.dumps({"class": job_class, "args": [], "retry": 3, "queue": "q", "jid": "abc"}).encode()
    redis.lpush("queue:q", payload)
    return payload


def ended(redis: redis_py.Redis) -> bool:
    """One look at all places: a job that is recovered moves from one to another between two looks."""
    with redis.pipeline() as places:
        found: list[object] = places.keys("queue:*:inprogress").exists("queue:q", "it-abc", "retry", "dead").execute()
    return found == [[], 0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGTSTP])
def test_a_job_that_is_interrupted_goes_on_in_another_process_and_repeats_nothing(
    number: signal.Signals, tmp_path: Path, redis_url: str, redis: redis_py.Redis, ledger: Ledger
) -> None:
    payload = push(redis, "Count")
    with daemon(tmp_path, redis_url, "-t", "30") as first:
        assert eventually(lambda: ledger.waits)
        first.signal(number)
        first.says("quiet: no new jobs are fetched")
        ledger.let_go_on()  # the step that runs now is finished
        assert eventually(lambda: queue(redis) == [payload])
        if number == signal.SIGTSTP:
            assert first.process.poll() is None
            first.signal(signal.SIGTERM)
        assert first.wait() == 0
    assert ledger.lines == [str(step) for step in range(21)]
    told = redis.hgetall("it-abc")
    assert (told[b"ex"], told[b"c"], told[b"py"]) == (b"1", b"21", b"1")
    assert float(told[b"rt"]) > 0
    assert 0 < redis.ttl("it-abc") <= CURSOR_LIFE_S
    assert redis.get("stat:processed") is None
    with daemon(tmp_path, redis_url):
        assert eventually(lambda: ended(redis))
    assert ledger.lines == [str(step) for step in range(STEPS)]
    assert (redis.get("stat:processed"), redis.get("stat:failed")) == (b"1", None)


def test_a_killed_job_goes_on_from_its_last_checkpoint(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, ledger: Ledger
) -> None:
    push(redis, "Count")
    with daemon(tmp_path, redis_url) as first:
        assert eventually(lambda: len(ledger.lines) == 20 and redis.hget("it-abc", "c") == b"20")
        first.kill()
    ledger.let_go_on()
    with daemon(tmp_path, redis_url):
        assert eventually(lambda: ended(redis), 60)
    assert ledger.lines == [str(step) for step in range(STEPS)]


def test_what_lies_after_the_last_checkpoint_is_repeated_when_the_process_is_killed(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, ledger: Ledger
) -> None:
    push(redis, "Waits")
    with daemon(tmp_path, redis_url) as first:
        assert eventually(lambda: ledger.lines == ["0", "repeated"])
        first.kill()
    ledger.let_go_on()
    with daemon(tmp_path, redis_url):
        assert eventually(lambda: ended(redis), 60)
    assert ledger.lines == ["0", "repeated"] * 2


def test_a_job_that_does_not_yield_in_time_goes_on_from_its_last_checkpoint(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, ledger: Ledger
) -> None:
    payload = push(redis, "Count")
    with daemon(tmp_path, redis_url, "-t", "0.3") as first:
        assert eventually(lambda: ledger.waits)
        first.signal(signal.SIGTERM)
        first.wait()
    assert queue(redis) == [payload]
    ledger.let_go_on()
    with daemon(tmp_path, redis_url):
        assert eventually(lambda: ended(redis), 60)
    assert ledger.lines == [str(step) for step in range(STEPS)]


# --- keys that Sidekiq has written


def test_a_job_that_sidekiq_has_begun_is_not_begun_anew(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, ledger: Ledger
) -> None:
    record = {"ex": 1, "c": "7", "rt": 1.5}
    redis.hset("it-abc", mapping=record)
    push(redis, "Count")
    with daemon(tmp_path, redis_url):
        assert eventually(lambda: redis.zcard("dead") == 1)
    [dead] = redis.zrange("dead", 0, -1)
    assert "this release cannot read its cursor" in json.loads(dead)["error_message"]
    assert redis.hgetall("it-abc") == {name.encode(): str(value).encode() for name, value in record.items()}
    assert ledger.lines == []


def test_a_job_that_sidekiq_has_cancelled_does_not_run(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, ledger: Ledger
) -> None:
    redis.hset("it-abc", "cancelled", 1_700_000_000)  # before its first run: there is nothing else in the key
    push(redis, "Count")
    with daemon(tmp_path, redis_url):
        assert eventually(lambda: ended(redis))
    assert ledger.lines == []
