"""Asks for a name and a secret, and looks both up in the access file.

A token is compared; a password is hashed slowly, once for each process. A secret that fits no token and is not
remembered is a guess until it has been hashed: it takes a place in the count of its source, and one of few slots.
A name that is not in the file, or has a token, is hashed like one of the file's passwords, so that the time of an
answer tells no names."""

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
from goworkers_py.core.escaping import one_line
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Environ
from goworkers_py.web.site.access import Grant
from goworkers_py.web.site.access_file import Line, content, fits_token, parsed
from goworkers_py.web.site.failed_logins import FailedLogins
from goworkers_py.web.site.hash_slots import HashSlots
from goworkers_py.web.site.remembered import Remembered

log = logging.getLogger(__name__)

_CHALLENGE = ("WWW-Authenticate", 'Basic realm="pyworkers", charset="UTF-8"')
MOST_REMEMBERED, MOST_LOGGED = 1_000, 10_000


class ByFile:
    """Threads share it. A change of the file counts from the next request on; without a file to read, nobody may."""

    def __init__(self, path: str, failed: FailedLogins | None = None) -> None:
        """Raises ConfigError for a file with a fault."""
        self._path = Path(path)
        self._failed = failed or FailedLogins()
        self._slots = HashSlots()
        self._lock = threading.Lock()
        self._raw = content(self._path)  # under the lock, as are the next two
        self._lines: Mapping[str, Line] = parsed(self._path, self._raw)
        self._fault = ""
        # Digests of lines and secrets: of passwords that fit, and of logins that are in the log.
        self._key = os.urandom(32)  # of this process alone
        self._fitting, self._logged = Remembered(MOST_REMEMBERED), Remembered(MOST_LOGGED)
        if stat.S_IMODE(self._path.stat().st_mode) & stat.S_IROTH:
            log.warning("access_file: every user of this machine can read %s: chmod 640", path)

    def decide(self, environ: Environ) -> Grant:
        lines = self._current()
        header = str(environ.get("HTTP_AUTHORIZATION") or "")
        credentials = _credentials(header)
        if credentials is None:
            raise Refused(
                401, "these pages need a name and a password. A program sends the header `Authorization: Bearer "
                "NAME.SECRET`", (_CHALLENGE,)
            )  # fmt: skip
        name, secret = credentials
        source = str(environ.get("REMOTE_ADDR") or "")
        line = lines.get(name)
        mark = self._mark(f"{line} {secret}")
        if (not fits_token(line, secret) and mark not in self._fitting) or line is None:
            line = self._by_password(lines, name, secret, source)
            self._fitting.add(mark)
        if self._logged.add(self._mark(f"{mark.hex()} {source}")):
            log.info("pages: login name=%s role=%s source=%s", name, line.role, one_line(source))
        return Grant(name, line.role, by_token=not header.lower().startswith("basic"))

    def close(self) -> None:
        """Ends its threads."""
        self._slots.close()

    def _by_password(self, lines: Mapping[str, Line], name: str, secret: str, source: str) -> Line:
        """Its line. Refuses what does not fit."""
        line = lines.get(name)
        hashed = line if line is not None and line.is_password else self._stand_in(lines, name)
        failed = False
        self._failed.begin(source)
        try:
            if hashed is not None and self._slots.run(hashed.fits_password, secret) and hashed is line:
                return line
            failed = True
        finally:
            self._failed.end(source, failed)
        log.warning("pages: a login has failed name=%r source=%s", name[:80], one_line(source))
        raise Refused(401, "this name and this secret do not fit", (_CHALLENGE,))

    def _stand_in(self, lines: Mapping[str, Line], name: str) -> Line | None:
        """Always the same one for a name: hashes of different releases take different times."""
        passwords = [line for line in lines.values() if line.is_password]
        return passwords[int.from_bytes(self._mark(name)[:8], "big") % len(passwords)] if passwords else None

    def _current(self) -> Mapping[str, Line]:
        """The lines of the file. It is read for each request: its time and size may be those of the former content."""
        with self._lock:
            try:
                raw = content(self._path)
                if raw != self._raw:
                    self._lines, self._raw = parsed(self._path, raw), raw
                    log.info("access_file: read again: %d names", len(self._lines))
                elif self._fault:
                    log.info("access_file: can be read again")
                self._fault = ""
                return self._lines
            except ConfigError as error:
                if str(error) != self._fault:
                    self._fault = str(error)
                    log.error("pages: nobody gets in until this is mended: %s", error)  # no fault of this code
        raise Refused(
            503, "the file with who may see these pages cannot be read, so nobody may: ask who runs them to look into "
            "their log", (("Retry-After", "30"),)
        )  # fmt: skip

    def _mark(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()


def _credentials(header: str) -> tuple[str, str] | None:
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
