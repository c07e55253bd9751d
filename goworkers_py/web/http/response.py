"""One answer, and how it is sent: entity tags, gzip, the headers that keep a page safe."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import field
from http import HTTPStatus

from goworkers_py.core.values import dataclass
from goworkers_py.web.http.request import Request

HTML, JSON_TYPE, TEXT_TYPE = "text/html; charset=utf-8", "application/json; charset=utf-8", "text/plain; charset=utf-8"

Header = tuple[str, str]
StartResponse = Callable[[str, list[Header]], object]

_REFUSED = re.compile(r"q=0(\.0*)?").fullmatch  # the weight of a coding that the client does not take
# A shorter body gains nothing by gzip.
SHORTEST_GZIP = 1_000

# Nothing in a page may run or load but the files of this application, so that markup which came through cannot.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SAFE: list[Header] = [
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),  # for browsers that do not know frame-ancestors
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]
# Of all that needs a login: not even the browser keeps it, so that nobody finds it there after the login has ended.
NOT_KEPT: Header = ("Cache-Control", "no-store")


@dataclass(slots=True)
class Response:
    body: bytes = b""
    kind: str = HTML
    status: int = 200
    headers: list[Header] = field(default_factory=list)

    @classmethod
    def of_text(cls, text: str, kind: str = HTML, status: int = 200) -> Response:
        # A payload may hold half a surrogate, which no encoding has.
        return cls(text.encode("utf-8", "replace"), kind, status)

    def send(self, request: Request, start_response: StartResponse) -> Iterable[bytes]:
        headers = [*self.headers, *_SAFE]
        if not any(name == "Cache-Control" for name, _ in headers):
            headers.append(NOT_KEPT)
        status, body = self.status, self.body
        if status == 200 and not request.changes:
            tag = f'W/"{hashlib.sha1(body, usedforsecurity=False).hexdigest()[:20]}"'
            headers += [("ETag", tag), ("Vary", "Accept-Encoding, Cookie, Authorization")]
            if tag in request.header("If-None-Match"):
                status, body = 304, b""
        if len(body) >= SHORTEST_GZIP and _takes_gzip(request):
            body = gzip.compress(body, compresslevel=3, mtime=0)
            headers.append(("Content-Encoding", "gzip"))
        if status != 304:
            headers += [("Content-Type", self.kind), ("Content-Length", str(len(body)))]
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [] if request.method == "HEAD" or not body else [body]


def _takes_gzip(request: Request) -> bool:
    accepted = "".join(request.header("Accept-Encoding").lower().split())
    codings = [part.split(";") for part in accepted.split(",")]
    return any(coding[0] == "gzip" and not any(map(_REFUSED, coding[1:])) for coding in codings)


def see_other(to: str) -> Response:
    return Response(status=303, headers=[("Location", to)])
