"""An HTTP port: serves a WSGI application, a thread for each request, without trusting its clients."""

from __future__ import annotations

import errno
import io
import logging
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.handlers import SimpleHandler

from goworkers_py.core.errors import ConfigError
from goworkers_py.web.http.request import READING

log = logging.getLogger(__name__)

# When there are more connections, the oldest are closed: a monitor gets its answer although other clients hold
# connections without sending a request.
MOST_CLIENTS = 50
# Includes the threads that still wait for a slow broker after their client's connection was closed.
MOST_THREADS = 2 * MOST_CLIENTS
NO_DESCRIPTOR_PAUSE_S = 0.2
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Of one request: the first line and the headers, in bytes, and the lines of these. A hundred threads hold as many.
LARGEST_HEAD, MOST_LINES = 65_536, 100
# Of a request that was refused before it was read: the system resets a connection that is closed with unread bytes, and
# the client may not see its answer.
MOST_DROPPED = 1_000_000

# As RFC 9112 has it. The parser of Python ends the headers at a line that is none, and takes a bare CR for a line end:
# so a client could hide the headers that a proxy adds behind its own, or add some to them.
is_header = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r?\n").fullmatch

OF_BODY = {"HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"}  # an environ names these two without the prefix

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


class WebServer:
    def __init__(
        self,
        host: str,
        port: int,
        application: Wsgi,
        name: str = "stats server",
        settings: str = "`stats_port`, or --stats-port",
    ) -> None:
        """Listens from now on, and serves after `start`. `name` is for errors and the name of the thread. `settings`:
        what sets the port, for errors."""
        handler = type("Handler", (_Handler,), {"application": staticmethod(application), "listens": (host, port)})
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            todo = f"; choose another one with {settings}" if error.errno == errno.EADDRINUSE else ""
            raise ConfigError(f"{name}: cannot listen on {host}:{port}: {error.strerror}{todo}") from None
        except OverflowError as error:
            raise ConfigError(f"{name}: cannot listen on {host}:{port}: {error}") from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name=name.replace(" ", "-"), daemon=True)

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
    application: Wsgi
    listens: tuple[str, int]
    rbufsize = 8_192  # of each connection; the default of some releases of Python is 16 times as large

    def handle(self) -> None:
        head = self._head()
        if not head:
            self._drop_rest()
            return
        if self._parse(*head):
            run = _Run(self.rfile, self.wfile, self._environ())
            run.run(self.application)
            if run.has_refused and self.command not in READING:
                self._drop_rest()

    def _parse(self, first: bytes, *headers: bytes) -> bool:
        reader, self.rfile = self.rfile, io.BytesIO(b"".join(headers))
        try:
            self.raw_requestline = first
            return self.parse_request()
        finally:
            self.rfile = reader

    def _head(self) -> list[bytes]:
        """The first line and those of the headers; none where they are refused, and the client was told so. Not by
        http.server's own reader, which takes a hundred headers of 64 KB each."""
        lines: list[bytes] = []
        left, status = LARGEST_HEAD, 431
        while len(lines) <= MOST_LINES:
            line = self.rfile.readline(left + 1)
            left -= len(line)
            if left < 0:
                break
            lines.append(line)
            if line in (b"\r\n", b"\n", b""):
                return lines
            if len(lines) > 1 and not is_header(line):
                status = 400
                break
        self.requestline = self.request_version = self.command = ""
        self.send_error(status if lines else 414)
        return []

    def _drop_rest(self) -> None:
        with suppress(OSError):  # the client is gone
            self.connection.shutdown(socket.SHUT_WR)
            left = MOST_DROPPED
            while left > 0 and (dropped := len(self.connection.recv(65_536))):
                left -= dropped

    def _environ(self) -> dict[str, Any]:
        path, _, query = self.path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_PROTOCOL": self.request_version,
            "SERVER_NAME": self.listens[0],
            "SERVER_PORT": str(self.listens[1]),
            "REMOTE_ADDR": self.client_address[0],
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            # Several are shown as they came: an application that takes one of them may take another than a proxy.
            "CONTENT_LENGTH": ",".join(self.headers.get_all("Content-Length", [])),
        }
        for name, value in self.headers.items():
            key = f"HTTP_{name.upper().replace('-', '_')}"
            # A name with an underscore would look like another one: no browser and no proxy of repute sends it.
            if "_" not in name and key not in OF_BODY:
                environ[key] = f"{environ[key]},{value}" if key in environ else value
        return environ

    def log_message(self, *_: Any) -> None:
        """Logs nothing: one line for each request of a monitor would bury the lines of the jobs."""


class _Run(SimpleHandler):
    """The run of the application for one request."""

    has_refused = False
    os_environ: dict[str, str] = {}  # noqa: RUF012  # the environment of this process is not for applications

    def __init__(self, reading: Any, writing: Any, environ: dict[str, Any]) -> None:
        super().__init__(reading, writing, sys.stderr, environ, multithread=True, multiprocess=False)

    def start_response(self, status: str, *more: Any) -> Any:
        self.has_refused = status >= "4"  # perhaps before it has read the body
        return super().start_response(status, *more)

    def log_exception(self, exc_info: Any) -> None:
        log.error("the HTTP port failed at %s", self.base_env.get("PATH_INFO"), exc_info=exc_info)
