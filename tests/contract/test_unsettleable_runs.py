"""A job that cannot be settled, in a whole daemon: its neighbours are settled, its pool goes on, and the stop ends in
time."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apps import started
from harness import Harness
from obstacles import obstructed
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.rabbitmq import publisher
from goworkers_py.config.options import QueueConfig
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.settling.settlement import Settlement


@contextmanager
def daemon(harness: Harness, runs: Counter[str]) -> Iterator[tuple[App, Launcher]]:
    """A pool of two threads, and a job whose end is a push to the queue `closed`."""
    app = App()
    # Not much sooner: on a busy machine the service would deliver again what this process keeps too late.
    sooner = "?retry=6" if harness.address.startswith("disque:") else ""
    app.configure(broker=harness.address + sooner, timeout=5, **getattr(harness, "options", {}))
    app.use(dataclasses.replace(app.config, queues=(QueueConfig("q", concurrency=2),)))
    try:

        @app.job("Child", queue="closed")
        def child() -> None: ...

        @app.job("Stuck", queue="q", atomic=True)
        def stuck() -> None:
            runs["stuck"] += 1
            child.enqueue()

        @app.job("Neighbour", queue="q")
        def neighbour() -> None:
            runs["neighbour"] += 1

        with started(app) as launcher:
            yield app, launcher
    finally:
        app.use(app.config)  # closes its connections


def test_a_job_that_cannot_be_settled_stops_neither_its_pool_nor_the_stop_and_comes_again_once(
    make_harness: Callable[[Path], Harness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "REFUSED_FOR_S", 1.0)  # a queue that is just declared refuses too
    monkeypatch.setattr(Settlement, "refused_for_s", 0.2)
    harness, runs = make_harness(tmp_path), Counter[str]()
    try:
        with obstructed(getattr(harness, "options", {}).get("store", harness.address), "closed") as lift:
            if lift is None:
                pytest.skip("no queue is closed there")
            with daemon(harness, runs) as (app, launcher):
                for name in ("Stuck", "Neighbour", "Neighbour", "Stuck", "Neighbour"):
                    app.enqueue("q", name, [])
                assert eventually(lambda: runs == {"stuck": 2, "neighbour": 3})
                # The two that are stuck leave both threads to others.
                for _ in range(20):
                    app.enqueue("q", "Neighbour", [])
                assert eventually(lambda: runs["neighbour"] == 23)
                assert eventually(lambda: [len(one._pool.unsettled) for one in launcher.managers] == [2])
                assert launcher.stop() is False, "the exit code tells"
            assert runs == {"stuck": 2, "neighbour": 23}
            assert eventually(lambda: "settler:q" not in [thread.name for thread in threading.enumerate()])
            lift()
        with daemon(harness, runs) as (app, launcher):
            assert eventually(lambda: runs["stuck"] == 4, within_s=20.0)
            assert eventually(lambda: [len(one._pool.unsettled) for one in launcher.managers] == [0])
            assert launcher.stop() is True
        assert runs == {"stuck": 4, "neighbour": 23}
    finally:
        harness.close()
