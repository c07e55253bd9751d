"""Ruby asks for the result of a job that Python runs, by the lines that docs/job-states.md shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app, working
from programs import RUBY
from waiting import eventually

from goworkers_py import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import KillJob

PAGE = Path(__file__).parents[3] / "docs" / "job-states.md"

pytestmark = pytest.mark.usefixtures("has_sidekiq")


def ask(redis_url: str, jid: str, timeout: float = 20) -> str:
    """What the method of the page returns, as JSON; or the class and the text of what it raises."""
    [shown] = re.findall(r"```ruby\n(# Returns the result.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    told = f"""
require "sidekiq"; require "timeout"; require {json.dumps(str(RUBY / "connect"))}
quieten
{shown}
begin
  puts JSON.generate(python_result(ARGV[0], timeout: {timeout}))
rescue => error
  puts "#{{error.class}}: #{{error.message}}"
end
"""
    done = subprocess.run(
        ["ruby", "-e", told, jid],
        env={**os.environ, "REDIS_URL": redis_url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=2)) as app:
        yield app


def test_ruby_gets_the_result_of_a_job_that_python_runs(app: App, redis_url: str) -> None:
    add = app.job("Add", queue="q", retain=60)(lambda one, other: {"sum": one + other, "text": "ä"})
    long = app.job("Long", queue="q", retain=60)(lambda length: "ä" * length)
    jid, jids = str(add.enqueue(40, 2)), {length: str(long.enqueue(length)) for length in (31, 300, 3_000)}
    with working(app):
        assert ask(redis_url, jid) == '{"sum":42,"text":"ä"}'
        for length, one in jids.items():
            assert ask(redis_url, one) == '"' + "ä" * length + '"'


def test_ruby_is_told_how_a_job_failed_or_that_it_was_cancelled(app: App, redis_url: str) -> None:
    def fail() -> None:
        raise KillJob("no such order")

    failing = app.job("Failing", queue="q", retain=60)(fail)
    died, cancelled = str(failing.enqueue()), str(failing.enqueue_in(1_000))
    assert app.cancel(cancelled) == "cancelled"
    with working(app):
        assert ask(redis_url, died) == f"RuntimeError: job {died} failed: goworkers_py.KillJob: no such order"
        assert ask(redis_url, cancelled) == f"RuntimeError: job {cancelled} was cancelled"


def test_ruby_does_not_wait_for_ever_nor_for_a_job_without_a_record(
    app: App, redis_url: str, redis: redis_py.Redis
) -> None:
    waiting = str(app.job("J", queue="q", retain=60)(lambda: 1).enqueue())
    assert ask(redis_url, waiting, timeout=0.1) == f"Timeout::Error: job {waiting} is waiting"
    assert ask(redis_url, "nobody") == "KeyError: there is no record of job nobody"


def test_ruby_is_told_that_a_result_was_not_kept(app: App, redis_url: str, redis: redis_py.Redis) -> None:
    merely_tracked = app.job("J", queue="q", track=True)(lambda: 1)
    too_large = app.job("Large", queue="q", retain=60)(lambda: object())
    jids = [str(merely_tracked.enqueue()), str(too_large.enqueue())]
    with working(app):
        assert eventually(lambda: [app.status(jid).state for jid in jids] == ["completed"] * 2)
    assert ask(redis_url, jids[0]) == "RuntimeError: the result was not kept"
    assert ask(redis_url, jids[1]).startswith("RuntimeError: the result is a object")
