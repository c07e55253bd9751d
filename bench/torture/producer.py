"""Pushes the jobs of the plan by the client of the system, one after the other. It never pushes a job again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

from bench.programs import Client, Failed
from bench.torture.ledger import Ledger
from bench.torture.plan import Job
from bench.torture.proxy import Proxy
from bench.torture.systems.system import Place, System


class Producer(threading.Thread):
    """The client lives in this thread: it ends with the thread that started it."""

    def __init__(self, system: System, jobs: Iterable[Job], port: int, ledger: Ledger, folder: Path) -> None:
        super().__init__(name="producer", daemon=True)
        self.proxy = Proxy(port)
        self._system, self._jobs, self._ledger, self._folder = system, jobs, ledger, folder
        self._client: Client | None = None
        self._clients = 0
        self._began = 0.0
        self.stopping = threading.Event()
        self.ready, self.go = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._push_all()
        except BaseException as error:
            self.error = error
        finally:
            self.ready.set()
            if self._client is not None:
                self._client.kill()

    def _push_all(self) -> None:
        """First the warm-up, until `go` is set; then the plan."""
        number = 0
        while not self.go.wait(0.2):
            self._push(Job(f"warm{number:05}", 0, 1, 0, 0))
            self.ready.set()
            number += 1
        self._began = time.monotonic()
        for job in self._jobs:
            if self.stopping.wait(max(0.0, self._began + job.at_s - time.monotonic())):
                return
            self._push(job)

    def _push(self, job: Job) -> None:
        due = f"{time.time() + job.delay_s:.3f}" if job.delay_s else "0"
        try:
            client = self._client = self._client or self._start()
            self._ledger.note("push", job.id, due)
            answer = client.ask("push", id=job.id, ms=job.milliseconds, failures=job.failures, at=float(due))
        except Failed:
            answer = {}
            if self._client is not None:
                self._client.kill()
                self._client = None
        self._ledger.note("pushed" if answer.get("pushed") else "unsure", job.id)

    def _start(self) -> Client:
        self._clients += 1
        place = Place(self.proxy.url, "producer", self._ledger.path, self._folder)
        log = self._folder / f"producer{self._clients}.log"
        return Client(self._system.client(), self._system.environment(place), log)
