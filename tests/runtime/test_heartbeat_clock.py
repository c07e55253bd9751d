"""Machines whose clocks are ten minutes off: what is due is due by the server's clock."""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path

import pytest
import redis as redis_py
from apps import job, own_app, own_broker, working
from fleet import Fleet
from hasty import SHORT, hasty
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import QueueConfig
from goworkers_py.core import machine
from goworkers_py.core.errors import RetryJob
from goworkers_py.core.timing import Timing
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.runtime.alive.heartbeat import MOST_SKEW_S
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.wire.message import Message

TEN_MINUTES_S = 600.0
SOON = Timing(beat_every_s=0.05)
SLACK_S = 15.0  # for a machine that is busy with other tests
# A process on a busy machine that gets no processor for some seconds is not dead.
LEASES = {**SHORT, "timing.lease_s": 10, "timing.lease_fresh_s": 9}


def server_time(redis: redis_py.Redis) -> float:
    seconds, microseconds = redis.time()
    return seconds + microseconds / 1e6


def shows_the_servers_time(app: App, redis: redis_py.Redis, within_s: float) -> bool:
    before, shown = server_time(redis), app.clock.wall()
    return abs(shown - before) < within_s and abs(shown - server_time(redis)) < within_s


@pytest.fixture(params=[TEN_MINUTES_S, -TEN_MINUTES_S], ids=["fast", "slow"])
def skew_s(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """This process's wall clock is that much ahead of the server's."""
    real = time.time
    monkeypatch.setattr(machine, "time", lambda: real() + request.param)
    return request.param


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]


def test_scheduled_jobs_run_when_they_are_due_by_the_servers_clock(
    redis_url: str, redis: redis_py.Redis, skew_s: float
) -> None:
    ran: dict[str, float] = {}
    with own_app(redis_url, QueueConfig("q"), timing=SOON, poll_interval=0.2) as app:
        app.registry.handle("q", lambda message: ran.update({message.jid: server_time(redis)}))
        due = server_time(redis) + 1
        redis.zadd("schedule", {job(jid="soon"): due, job(jid="in nine minutes"): due + TEN_MINUTES_S - 60})
        with working(app):
            assert eventually(lambda: "soon" in ran)
            time.sleep(0.5)
    assert set(ran) == {"soon"}
    assert 0 <= ran["soon"] - due < SLACK_S


def test_what_the_daemons_own_process_makes_due_is_due_in_time(
    redis_url: str, redis: redis_py.Redis, skew_s: float
) -> None:
    """Retries, and what a job schedules."""
    ran: dict[str, list[float]] = {}

    def run(message) -> None:
        ran.setdefault(message.job_class, []).append(time.monotonic())
        if message.job_class == "Failing" and message.retry_count is None:
            raise RetryJob(delay=1)
        if message.job_class == "Scheduling":
            app.enqueue_in("q", "Scheduled", 1, [])

    with own_app(redis_url, QueueConfig("q"), timing=SOON) as app:
        app.registry.handle("q", run)
        with working(app):
            # Behind an answer that came late, a guess of the time may be too early. Each beat makes it better.
            assert eventually(lambda: shows_the_servers_time(app, redis, 0.05))
            app.enqueue("q", "Failing", [])
            app.enqueue("q", "Scheduling", [])
            assert eventually(lambda: len(ran.get("Failing", [])) == 2)
            assert eventually(lambda: "Scheduled" in ran)
    first, second = ran["Failing"]
    assert 0.9 < second - first < 1 + SLACK_S
    assert 0.9 < ran["Scheduled"][0] - ran["Scheduling"][0] < 1 + SLACK_S


def test_one_warning_says_how_far_off_the_clock_is(
    redis_url: str, redis: redis_py.Redis, skew_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(redis_url, QueueConfig("q"), timing=SOON) as app, working(app):
        beats = _beats(redis)
        assert eventually(lambda: _beats(redis) > beats + 10)
        assert eventually(lambda: shows_the_servers_time(app, redis, 1))
    [warning] = warnings(caplog)
    told = re.fullmatch(
        r"this machine's clock is (\S+) s off the server's, whose time is used; synchronise it", warning
    )
    assert told is not None, warning
    assert float(told[1]) == pytest.approx(skew_s, abs=10)  # a guess: the beat of a busy machine takes a while


def _beats(redis: redis_py.Redis) -> int:
    return redis.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_a_clock_that_is_right_is_not_warned_of(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(redis_url, QueueConfig("q"), timing=SOON) as app, working(app):
        beats = _beats(redis)
        assert eventually(lambda: _beats(redis) > beats + 5)
        assert eventually(lambda: shows_the_servers_time(app, redis, 1))
    assert not warnings(caplog)


def test_a_process_that_stands_still_after_an_answer_does_not_blame_its_clock(
    redis_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quarantine, "announced", lambda *told: time.sleep(MOST_SKEW_S + 0.5))
    with own_app(redis_url, QueueConfig("q")) as app, working(app):
        pass
    assert not warnings(caplog)


@pytest.mark.parametrize("step_s", [TEN_MINUTES_S, -TEN_MINUTES_S], ids=["ahead", "back"])
def test_a_step_of_the_wall_clock_between_two_beats_changes_nothing(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """A job whose deadline is a minute away runs, and a retry is due when the server's clock says so."""
    real, off = time.time, [0.0]
    monkeypatch.setattr(machine, "time", lambda: real() + off[0])
    with own_app(redis_url, QueueConfig("q")) as app:
        ran: list[str] = []

        def run(message: Message) -> None:
            ran.append(message.job_class)
            if message.job_class == "Failing":
                raise RetryJob(delay=100)

        app.registry.handle("q", run)
        with working(app):
            monkeypatch.setattr(app.clock, "synchronize", lambda *told: None)  # the next beat is far away
            off[0] = step_s
            now = server_time(redis)
            app.enqueue_with_options("q", "InTime", [], EnqueueOptions(deadline=now + 60))
            app.enqueue("q", "Failing", [])
            assert eventually(lambda: sorted(ran) == ["Failing", "InTime"])
            assert eventually(lambda: redis.zcard("retry") == 1)
    [(_, due)] = redis.zrange("retry", 0, -1, withscores=True)
    assert 95 < due - now < 100 + 30


def test_who_left_is_remembered_for_as_long_as_a_late_job_may_come(
    redis_url: str, redis: redis_py.Redis, skew_s: float
) -> None:
    """However fast the clock of the one who looks."""

    def judge(found: FoundJob) -> RecoveryDecision:
        return RecoveryDecision(found.payload)

    with own_broker(redis_url) as broker:
        broker.recoverable.beat(Presence("leaver", {"q": 1}))
        assert not list(broker.recoverable.leave("leaver", silent=False))
        assert not list(broker.recoverable.recover("other", judge, proof=""))
        redis.lpush("queue:q:leaver:inprogress", job(jid="late"))
        [late] = broker.recoverable.recover("other", judge, proof="")
    assert late.payload == job(jid="late")


# --- real processes


@pytest.fixture
def faketime() -> str:
    """Its library; the program of that name would stand between us and the process that we want to kill."""
    found = sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
    if not found:
        told = "there is no libfaketime: install the package faketime"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    return str(found[0])


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("offset", ["+10m", "-10m"])
def test_a_process_whose_clock_is_off_recovers_nothing_early_and_the_dead_in_time(
    redis_url: str,
    redis: redis_py.Redis,
    tmp_path: Path,
    faketime: str,
    offset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leases of seconds here, of a minute in earnest: to a clock that is ten minutes off both have run out."""
    with Fleet(tmp_path, redis_url, redis) as fleet:
        right = fleet.start("-q", "q=1", prefix=hasty(LEASES, machine="a")).ready()
        fleet.push("held", "Gated", "gate")
        fleet.await_run("began", "held")
        for name, value in {
            "LD_PRELOAD": faketime,
            "FAKETIME": offset,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }.items():
            monkeypatch.setenv(name, value)
        off = fleet.start("-q", "q=1", prefix=hasty(LEASES, machine="b")).ready()
        said = off.says("this machine's clock is")
        assert abs(float(said.partition("clock is ")[2].split()[0])) == pytest.approx(TEN_MINUTES_S, abs=5)
        time.sleep(12)  # longer than a lease, and many looks
        assert fleet.count("began") == {"held": 1}
        assert "recovered" not in off.output
        right.kill()
        fleet.open("gate")  # before it is run again: Python's sleep does not work with this library
        off.says("recovered from dead process", 40)
        fleet.await_run("ended", "held")
        off.kill()  # it may not hear TERM: waiting threads and this library do not get on
    assert off.output.count("this machine's clock is") == 1
    assert logging.getLevelName(logging.WARNING) in said
