"""The HTTP port: serves pages by GET, on loopback unless `stats_host` says otherwise."""

from __future__ import annotations

import errno
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import simplejson

from goworkers_py.core.errors import BrokerError, ConfigError

log = logging.getLogger(__name__)

# When there are more connections, the oldest are closed: a monitor gets its answer although other clients hold
# connections without sending a request.
MOST_CLIENTS = 50
# Includes the threads that still wait for a slow broker after their client's connection was closed.
MOST_THREADS = 2 * MOST_CLIENTS
NO_DESCRIPTOR_PAUSE_S = 0.2
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Answer(NamedTuple):
    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


JSON = "application/json; charset=utf-8"
Page = Callable[[], Answer]


def as_json(body: Mapping[str, Any], status: int = 200) -> Answer:
    return Answer(status, simplejson.dumps(body), JSON)


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
        if self._thread.ident is not None:  # `shutdown` would wait forever for a `serve_forever` that never began
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """One thread for each request, so that a slow client delays no other client and no stop."""

    # Clients that wait to be accepted. The system would make more of them try again after one second or three.
    request_queue_size = MOST_CLIENTS
    longest_connection_s = 15.0  # a connection that is older is closed

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        # When each open connection began, oldest first. Under the lock: the thread `stats-server` adds a connection,
        # the thread of its request removes it.
        self._since: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _NO_ROOM:
                # The client still waits to be accepted: without a pause, the loop would try again at once, and spin.
                threading.Event().wait(NO_DESCRIPTOR_PAUSE_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """False: the connection is closed without an answer."""
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
        """`serve_forever` calls this after each connection, and every half second."""
        self._hang_up(MOST_CLIENTS, time.monotonic() - self.longest_connection_s)

    def server_close(self) -> None:
        super().server_close()
        self._hang_up(0, 0.0)

    def _hang_up(self, most: int, oldest: float) -> None:
        """Closes the connections beyond `most`, oldest first, and those that began before `oldest`. The thread of each
        request then ends by itself."""
        with self._lock:
            too_many = len(self._since) - most
            for number, (client, since) in enumerate(self._since.items()):
                if number >= too_many and since >= oldest:
                    break
                with suppress(OSError):  # the client has already closed the connection
                    client.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        # Not HTTPServer's own `server_bind`, which asks a name server for the name of this machine.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, *_: Any) -> None:
        """Logs nothing: the client closed the connection before it had its answer."""


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, Page]

    def do_GET(self) -> None:
        page = self.pages.get(self.path.split("?")[0])
        if page is None:
            self._give(as_json({"error": f"no such page; the pages are {', '.join(self.pages)}"}, 404))
            return
        try:
            answer = page()
        except BrokerError as error:
            answer = as_json({"error": str(error)}, 503)
        except Exception as error:
            log.exception("page %s failed", self.path)
            answer = as_json({"error": str(error)}, 500)
        self._give(answer)

    def _give(self, answer: Answer) -> None:
        body = answer.text.encode("utf-8", "replace")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: one line for each request of a monitor would bury the lines of the jobs."""
