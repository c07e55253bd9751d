"""`pyworkers job list`: the tracked jobs that have ended."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from apps import own_app, working
from calls import Call
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig

pytestmark = pytest.mark.usefixtures("on_this_server")


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("q", 1)) as app:
        yield app


def test_jobs_that_have_ended_are_listed_by_their_state(app: App, call: Call) -> None:
    @app.job("Report\x1b", queue="q", retain=60)
    def report(year: int) -> int:
        return year

    done = [report.enqueue(year) for year in range(3)]
    with working(app):
        assert eventually(lambda: app.inspector.ended("completed").total == 3)
    gone = report.enqueue(4)
    assert app.cancel(gone) == "cancelled"
    lines = call("job", "list", "--state", "completed").stdout.splitlines()
    assert lines[0].split() == ["ended", "queue", "class", "jid", "result", "reason"]
    assert sorted(line.split()[-4:] for line in lines[1:]) == [
        ["Report\\x1b", jid, "kept", "-"] for jid in sorted(done)
    ]
    cancelled = call("job", "list", "--state", "cancelled", "--json").stdout.splitlines()
    told = [json.loads(line) for line in cancelled]
    assert [(one["jid"], one["state"], one["queue"], one["has_result"]) for one in told] == [
        (gone, "cancelled", "q", False)
    ]
    shown = call("job", "list", "--state", "completed", "-n", "2")
    assert len(shown.stdout.splitlines()) == 3
    assert "these are the first 2; --limit 0 shows all" in shown.stderr
    assert len(call("job", "list", "--state", "completed", "-n", "0").stdout.splitlines()) == 4
    assert call("job", "list", "--state", "expired").stderr == "pyworkers: no tracked jobs in the state expired\n"
    assert call("job", "list").returncode == 2
    assert call("job", "list", "--state", "dead").returncode == 2
