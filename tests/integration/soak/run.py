"""Runs the fleet under load, takes samples, and at the end waits for every job."""

from __future__ import annotations

import json
import os
import platform
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import hasty

import goworkers_py as workers
from soak import DEPLOY_EVERY_S, DRAIN_S, ENDS, KILL_EVERY_S, REOPEN_EVERY_S, SAMPLE_EVERY_S
from soak.fleet import SHORT_LIVES, Fleet
from soak.ledger import Ledger
from soak.producer import Looks, Paced, Pushes
from soak.samples import children_of, read_process, read_server

START_S = 60.0

Say = Callable[[str], None]


def run(seconds: float, directory: Path, samples: Path, say: Say) -> None:
    """The last line of the samples says what went wrong, but for growth, of which the others tell."""
    os.environ[ENDS] = str(directory / "ends")
    ledger = Ledger(directory / "ends")
    ledger.start()
    with samples.open("w") as file:

        def write(record: dict[str, Any]) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()

        def note(event: str) -> None:
            say(event)
            write({"event": event, "at": _now()})

        try:
            with _fleet(directory, note) as fleet:
                Soak(fleet, ledger, write).run(seconds)
        finally:
            ledger.close()


@contextmanager
def _fleet(directory: Path, note: Say) -> Iterator[Fleet]:
    fleet = Fleet(directory, directory / "ends", note)
    try:
        yield fleet
    finally:
        fleet.close()


class Soak:
    def __init__(self, fleet: Fleet, ledger: Ledger, write: Callable[[dict[str, Any]], None]) -> None:
        self._fleet, self._ledger, self._write = fleet, ledger, write
        self._client = fleet.server.client()
        self._server_pid = int(self._client.info("server")["process_id"])
        self._began = time.monotonic()

    def run(self, seconds: float) -> None:
        hasty.apply({"constants": SHORT_LIVES, "machine": ""})
        workers.configure(broker=self._fleet.server.url)
        for name in self._fleet.configurations:
            self._fleet.start(name)
        self._await_workers()
        to_cancel: queue.SimpleQueue[str] = queue.SimpleQueue()
        pushes = Pushes(self._ledger, self._fleet.server.url, self._client, to_cancel)
        looks = Looks(self._fleet, to_cancel, pushes.results)
        changes = [
            (DEPLOY_EVERY_S, self._fleet.deploy), (KILL_EVERY_S, self._fleet.kill),
            (REOPEN_EVERY_S, self._fleet.reopen_logs),
        ]  # fmt: skip
        busy = [Paced("producer", [(1 / per_s, push) for per_s, push in pushes.per_s()]), Paced("changes", changes)]
        looking = [Paced("looks", looks.all()), Paced("canceller", [(0.25, looks.cancel)])]
        self._began = time.monotonic()
        self._write({**_head(seconds), "redis": self._client.info("server")["redis_version"]})
        for thread in busy + looking:
            thread.start()
        wrong = self._sample_until(self._began + seconds, busy + looking)
        _end(busy)
        wrong += self._await_jobs()
        _end(looking)
        pushes.stop()
        jobs = self._ledger.counts()
        self._write({"end": True, "s": round(time.monotonic() - self._began, 1), "wrong": wrong, "jobs": jobs})
        workers.app.broker.close()

    def _sample_until(self, end: float, threads: list[Paced]) -> list[str]:
        number = 0
        while time.monotonic() < end:
            number += 1
            time.sleep(max(0.0, min(end, self._began + number * SAMPLE_EVERY_S) - time.monotonic()))
            self._write(self._sample())
            wrong = [f"{thread.name}: {thread.error!r}" for thread in threads if thread.error is not None]
            if "steady" in self._fleet.ended():
                wrong.append("the daemon `steady` has ended by itself")
            if wrong:
                return wrong
        return []

    def _await_jobs(self) -> list[str]:
        deadline = time.monotonic() + DRAIN_S
        while (left := self._ledger.open()) and time.monotonic() < deadline:
            time.sleep(1)
        self._write(self._sample())
        return [f"{len(left)} jobs have not ended: {', '.join(left[:20])}"] if left else []

    def _sample(self) -> dict[str, Any]:
        late = self._ledger.take_latencies()
        steady = self._fleet.daemons["steady"].pid
        pids = {
            "parent": steady,
            **{f"child {number}": pid for number, pid in enumerate(children_of(steady), 1)},
            "changing": self._fleet.daemons["changing"].pid,
            "producer": os.getpid(),
            "redis": self._server_pid,
        }
        return {
            "s": round(time.monotonic() - self._began, 1),
            "processes": {role: read_process(pid) for role, pid in pids.items()},
            "redis": read_server(self._client),
            "jobs": self._ledger.counts(),
            "open": len(self._ledger.open()),
            "late_ms": {str(part): _percentile(late, part) for part in (50, 99)},
        }

    def _await_workers(self) -> None:
        deadline = time.monotonic() + START_S
        while self._client.scard("processes") < 3:
            if time.monotonic() > deadline or self._fleet.ended():
                raise RuntimeError(f"the daemons did not start: {self._fleet.logs()}")
            time.sleep(0.2)


def _end(threads: list[Paced]) -> None:
    for thread in threads:
        thread.stopping.set()
    for thread in threads:
        thread.join()


def _percentile(ordered: list[float], part: int) -> float | None:
    return round(1000 * ordered[min(len(ordered) - 1, len(ordered) * part // 100)], 2) if ordered else None


def _head(seconds: float) -> dict[str, Any]:
    return {
        "begin": True,
        "at": _now(),
        "seconds": seconds,
        "version": workers.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "argv": sys.argv[1:],
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
