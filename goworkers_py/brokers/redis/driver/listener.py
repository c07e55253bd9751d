"""Listens to channels of the server, for any number of threads, by one connection and one thread.

A message may get lost, while the connection is made again, say. So whoever listens also looks at the server now and
then, and after each new connection all listeners are called with an empty message.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

import redis

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Driver, connect, text
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.strikes import Lock

log = logging.getLogger(__name__)

Heard = Callable[[bytes], None]  # a message; empty: some may have been missed

# The thread ends when nobody has listened for so long.
LINGER_S = 5.0
LOOK_EVERY_S = 0.5
# A connection on which nothing came for so long is asked for a sign of life, and given up after twice that time.
SILENT_S = 15.0
# Before the next try to connect; and when the access rules do not allow to listen.
PAUSE_S, REFUSED_S = 0.5, 30.0


class Listener:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        # Under the lock: the fields below. `_connection` is made and read by the listener's thread; other threads only
        # send over it.
        self._lock = Lock()
        self._heard: dict[str, list[Heard]] = {}  # by channel
        self._connection: Driver | None = None
        self._thread: machine.Thread | None = None
        self._ended = machine.Event()  # of the thread that listens now; each has its own
        self._idle_since = 0.0
        self._pid = os.getpid()

    def listen(self, channel: str, heard: Heard) -> Callable[[], None]:
        """`heard` is called in the listener's thread: soon after this call, when the channel is listened to, and at
        each message. It must not block. Returns the function that ends it."""
        self._forget_parents()
        with self._lock:
            known = channel in self._heard
            self._heard.setdefault(channel, []).append(heard)
            if self._thread is None or not self._thread.is_alive():
                self._ended = ended = machine.Event()
                thread = machine.Thread(target=self._run, args=(ended,), name="listener", daemon=True)
                thread.start()
                self._thread = thread
            elif not known:
                self._send("SUBSCRIBE", channel)
        if known:
            heard(b"")
        return lambda: self._forget(channel, heard)

    def _forget(self, channel: str, heard: Heard) -> None:
        with self._lock:
            listeners = self._heard.get(channel, [])
            if heard in listeners:
                listeners.remove(heard)
            if not listeners and self._heard.pop(channel, None) is not None:
                self._send("UNSUBSCRIBE", channel)
            self._idle_since = machine.monotonic()

    def _send(self, *command: str) -> None:
        """Under the lock. An error is met by the thread that reads: it connects again, and listens to all channels."""
        if self._connection is not None:
            with suppress(redis.RedisError, OSError):
                self._connection.send_packed_command(packed([command]), check_health=False)

    def _run(self, ended: machine.Event) -> None:
        while not ended.is_set():
            pause_s = PAUSE_S
            try:
                if not self._connect_and_read(ended):
                    return
            except redis.ResponseError as error:
                log.debug("the server refuses to tell ends and cancels of jobs: %s", error)
                pause_s = REFUSED_S
            except (redis.RedisError, OSError, BrokerError) as error:
                log.debug("the listener connects again: %s", error)
            except Exception:
                log.exception("the listener failed, and connects again")
            ended.wait(pause_s)

    def _connect_and_read(self, ended: machine.Event) -> bool:
        """False when nobody listens any more."""
        connection = self._connections.new_connection()
        try:
            connect(connection)
            with self._lock:
                if ended.is_set():
                    return False
                self._connection = connection
                if self._heard:
                    connection.send_packed_command(packed([("SUBSCRIBE", *self._heard)]), check_health=False)
            return self._read(connection, ended)
        finally:
            with self._lock:
                if self._connection is connection:
                    self._connection = None
            connection.disconnect()

    def _read(self, connection: Driver, ended: machine.Event) -> bool:
        heard_at = asked_at = machine.monotonic()
        while not ended.is_set():
            now = machine.monotonic()
            if connection.can_read(LOOK_EVERY_S):
                self._tell(connection.read_response())
                heard_at = now
            elif now - heard_at > 2 * SILENT_S:
                return True
            elif now - max(heard_at, asked_at) > SILENT_S:
                asked_at = now
                with self._lock:
                    self._send("PING")
            if self._ends(now, ended):
                return False
        return False

    def _ends(self, now: float, ended: machine.Event) -> bool:
        with self._lock:
            if self._heard or now - self._idle_since < LINGER_S:
                return False
            ended.set()
            if self._ended is ended:
                self._thread = None
            return True

    def _tell(self, reply: object) -> None:
        """A reply to SUBSCRIBE counts as a message: something may have happened before it."""
        if not isinstance(reply, list) or len(reply) < 2 or reply[0] not in (b"message", b"subscribe"):
            return
        message = reply[2] if reply[0] == b"message" and len(reply) > 2 else b""
        with self._lock:
            listeners = list(self._heard.get(text(reply[1]), ()))
        for heard in listeners:
            try:
                heard(message)
            except Exception:
                log.exception("a listener failed")

    def close(self) -> None:
        self._forget_parents()
        with self._lock:
            self._ended.set()
            self._send("UNSUBSCRIBE")  # its answer wakes the thread
            thread, self._thread, self._connection = self._thread, None, None
            self._heard.clear()
        if thread is not None and thread is not machine.current_thread():
            thread.join(2 * LOOK_EVERY_S + 1)

    def _forget_parents(self) -> None:
        """In a forked child: the connection and the thread are the parent's."""
        if self._pid != os.getpid():
            self._lock, self._heard, self._connection, self._thread = Lock(), {}, None, None
            self._ended = machine.Event()
            self._pid = os.getpid()
