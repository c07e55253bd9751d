"""Ruby pushes jobs with the gem sidekiq-status, Python runs them, and the gem tells how far they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archives
import pytest
from apps import own_app, working
from programs import RUBY, call, third_party
from waiting import eventually

from goworkers_py import App, JobCancelled, KillJob, RetryJob, current_message
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.cancelling.service import Canceller

pytestmark = pytest.mark.usefixtures("has_sidekiq")


class Gem:
    def __init__(self, redis_url: str, library: Path) -> None:
        self._redis_url, self._library = redis_url, library

    def __call__(self, *words: str) -> dict[str, Any]:
        [told] = call("ruby", "-I", self._library, RUBY / "status.rb", self._redis_url, *words)
        return told


@pytest.fixture
def gem(redis_url: str, tmp_path: Path) -> Gem:
    archives.unpack(third_party("sidekiq-status-3.0.3.tar.gz"), tmp_path)
    library = tmp_path / "sidekiq-status-3.0.3" / "lib"
    (library / "chronic_duration.rb").touch()  # a gem that only the pages of sidekiq-status call
    return Gem(redis_url, library)


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=2)) as app:
        yield app


def test_the_gem_tells_the_progress_and_the_end_of_a_job_in_python(app: App, gem: Gem) -> None:
    go_on = threading.Event()

    @app.job("Shown", queue="q", sidekiq_status=True)
    def shown(number: int) -> None:
        for at in (1, 21):
            current_message().progress(at, number, f"page {at}")  # type: ignore[union-attr]
        go_on.wait(60)

    jid = gem("push")["jid"]
    assert gem("ask", jid)["status"] == "queued"
    with working(app):
        assert eventually(lambda: gem("ask", jid)["percent"] == 50)
        told = gem("ask", jid)
        assert (told["status"], told["at"], told["total"], told["message"]) == ("working", 21, 42, "page 21")
        assert told["eta"] >= 0
        go_on.set()
        assert eventually(lambda: gem("ask", jid)["complete"])
    told = gem("ask", jid)
    assert time.time() - 60 < told["update_time"] <= time.time()
    assert 3_000 < told["ttl"] <= 3_600  # as long as Ruby has said


def test_the_gem_tells_that_a_job_is_tried_again_and_that_it_has_failed(app: App, gem: Gem) -> None:
    failures = [RetryJob(delay=3_600), KillJob()]

    @app.job("Shown", queue="q", sidekiq_status=True)
    def shown(number: int) -> None:
        raise failures.pop(0)

    for word in ("retrying", "failed"):
        jid = gem("push")["jid"]
        with working(app):
            assert eventually(lambda jid=jid: gem("ask", jid)["status"] not in ("queued", "working"))
        assert gem("ask", jid)["status"] == word


def test_the_gem_stops_a_job_that_runs_in_python(app: App, gem: Gem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Canceller, "compare_every_s", 0.1)
    began, told = threading.Event(), []

    @app.job("Shown", queue="q", sidekiq_status=True)
    def shown(number: int) -> None:
        began.set()
        try:
            for _ in range(6_000):
                time.sleep(0.01)
        except JobCancelled as error:
            told.append(error)
            raise

    jid = gem("push")["jid"]
    with working(app):
        assert began.wait(20)
        gem("stop", jid)
        assert eventually(lambda: gem("ask", jid)["status"] == "stopped")
    assert len(told) == 1
