"""The end of a run frees its places, whatever has ended the run."""

from __future__ import annotations

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.brokers.memory.broker import forget
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.limits.limit import Slot
from goworkers_py.features.unique.run import UniqueRuns


def test_a_run_that_breaks_off_between_its_places_and_its_code_frees_the_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("a fault of our own")

    monkeypatch.setattr(UniqueRuns, "_begin_again", broken)
    with own_app("memory://broken-run", QueueConfig(name="q", concurrency=1)) as app:
        limit = app.limit("one", concurrent=2)
        job = app.job("J", queue="q", limits=[limit], unique_for=60, unique_until="start")(lambda: None)
        with working(app):
            job.enqueue()
            assert eventually(lambda: app.inspector.stats().retries == 1)
            assert app.inspector.places(Slot("one")) == []
    forget("memory://broken-run")
