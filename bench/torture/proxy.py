"""A TCP proxy before Redis, for one worker or for the producer. It reads nothing of what passes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

READ_BYTES = 65_536


class Proxy:
    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._losing = self._closed = False
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._acceptor.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        """Each connection ends when Redis sends the next reply, which is lost. Redis has done the command then, and the
        client cannot know it. New connections are refused."""
        self._losing = True

    def mend(self) -> None:
        """Ends all connections on which no reply came. New ones work."""
        self._end_all()
        self._losing = False

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()  # ends the `accept` of the proxy's thread
        self._acceptor.join()
        self._listener.close()
        for link in self._end_all():
            link.join()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._closed:
                client.close()
                return
            if self._losing:
                _reset(client)
                client.close()
                continue
            try:
                server = socket.create_connection(self._server, 5)
            except OSError:
                _reset(client)
                client.close()
                continue
            link = _Link(client, server, self)
            with self._lock:
                self._links.add(link)
            link.start()

    def _end_all(self) -> list[_Link]:
        with self._lock:
            links = list(self._links)
        for link in links:
            link.end()
        return links

    @property
    def losing(self) -> bool:
        return self._losing

    def forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)


class _Link:
    """One connection: two sockets, and a thread for each direction."""

    def __init__(self, client: socket.socket, server: socket.socket, proxy: Proxy) -> None:
        self._client, self._server, self._proxy = client, server, proxy
        self._lock = threading.Lock()
        self._running = 2
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [
            threading.Thread(target=self._pump, args=ends, name="proxy link", daemon=True)
            for ends in ((client, server), (server, client))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """As a network does it: both sides get a reset."""
        for end in (self._client, self._server):
            _reset(end)
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads the socket

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while passing := source.recv(READ_BYTES):
                if source is self._server and self._proxy.losing:
                    break
                target.sendall(passing)
        except OSError:
            pass
        self.end()
        with self._lock:
            self._running -= 1
            if self._running:
                return
        self._client.close()
        self._server.close()
        self._proxy.forget(self)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
