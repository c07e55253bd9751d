"""One connection to RabbitMQ, and the thread that owns it; and questions over it.

pika is not thread-safe: after the start of its thread, a connection is told of everything by `call`, and the thread
does it. It serves until it has ended. Then its owner makes another one, and asks Outage how long to wait before that.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import Any

import pika  # type: ignore[import-untyped]
from pika import spec
from pika.adapters.select_connection import IOLoop  # type: ignore[import-untyped]

from goworkers_py.brokers.rabbitmq.translation import translated
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.strikes import Lock

CLOSE_S = 3.0
LOOK_EVERY_S = 0.1
_NOT_FOUND = 404

# Each outage is told in one line of our own, see `runtime.outage`. pika calls a frame critical that comes over a
# channel which RabbitMQ has just closed; it is harmless.
logging.getLogger("pika").setLevel(logging.CRITICAL + 1)


class RabbitConnection:
    """A subclass opens its channels in `opened`, and ends what waits for it in `ended`: both are called by the thread
    of the connection, as is everything that begins with an underscore."""

    connect: Callable[..., Any] = pika.SelectConnection

    def __init__(self, parameters: Any, name: str) -> None:
        self._name = name
        self._parameters = parameters
        self._loop = IOLoop()
        self._pika: Any = None
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

    def opened(self, pika_connection: Any) -> None:
        raise NotImplementedError

    def ended(self, error: BrokerError) -> None:
        raise NotImplementedError

    # --- the thread

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._pika = self.connect(
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
            if self._pika is not None and not (self._pika.is_closing or self._pika.is_closed):
                self._loop.call_later(CLOSE_S, self._loop.stop)  # a server that hangs does not answer
                self._pika.close()
            else:
                self._loop.stop()

    def _closed(self, connection: Any, error: object) -> None:
        self._end(error)
        self._loop.stop()

    def _version(self) -> tuple[int, ...]:
        """The version of the server."""
        version = str((self._pika.server_properties or {}).get("version", "3"))
        return tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())


def cancel_consumer(channel: Any, tag: str) -> None:
    """Cancels a consumer that pika knows no more. pika has no public way to do so."""
    channel._send_method(spec.Basic.Cancel(consumer_tag=tag, nowait=True))


# --- questions


class Question:
    """About a queue, on a channel of its own: RabbitMQ closes it when there is no such queue.

    The thread of the connection calls all but `wait`. No answer comes when its connection ends."""

    def __init__(self, step: Callable[[Any, Callable[[Any], None]], None], number: Callable[[Any], int]) -> None:
        self._step, self._number = step, number
        self._answer: machine.SimpleQueue[int | BrokerError] = machine.SimpleQueue()

    def wait(self, connection: RabbitConnection, timeout_s: float) -> int | BrokerError:
        """In the thread that asks."""
        give_up_at = machine.monotonic() + timeout_s
        while machine.monotonic() < give_up_at:
            try:
                return self._answer.get(timeout=LOOK_EVERY_S)
            except Empty:
                if connection.error is not None:
                    return connection.error
        return BrokerUnavailable("the server does not answer")

    def begin(self, connection: Any) -> None:
        if connection.is_open:
            connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(self._on_closed)
        self._step(channel, partial(self._on_answer, channel))

    def _on_answer(self, channel: Any, frame: Any) -> None:
        self._answer.put(self._number(frame.method))
        channel.close()

    def _on_closed(self, channel: Any, reason: Any) -> None:
        """Also after an answer, when nobody waits any more."""
        self._answer.put(0 if getattr(reason, "reply_code", 0) == _NOT_FOUND else translated(reason))


def count(queue: str) -> Question:
    """How many messages wait in the queue; 0 when there is no such queue."""
    return Question(
        lambda channel, then: channel.queue_declare(queue, passive=True, callback=then),
        lambda method: int(method.message_count),
    )


def delete(queue: str) -> Question:
    return Question(lambda channel, then: channel.queue_delete(queue, callback=then), lambda method: 0)
