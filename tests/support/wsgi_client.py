"""Asks a WSGI application as a browser does: with cookies, and the token of a form.

Every call goes through the validator of the standard library."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Fields = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]  # by names in lower case; the last one of a name
    cookies: tuple[str, ...]  # the lines of Set-Cookie

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def location(self) -> str:
        return self.headers.get("location", "")


class Client:
    """Keeps cookies from one call to the next."""

    def __init__(self, app: Wsgi, headers: Mapping[str, str] | None = None) -> None:
        self._app = validator(app)  # type: ignore[arg-type]
        self._headers = dict(headers or {})
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, b"", headers)

    def post(self, path: str, fields: Fields | None = None, **headers: str) -> Answer:
        """As the form of a page does."""
        form: dict[str, str | list[str]] = dict(fields or {})
        if not self.token:
            self.get("/")
        form.setdefault("_csrf", self.token)
        body = urlencode(form, doseq=True, errors="surrogateescape").encode()
        return self.ask("POST", path, body, {"Content_Type": "application/x-www-form-urlencoded", **headers})

    def sure(self, path: str, fields: Fields | None = None, **headers: str) -> Answer:
        """As the form does with which a page asks whether a change is meant."""
        return self.post(path, {**(fields or {}), "_sure": "yes"}, **headers)

    def api(self, path: str, body: Any, **headers: str) -> Answer:
        """As a program does."""
        return self.ask("POST", path, json.dumps(body).encode(), {"Content_Type": "application/json", **headers})

    @property
    def token(self) -> str:
        return next((value for name, value in self.cookies.items() if name.endswith("csrf")), "")

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        path, _, query = path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body), "REMOTE_ADDR": "127.0.0.1",
        }  # fmt: skip
        setup_testing_defaults(environ)
        if self.cookies:
            environ["HTTP_COOKIE"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        for name, value in {**self._headers, **(headers or {})}.items():
            key = name if name.startswith("wsgi.") else name.upper().replace("-", "_")
            whole = key.startswith(("CONTENT_", "REMOTE_", "SCRIPT_", "PATH_", "wsgi."))
            environ[key if whole else f"HTTP_{key}"] = value
        return self._answer(environ)

    def _answer(self, environ: dict[str, Any]) -> Answer:
        told: list[Any] = []
        answered = self._app(environ, lambda status, headers, exc_info=None: told.append((status, headers)))
        try:
            raw = b"".join(answered)
        finally:
            answered.close()  # type: ignore[attr-defined]
        status, headers = told[0]
        named = {name.lower(): value for name, value in headers}
        set_cookies = tuple(value for name, value in headers if name == "Set-Cookie")
        for line in set_cookies:
            for name, morsel in SimpleCookie(line).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        body = gzip.decompress(raw) if named.get("content-encoding") == "gzip" else raw
        return Answer(int(status.split()[0]), body, named, set_cookies)
