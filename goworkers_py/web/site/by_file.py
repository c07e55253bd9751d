"""Asks for a name and a secret, and looks both up in the access file."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

from goworkers_py.core.errors import ConfigError
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Environ
from goworkers_py.web.site.access import ACT, Grant
from goworkers_py.web.site.access_file import Line, password_line, read
from goworkers_py.web.site.failed_logins import FailedLogins

log = logging.getLogger(__name__)

_CHALLENGE = ("WWW-Authenticate", 'Basic realm="pyworkers", charset="UTF-8"')
MOST_REMEMBERED = 1_000


class ByFile:
    """Threads share it. A change of the file counts from the next request on."""

    def __init__(self, path: str, failed: FailedLogins | None = None) -> None:
        """Raises ConfigError for a file with a fault."""
        self._path = Path(path)
        self._failed = failed or FailedLogins()
        self._lock = threading.Lock()
        self._lines: Mapping[str, Line] = read(self._path)  # under the lock, as is the next
        self._changed_at = self._path.stat().st_mtime_ns
        # Digests of lines and secrets that fit: a password costs its 60 ms once. Their key is of this process alone.
        self._key = os.urandom(32)
        self._fitting: dict[bytes, None] = {}
        # An unknown name takes as long as a known one with a wrong password.
        self._nobody = password_line("nobody", "view", base64.b64encode(os.urandom(16)).decode())
        if stat.S_IMODE(self._path.stat().st_mode) & stat.S_IROTH:
            log.warning("access_file: every user of this machine can read %s: chmod 640", path)

    def decide(self, environ: Environ) -> Grant:
        told = _told(str(environ.get("HTTP_AUTHORIZATION") or ""))
        if told is None:
            raise Refused(401, "who are you? These pages need a name and a password, or a token", (_CHALLENGE,))
        name, secret = told
        source = str(environ.get("REMOTE_ADDR") or "")
        line = self._current().get(name)
        by_token = not str(environ.get("HTTP_AUTHORIZATION")).lower().startswith("basic")
        if line is not None and self._remembers(line, secret):
            return Grant(name, view=True, act=line.role == ACT, by_token=by_token)
        self._failed.check(source)
        if not (line or self._nobody).fits(secret) or line is None:
            self._failed.add(source)
            log.warning("pages: a login has failed name=%r source=%s", name[:80], source)
            raise Refused(401, "this name and this secret do not fit", (_CHALLENGE,))
        self._remember(line, secret)
        return Grant(name, view=True, act=line.role == ACT, by_token=by_token)

    def _current(self) -> Mapping[str, Line]:
        """The lines of the file; while it has a fault, the former ones."""
        with self._lock:
            try:
                changed_at = self._path.stat().st_mtime_ns
                if changed_at != self._changed_at:
                    self._changed_at = changed_at
                    self._lines = read(self._path)
                    log.info("access_file: read again: %d names", len(self._lines))
            except (ConfigError, OSError) as error:
                log.error("the former access_file stays in force: %s", error)  # no fault of this code
            return self._lines

    def _mark(self, line: Line, secret: str) -> bytes:
        told = f"{line} {secret}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, told, hashlib.sha256).digest()

    def _remembers(self, line: Line, secret: str) -> bool:
        mark = self._mark(line, secret)
        with self._lock:
            return mark in self._fitting

    def _remember(self, line: Line, secret: str) -> None:
        mark = self._mark(line, secret)
        with self._lock:
            self._fitting[mark] = None
            while len(self._fitting) > MOST_REMEMBERED:
                del self._fitting[next(iter(self._fitting))]


def _told(header: str) -> tuple[str, str] | None:
    """The name and the secret that the request tells."""
    kind, _, rest = header.strip().partition(" ")
    if kind.lower() == "bearer":
        name, _, secret = rest.strip().partition(".")
        return (name, secret) if name and secret else None
    if kind.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(rest.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return None
    name, colon, secret = pair.partition(":")
    return (name, secret) if colon else None
