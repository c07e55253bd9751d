"""A TCP proxy that knows no protocol: it cuts connections, refuses them, goes silent, or is slow."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import AbstractContextManager, suppress


class RawProxy(AbstractContextManager["RawProxy"]):
    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._refusing = self._closed = False
        self._passes = threading.Event()
        self._passes.set()
        self.connections = 0
        self.delay_s = 0.0  # of all that passes, in each direction
        self._acceptor = threading.Thread(target=self._accept, name="raw proxy", daemon=True)
        self._acceptor.start()

    def cut(self) -> None:
        """Closes all connections. New ones work."""
        with self._lock:
            ends = list(self._ends)
        for end in ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def swallow(self) -> None:
        """Passes nothing on, and keeps connections open."""
        self._passes.clear()

    def pass_through(self) -> None:
        self._refusing = False
        self._passes.set()

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._passes.set()
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._acceptor.join()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._closed:
                client.close()
                return
            try:
                if self._refusing:
                    raise ConnectionRefusedError
                server = socket.create_connection(self._server, 5)
            except OSError:
                client.close()
                continue
            self.connections += 1
            with self._lock:
                self._ends |= {client, server}
            for one, other in ((client, server), (server, client)):
                thread = threading.Thread(target=self._pump, args=(one, other), name="raw proxy", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(65_536):
                self._passes.wait()
                time.sleep(self.delay_s)
                target.sendall(received)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._ends.discard(source)
        source.close()
