"""A TCP proxy between a client and a real Redis, with the faults of networks: delays, losses, cuts, silence.

It reads the commands and the replies that pass through it, so that a fault can be aimed at one of them. Replies belong
to commands in the order of both, which MONITOR and SUBSCRIBE do not keep: use none of these through it.

TCP loses no bytes out of the middle of a stream. So a reply that is lost takes its connection with it, and a
connection that has gone silent stays so until somebody closes it.

    with Proxy(server.port) as proxy:
        client = redis.Redis.from_url(proxy.url)
        proxy.drop_reply_of(b"EXEC")          # the server runs it, the client gets no reply
        proxy.damage_reply_of(b"LLEN", b"+OK\r\n")  # the client gets this reply instead
        proxy.drop_command(b"EVALSHA")        # the server never gets it
        proxy.delay(0.2, b"BRPOPLPUSH")       # its reply arrives late
        proxy.hold(event, b"ECHO")            # its reply arrives when the event is set
        proxy.swallow()                       # nothing passes in either direction; connections stay open
        proxy.cut()                           # closes all connections; new ones work
        proxy.refuse()                        # closes all connections, and new ones at once
        proxy.pass_through()                  # ends all faults: new connections work
        assert proxy.commands[b"EXEC"] == 1   # commands that clients sent; proxy.replies counts their replies

Name a command by its first word or two, in any case: b"CLIENT UNBLOCK", b"EVALSHA " + sha; b"" is every command.
"""

from __future__ import annotations

import enum
import math
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

Words = list[bytes]  # the first two words of a command, in capitals

READ_BYTES = 65_536


class Direction(enum.Enum):
    COMMAND = "to the server"
    REPLY = "to the client"


class _Lost(Exception):
    """Raised by a fault to close the connection."""


@dataclass
class _Fault:
    direction: Direction | None  # None: the first direction in which something passes
    aim: Words
    times: float
    act: Callable[[_Link, bytes], bytes]  # takes the bytes that arrived, returns the bytes to pass on

    def strikes(self, direction: Direction, words: Words) -> bool:
        return self.times > 0 and self.direction in (None, direction) and words[: len(self.aim)] == self.aim


class Proxy(AbstractContextManager["Proxy"]):
    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._faults: list[_Fault] = []
        self._links: set[_Link] = set()
        self._refusing = False
        self._closed = False
        self.commands: Counter[bytes] = Counter()
        self.replies: Counter[bytes] = Counter()
        self.hits = 0  # how many messages a fault has hit
        self.connections = 0  # connections made so far
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._acceptor.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def open(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._links)

    def delay(
        self, seconds: float, command: bytes = b"", direction: Direction = Direction.REPLY, times: float = math.inf
    ) -> None:
        """Passes messages on late, one after the other, even after their sender has closed its connection."""

        def act(link: _Link, passing: bytes) -> bytes:
            link.ended.wait(seconds)
            return passing

        self._add(direction, command, times, act)

    def hold(self, until: threading.Event, command: bytes = b"", times: float = 1) -> None:
        """Passes replies on when the event is set."""

        def act(link: _Link, passing: bytes) -> bytes:
            while not until.is_set() and not link.ended.wait(0.01):
                pass
            return passing

        self._add(Direction.REPLY, command, times, act)

    def drop_reply_of(self, command: bytes, times: float = 1, after_bytes: int = 0) -> None:
        """The server replies. The connection ends after `after_bytes` bytes of the reply."""

        def act(link: _Link, passing: bytes) -> bytes:
            link.send(Direction.REPLY, passing[:after_bytes])
            raise _Lost

        self._add(Direction.REPLY, command, times, act)

    def damage_reply_of(self, command: bytes, reply: bytes, times: float = 1) -> None:
        """The client gets `reply`, in the bytes of the protocol, instead of the server's."""
        self._add(Direction.REPLY, command, times, lambda link, passing: reply)

    def drop_command(self, command: bytes, times: float = 1) -> None:
        """The connection ends, and the server never gets the command."""

        def act(link: _Link, passing: bytes) -> bytes:
            raise _Lost

        self._add(Direction.COMMAND, command, times, act)

    def swallow(self, command: bytes = b"", direction: Direction | None = None, times: float = math.inf) -> None:
        """Keeps the connections open and passes nothing on: from now on, or from this command (or its reply) on.

        In both directions, unless told otherwise. Neither side learns that the other one has gone.
        """

        def act(link: _Link, passing: bytes) -> bytes:
            link.silent.update(Direction if direction is None else [direction])
            return b""

        self._add(direction, command, times, act)

    def cut(self) -> None:
        for link in self._snapshot():
            link.end()

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def pass_through(self) -> None:
        """Ends all faults, and closes the connections that `swallow` has silenced."""
        with self._lock:
            self._refusing = False
            self._faults.clear()
            silent = [link for link in self._links if link.silent]
        for link in silent:
            link.end()

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()  # ends the `accept` of the proxy's thread
        self._acceptor.join()
        self._listener.close()
        links = self._snapshot()
        self.cut()
        for link in links:
            link.join()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(
        self, direction: Direction | None, command: bytes, times: float, act: Callable[[_Link, bytes], bytes]
    ) -> None:
        with self._lock:
            self._faults.append(_Fault(direction, _capitals(command.split()), times, act))

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._closed:
                client.close()
                return
            if self._refusing:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._server, 5)
            except OSError:
                _reset(client)  # the server is down: the proxy closes the connection too
                continue
            link = _Link(self, client, server)
            with self._lock:
                self.connections += 1
                self._links.add(link)
            link.start()
            if self._refusing:
                link.end()

    def _snapshot(self) -> list[_Link]:
        with self._lock:
            return list(self._links)

    def _forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _note(self, direction: Direction, words: Words) -> _Fault | None:
        """The first fault that applies to a command or its reply, if any."""
        with self._lock:
            if direction is Direction.COMMAND:
                self.commands[words[0]] += 1
            for fault in self._faults:
                if fault.strikes(direction, words):
                    fault.times -= 1
                    self.hits += 1
                    return fault
        return None

    def _count_reply(self, words: Words) -> None:
        with self._lock:
            self.replies[words[0]] += 1


class _Link:
    """One connection: two sockets, and a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._awaited: deque[Words] = deque()  # commands without a reply yet; one thread appends, the other takes
        self._running = 2
        self._lock = threading.Lock()
        self.ended = threading.Event()
        self.silent: set[Direction] = set()
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [
            threading.Thread(target=self._pump, args=(direction,), name=f"proxy {direction.value}", daemon=True)
            for direction in Direction
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Closes the connection to both sides."""
        self.ended.set()
        for end in (self._client, self._server):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads the socket; that thread closes it

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def send(self, direction: Direction, passing: bytes) -> None:
        if passing:
            self._target(direction).sendall(passing)

    def _target(self, direction: Direction) -> socket.socket:
        return self._server if direction is Direction.COMMAND else self._client

    def _pump(self, direction: Direction) -> None:
        source = self._client if direction is Direction.COMMAND else self._server
        unread = b""
        try:
            while received := source.recv(READ_BYTES):
                if direction in self.silent:
                    continue
                unread += received
                at = 0
                while (end := end_of_one(unread, at)) is not None:
                    self._pass(direction, unread[at:end])
                    at = end
                unread = unread[at:]
            self._half_close(direction)
        except (_Lost, OSError):
            self.end()
        finally:
            self._close_when_both_are_done()

    def _pass(self, direction: Direction, passing: bytes) -> None:
        if direction in self.silent:
            return
        if direction is Direction.COMMAND:
            words = words_of(passing)
            self._awaited.append(words)
        else:
            # A push message of the server (RESP3) is no reply to a command.
            unasked = passing.startswith(b">") or not self._awaited
            words = [b"(unasked)"] if unasked else self._awaited.popleft()
        fault = self._proxy._note(direction, words)
        if fault:
            passing = fault.act(self, passing)
        if passing and direction is Direction.REPLY:
            self._proxy._count_reply(words)  # before the client gets the reply, so that its test sees the count
        self.send(direction, passing)

    def _half_close(self, direction: Direction) -> None:
        if direction not in self.silent:
            with suppress(OSError):
                self._target(direction).shutdown(socket.SHUT_WR)

    def _close_when_both_are_done(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running:
                return
        self.ended.set()
        self._client.close()
        self._server.close()
        self._proxy._forget(self)


def end_of_one(stream: bytes, start: int) -> int | None:
    """The end of the command or reply that begins at `start`; None if it is incomplete. RESP2, RESP3, inline."""
    line_end = stream.find(b"\r\n", start)
    if line_end < 0:
        return None
    kind, after_line = stream[start : start + 1], line_end + 2
    if kind not in _SIZED:
        return after_line
    size = int(stream[start + 1 : line_end])
    if kind in b"$!=":
        end = after_line if size < 0 else after_line + size + 2
        return end if end <= len(stream) else None
    for _ in range(_items(kind, size)):
        inner_end = end_of_one(stream, after_line)
        if inner_end is None:
            return None
        after_line = inner_end
    return after_line


def _items(kind: bytes, size: int) -> int:
    if kind in b"%|":
        size *= 2  # pairs
    return size + 1 if kind == b"|" else size  # an attribute is followed by its value


_SIZED = (b"$", b"!", b"=", b"*", b"~", b">", b"%", b"|")


def words_of(command: bytes) -> Words:
    if not command.startswith(b"*"):
        return _capitals(command.split()[:2] or [b""])
    words: Words = []
    at = command.index(b"\r\n") + 2
    while at < len(command) and len(words) < 2:
        end = end_of_one(command, at)
        assert end is not None
        words.append(command[command.index(b"\r\n", at) + 2 : end - 2])
        at = end
    return _capitals(words)


def _capitals(words: Words) -> Words:
    return [word.upper() for word in words]


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()
