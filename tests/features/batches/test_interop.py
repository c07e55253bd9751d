"""Programs of other languages open and fill a batch with the commands of docs/batches.md, and Python works it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apps import own_app, working
from programs import RUBY, call
from waiting import eventually

from goworkers_py.config.options import QueueConfig


@pytest.fixture(params=["go", "ruby"])
def filler(request: pytest.FixtureRequest) -> list[str | Path]:
    """The command that fills a batch."""
    if request.param == "go":
        return [request.getfixturevalue("go_binaries") / "batch"]
    request.getfixturevalue("has_sidekiq")
    return ["ruby", RUBY / "batch.rb"]


def test_a_batch_that_another_language_has_filled_succeeds(filler: list[str | Path], redis_url: str) -> None:
    call(*filler, redis_url, "nightly")
    with own_app(redis_url, QueueConfig("q", 2), QueueConfig("reports", 1), timeout=1) as app:
        told: list[Any] = []
        app.job("Member", queue="q")(told.append)
        app.job("Report", queue="reports")(told.append)
        status = app.batches.status("nightly")
        assert status is not None
        assert (status.total, status.pending, status.holds, status.state) == (3, 3, 0, "open")
        with working(app):
            assert eventually(lambda: "nightly" in told)
        status = app.batches.status("nightly")
    assert status is not None
    assert (sorted(told[:3]), told[3:]) == ([0, 1, 2], ["nightly"])
    assert (status.succeeded, status.state, status.waiting_for) == (3, "ended", [])
