"""Lets in who has the token of this start of the pages. Without an access file nobody else may: also not other users of
this machine, or who comes through a proxy on it, which both seem to be here.

The address that is printed at the start has the token. A browser that opens it gets a session and goes on to the
address without the token; a program sends `Authorization: Bearer TOKEN`."""

from __future__ import annotations

import hashlib
import hmac
import html
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection
from urllib.parse import quote, urlencode

from goworkers_py.config.web_options import is_loopback
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.escaping import one_line
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Environ, Request, name_in
from goworkers_py.web.http.response import Header, Response, see_other
from goworkers_py.web.site import csrf
from goworkers_py.web.site.access import ACT, Grant
from goworkers_py.web.site.failed_logins import FailedLogins
from goworkers_py.web.site.remembered import Remembered
from goworkers_py.web.site.trusted_proxies import OF_PROXIES

log = logging.getLogger(__name__)

VARIABLE = "PYWORKERS_WEB_TOKEN"
PARAMETER, SIGN_OUT = "token", "/sign-out"
SESSION_S = 12 * 3600
MOST_SESSIONS = 1_000
WHO = "start token"

_SAFE = re.compile(r"[A-Za-z0-9._~-]{22,200}").fullmatch  # at least 128 bits, if chosen by chance
_CLOSED = (
    "sign in by the address that `pyworkers web` has printed at its last start, with ?token= at its end. Pages beside "
    "jobs log it at the start of `pyworkers run`, in the line `pages:` of level INFO. A program sends the header "
    f"`Authorization: Bearer TOKEN`. Where {VARIABLE} is set, its value is the token. To let people in by name: "
    "pyworkers web grant NAME --role act --password >> access, and `access_file = access` in the section [web]"
)


def checked(token: str) -> str:
    """Raises ConfigError for a token that could be guessed."""
    if not _SAFE(token):
        raise ConfigError(
            f"{VARIABLE} must have 22 to 200 letters, digits, - and _, chosen by chance: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


class StartToken:
    """Threads share it."""

    def __init__(self, token: str, hosts: Collection[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        """`hosts`: further names of this machine. The name matters although there is a token: a page of another site,
        whose name somebody lets point to 127.0.0.1, may read what it gets from its own name."""
        self._token = _digest(token)
        self._hosts = {host.lower() for host in hosts}
        self._sessions = _Sessions(clock)
        self._failed = FailedLogins(clock)
        self._logged = Remembered(MOST_SESSIONS)

    def decide(self, environ: Environ) -> Grant | Response:
        self._check_way(environ)
        request = Request(environ)
        source = str(environ.get("REMOTE_ADDR") or "")
        in_address = (request.query.get(PARAMETER) or [""])[-1]
        kind, _, in_header = request.header("Authorization").strip().partition(" ")
        if in_address and not request.changes and self._fits(in_address):
            log.info("pages: login by the token of the start source=%s", one_line(source))
            return self._signed_in(request)
        if kind.lower() == "bearer" and self._fits(in_header.strip()):
            if self._logged.add(source.encode()):
                log.info("pages: login of a program by the token of the start source=%s", one_line(source))
            return Grant(WHO, ACT, by_token=True)
        if self._sessions.has(request.cookies.get(_cookie_name(request), "")):
            return self._signed_out(request) if _ends(request) else Grant(WHO, ACT, ends=True)
        if _ends(request):
            return see_other(f"{request.root}/")
        if in_address or in_header:
            self._note_failed(source)
        raise Refused(401, _CLOSED, (("WWW-Authenticate", 'Bearer realm="pyworkers"'),))

    def _check_way(self, environ: Environ) -> None:
        if any(environ.get(name) for name in OF_PROXIES):
            raise Refused(
                403, "a proxy has sent this request, so it may come from anywhere: name an access_file in [web], which "
                "`pyworkers web grant NAME` writes"
            )  # fmt: skip
        host = name_in(str(environ.get("HTTP_HOST") or ""))
        if host not in self._hosts and not is_loopback(host):
            raise Refused(
                403,
                f"asked as {host or 'nobody'}, and without an access_file these pages answer only as localhost: name "
                "it in `hosts` of [web], or let `pyworkers web grant NAME` make an access_file",
            )

    def _fits(self, token: str) -> bool:
        return hmac.compare_digest(self._token, _digest(token))

    def _note_failed(self, source: str) -> None:
        """The count keeps the log short: nobody guesses such a token, and a right one is not counted."""
        self._failed.begin(source)
        self._failed.end(source, failed=True)
        log.warning("pages: a login with a wrong token has failed source=%s", one_line(source))

    def _signed_in(self, request: Request) -> Response:
        query = urlencode(
            {name: list(values) for name, values in request.query.items() if name != PARAMETER},
            doseq=True, errors="surrogatepass",
        )  # fmt: skip
        to = f"{request.root}{quote(request.path, errors='replace')}{'?' if query else ''}{query}"
        if request.header("Sec-Fetch-Site") in ("", "none", "same-origin", "same-site"):
            response = see_other(to)
        else:
            # Somebody has followed a link in a wiki or a chat. A browser sends no strict cookie with a request to which
            # another site has led it, nor after a redirect from there; it does when this page leads on.
            response = Response.of_text(f'<!doctype html><title>pyworkers</title><a href="{html.escape(to)}">Go on</a>')
            response.headers.append(("Refresh", f"0; url={to}"))
        response.headers.append(_cookie(request, self._sessions.begin()))
        return response

    def _signed_out(self, request: Request) -> Response:
        csrf.check(request, by_token=False)
        self._sessions.end(request.cookies.get(_cookie_name(request), ""))
        response = see_other(f"{request.root}/")
        response.headers.append(_cookie(request, "", "; Max-Age=0"))
        return response


class _Sessions:
    """Of browsers. Threads share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[bytes, float] = {}  # by digest, oldest first

    def begin(self) -> str:
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._ends[_digest(secret)] = self._clock() + SESSION_S
            if len(self._ends) > MOST_SESSIONS:
                del self._ends[next(iter(self._ends))]
        return secret

    def has(self, secret: str) -> bool:
        with self._lock:
            return self._ends.get(_digest(secret), 0.0) > self._clock()

    def end(self, secret: str) -> None:
        with self._lock:
            self._ends.pop(_digest(secret), None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _ends(request: Request) -> bool:
    return request.path == SIGN_OUT and request.changes


def _cookie_name(request: Request) -> str:
    # Browsers send a cookie to all ports of a machine, so two of them would take each other's.
    port = re.search(r":(\d+)$", request.header("Host"))
    return f"pyworkers-session-{port[1] if port else ''}"


def _cookie(request: Request, value: str, age: str = "") -> Header:
    secure = "; Secure" if request.is_secure else ""
    path = f"{request.root}/"
    return "Set-Cookie", f"{_cookie_name(request)}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}{age}"
