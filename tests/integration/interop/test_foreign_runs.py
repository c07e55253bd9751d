"""Jobs that run in Ruby and Go: where they are shown, what a cancel of them answers, which processes can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis as redis_py
from daemon import pyworkers as pyworkers_command
from programs import GoWorkers, Ruby, runs, sidekiq_version
from waiting import eventually

from goworkers_py import App
from goworkers_py.features.cancelling.contract import Cancels

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]  # the Go program may have to be built first


def runs_in(python: App, jid: str) -> str:
    """The process that runs the job; empty until it says so."""
    return python.status(jid).owner


def test_a_job_that_is_not_iterable_runs_on_in_ruby_and_the_cancel_says_so(
    redis: redis_py.Redis, redis_url: str, ruby: Ruby, python: App
) -> None:
    with ruby.sidekiq("rb"):
        jid, waits = ruby.produce("push", "--queue", "rb", "--class", "SlowJob", "--count", "2", "--args", "[60]")
        assert eventually(lambda: runs_in(python, jid), 30)
        assert [one.language for one in python.inspector.processes()] == ["Ruby"]
        assert python.cancel(jid) == "runs in Ruby"
        assert python.cancel(jid, retry=True) == "runs in Ruby"
        told = pyworkers_command("job", "cancel", "--redis", redis_url, jid)
        assert told.returncode == 1
        assert f"{jid} runs in Ruby ({runs_in(python, jid)}), which does not obey a cancel: a stop of" in told.stdout
        told = pyworkers_command("job", "cancel", "--redis", redis_url, "--class", "SlowJob")
        assert "1 job cancelled" in told.stdout, "the one that waits"
        assert "1 job not cancelled: they run in Ruby or Go" in told.stdout
        assert python.status(waits).state == "unknown"
        assert runs_in(python, jid)
        assert not python.broker.require_part(Cancels).stands(jid), "nobody would meet it"
        assert bool(redis.exists(f"it-{jid}")) == (sidekiq_version() >= (7, 3, 3))
    assert python.cancel(jid) == "cancelled", "Sidekiq has given it back"


def test_an_iterable_job_of_ruby_obeys_a_cancel(redis: redis_py.Redis, ruby: Ruby, python: App) -> None:
    if sidekiq_version() < (7, 3, 9):
        pytest.skip(f"iterable jobs of Sidekiq {'.'.join(map(str, sidekiq_version()))} look for no cancel")
    with ruby.sidekiq("rb"):
        [jid] = ruby.produce("push", "--queue", "rb", "--class", "EndlessJob")
        assert eventually(lambda: redis.exists(f"it-{jid}"), 30), "it tells where it is every five seconds"
        assert eventually(lambda: runs_in(python, jid), 30)
        assert python.cancel(jid) == "requested"
        assert eventually(lambda: redis.lrange("cancelled", 0, -1) == [jid.encode()], 30)
        assert eventually(lambda: not redis.exists(f"it-{jid}"))


def test_an_iterable_job_of_ruby_that_was_cancelled_before_its_first_look_ends_when_it_is_begun_again(
    redis: redis_py.Redis, ruby: Ruby, python: App
) -> None:
    """Sidekiq's own `cancel!` leaves a hash that its next run cannot read."""
    if sidekiq_version() < (7, 3, 9):
        pytest.skip("no cancel")
    assert not python.broker.require_part(Cancels).ask_sidekiq("a" * 24)
    redis.rename(f"it-{'a' * 24}", "it-new")
    assert 0 < redis.ttl("it-new") <= 30 * 86_400
    [jid] = ruby.produce("push", "--queue", "rb", "--class", "EndlessJob")
    redis.rename("it-new", f"it-{jid}")
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.lrange("cancelled", 0, -1) == [jid.encode()], 30)
    assert not redis.exists("retry")


def test_what_runs_in_go_is_shown_and_can_be_neither_cancelled_nor_stopped_from_here(
    redis: redis_py.Redis, redis_url: str, gw2_master: Path, tmp_path: Path, python: App
) -> None:
    go = GoWorkers(gw2_master, redis_url, tmp_path)
    with go.consume("-queue", "go", "-beat-every", "100ms", "-sleep", "4s") as consumer:
        jid, waits = go.produce("-queue", "go", "-count", "2")
        assert eventually(lambda: runs_in(python, jid)), consumer.output
        [process] = python.inspector.processes()
        assert (process.language, process.busy) == ("Go", 1)
        assert [(one.job.jid, one.since) for one in python.inspector.running()] == [(jid, None)]
        assert (python.cancel(jid), python.cancel(waits)) == ("runs in Go", "cancelled")
        for command in ("quiet", "stop"):
            told = pyworkers_command("processes", command, "--redis", redis_url, process.identity)
            assert told.returncode == 1
            assert f"kill -TERM {consumer.pid}` on" in told.stderr
        assert not redis.exists(f"{process.identity}-signals")
    assert [run["jid"] for run in runs(redis)] == [jid], "it ended its job, as told"
    assert not redis.exists("queue:go")
