"""One connection to RabbitMQ, and the thread that owns it.

pika is not thread-safe: after the start of its thread, a link is told of everything by `call`, and the thread does it.
A link serves for one connection only. When that has ended, its owner makes another link, and asks Outage how long to
wait before that.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pika  # type: ignore[import-untyped]
from pika import spec
from pika.adapters.select_connection import IOLoop  # type: ignore[import-untyped]

from goworkers_py.brokers.rabbitmq.translation import translated
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.strikes import Lock

CLOSE_S = 3.0

# Each outage is told in one line of our own, see `runtime.outage`. pika calls a frame critical that comes over a
# channel which RabbitMQ has just closed; it is harmless.
logging.getLogger("pika").setLevel(logging.CRITICAL + 1)


class Link:
    """A subclass opens its channels in `opened`, and ends what waits for it in `ended`: both are called by the thread
    of the link, as is everything that begins with an underscore."""

    connect: Callable[..., Any] = pika.SelectConnection

    def __init__(self, parameters: Any, name: str) -> None:
        self._name = name
        self._parameters = parameters
        self._loop = IOLoop()
        self._connection: Any = None
        self._calling = Lock()  # pika and Python take locks of their own, which a job's thread must not leave taken
        self._begun = machine.Lock()  # taken for good by the first thread that runs
        self._thread: machine.Thread | None = None
        self._closes = False  # by our own will
        self.pid = os.getpid()
        self.error: BrokerError | None = None  # why the connection has ended; set once
        self.over = machine.Event()  # set after that

    # --- any thread

    def start(self) -> None:
        """May be called again when an exception has struck the first call: of two threads the second one ends."""
        if not self._begun.locked():
            with self._calling:
                thread = machine.Thread(target=self._run, name=f"rabbitmq {self._name}", daemon=True)
                thread.start()
                self._thread = thread

    def call(self, task: Callable[[], None]) -> None:
        """The thread calls `task` soon, or never when the connection has ended."""
        with self._calling:
            self._loop.add_callback_threadsafe(task)

    @property
    def serves(self) -> bool:
        """False when it has ended, or belongs to the process that this one was forked from."""
        return self.error is None and self.pid == os.getpid()

    def close(self) -> None:
        if self.pid == os.getpid() and self._thread is not None and self._thread is not machine.current_thread():
            self.call(self._close)
            self._thread.join(CLOSE_S)

    # --- for subclasses, in the thread

    def opened(self, connection: Any) -> None:
        raise NotImplementedError

    def ended(self, error: BrokerError) -> None:
        raise NotImplementedError

    # --- the thread

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._connection = self.connect(
                self._parameters,
                on_open_callback=self.opened,
                on_open_error_callback=self._closed,
                on_close_callback=self._closed,
                custom_ioloop=self._loop,
            )
            self._loop.start()
        except Exception as error:
            self._end(error)
        finally:
            self._end(BrokerUnavailable("the connection was closed"))
            self._loop.close()

    def _close(self) -> None:
        self._closes = True
        self._end(BrokerUnavailable("the connection was closed"))

    def _end(self, error: object) -> None:
        """Tells those who wait, the first time, and closes the connection."""
        if self.error is None:
            self.error = translated(error)
            self.over.set()
            self.ended(self.error)
            if self._connection is not None and not (self._connection.is_closing or self._connection.is_closed):
                self._loop.call_later(CLOSE_S, self._loop.stop)  # a server that hangs does not answer
                self._connection.close()
            else:
                self._loop.stop()

    def _closed(self, connection: Any, error: object) -> None:
        self._end(error)
        self._loop.stop()

    def _version(self) -> tuple[int, ...]:
        """The version of the server."""
        version = str((self._connection.server_properties or {}).get("version", "3"))
        return tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())


def cancel_consumer(channel: Any, tag: str) -> None:
    """Cancels a consumer that pika knows no more. pika has no public way to do so."""
    channel._send_method(spec.Basic.Cancel(consumer_tag=tag, nowait=True))
