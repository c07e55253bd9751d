"""Jobs that wait until the test releases them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from apps import own_app

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.wire.message import Message


class Gate:
    """A handler whose jobs wait until they are let through."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.ended: list[str] = []
        self.open = threading.Event()

    def __call__(self, message: Message) -> None:
        self.running.append(message.jid)
        assert self.open.wait(30)
        self.ended.append(message.jid)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


class Gates:
    """Jobs that wait in C code, where no thrown exception reaches them, until `let_out`."""

    def __init__(self, app: App) -> None:
        self._locks: dict[str, threading.Lock] = {}
        self.ran: list[str] = []

        @app.job(queue="q", timeout=0.5, retry=False)  # a busy machine may take long to reach the lock
        def stuck(name: str) -> None:
            self.lock(name).acquire()
            self.ran.append(name)

        @app.job(queue="q")
        def quick(name: str) -> None:
            self.ran.append(name)

        self.stuck, self.quick = stuck, quick

    def lock(self, name: str) -> threading.Lock:
        if name not in self._locks:
            self._locks[name] = threading.Lock()
            self._locks[name].acquire()
        return self._locks[name]

    def let_out(self, name: str) -> None:
        self.lock(name).release()

    def let_out_all(self) -> None:
        for lock in self._locks.values():
            with suppress(RuntimeError):  # let out already
                lock.release()


@contextmanager
def gated(redis_url: str, concurrency: int, **options: Any) -> Iterator[tuple[App, Gates]]:
    with own_app(redis_url, QueueConfig("q", concurrency=concurrency), stuck_grace=0.1, **options) as app:
        gates = Gates(app)
        try:
            yield app, gates
        finally:
            gates.let_out_all()
