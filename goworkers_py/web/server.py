"""The HTTP port: pages that are asked for with GET, on loopback unless told otherwise."""

from __future__ import annotations

import errno
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from goworkers_py.core.errors import BrokerError, ConfigError

# A look that has not ended by then is hung up on.
LONGEST_LOOK_S = 15.0
# When more are connected, the oldest are hung up on: a monitor gets its answer though others hold connections and say
# nothing.
MOST_CLIENTS = 50
MOST_THREADS = 2 * MOST_CLIENTS  # with those that look at a slow server for somebody who was hung up on
NO_DESCRIPTOR_PAUSE_S = 0.2
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Answer(NamedTuple):
    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


JSON = "application/json; charset=utf-8"
Page = Callable[[], Answer]


def as_json(body: Mapping[str, Any], status: int = 200) -> Answer:
    return Answer(status, json.dumps(body), JSON)


class StatsServer:
    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        handler = type("Handler", (_Handler,), {"pages": pages})
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            raise ConfigError(f"stats server: cannot listen on {host}:{port}: {error.strerror}") from None
        except OverflowError as error:
            raise ConfigError(f"stats server: cannot listen on {host}:{port}: {error}") from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="stats-server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is not None:  # `shutdown` waits for ever for a loop that never began
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A slow client holds up no other, and no stop."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        self._since: dict[socket.socket, float] = {}  # of each connection, the oldest first; under the lock
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _NO_ROOM:
                threading.Event().wait(NO_DESCRIPTOR_PAUSE_S)  # who waits to be accepted would be seen again at once
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """False: it is closed without an answer."""
        with self._lock:
            if len(self._since) >= MOST_THREADS:
                return False
            self._since[request] = time.monotonic()
            return True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """After each connection, and every half second."""
        self._hang_up(MOST_CLIENTS, time.monotonic() - LONGEST_LOOK_S)

    def server_close(self) -> None:
        super().server_close()
        self._hang_up(0, 0.0)

    def _hang_up(self, most: int, oldest: float) -> None:
        """On the oldest clients. The thread of each ends by itself then."""
        with self._lock:
            too_many = len(self._since) - most
            for number, (client, since) in enumerate(self._since.items()):
                if number >= too_many and since >= oldest:
                    break
                with suppress(OSError):  # it has gone
                    client.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # theirs asks a name server for the name of this machine

    def handle_error(self, *_: Any) -> None:
        """A client that went away before it had its answer."""


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, Page]

    def do_GET(self) -> None:
        page = self.pages.get(self.path.split("?")[0])
        if page is None:
            self._give(as_json({"error": f"there is only {', '.join(self.pages)} here"}, 404))
            return
        try:
            self._give(page())
        except BrokerError as error:
            self._give(as_json({"error": str(error)}, 503))

    def _give(self, answer: Answer) -> None:
        body = answer.text.encode("utf-8", "replace")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """A line for each look of a monitor would drown the jobs' lines."""
