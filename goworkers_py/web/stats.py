"""`/stats` as go-workers serves it: one JSON object, on loopback unless told otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from goworkers_py.errors import BrokerError, ConfigError

Source = Callable[[], dict[str, Any]]


class StatsServer:
    def __init__(self, host: str, port: int, source: Source) -> None:
        handler = type("Handler", (_Handler,), {"source": staticmethod(source)})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
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


class _Handler(BaseHTTPRequestHandler):
    source: Source

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/stats":
            self._answer(404, {"error": "there is only /stats here"})
            return
        try:
            self._answer(200, self.source())
        except BrokerError as error:
            self._answer(503, {"error": str(error)})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """A line for each look of a monitor would drown the jobs' lines."""
