"""One request, read from a WSGI environ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import simplejson

from goworkers_py.web.http.budget import Budget
from goworkers_py.web.http.errors import Refused, bad_request

MOST_BYTES = 2_000_000  # of a body
MOST_DIGITS = 15  # of its length
AT_ONCE = 65_536  # bytes that are read before more memory is asked for: a slow client holds what it has sent

# All that the requests of this process hold at once: bodies, and the values in them.
BODIES, VALUES = Budget(16_000_000), Budget(32_000_000)
VALUE_BYTES = 80  # of an empty list of JSON and its place in another one; most other values take less
BEFORE_VALUES = b",[{&%"  # in JSON; in a form, of which each escaped byte is one for a moment
MOST_FIELDS = 2_000  # of a query or a form

WITHOUT_PREFIX = {"CONTENT_TYPE", "CONTENT_LENGTH"}  # headers that an environ names so
READING = {"GET", "HEAD"}  # methods

Environ = dict[str, Any]
Values = Mapping[str, Sequence[Any]]  # by name, all values that were given under it

# At the end of a field's name: its value is percent-encoded, as a form changes some characters on its way.
EXACT = "*"

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


class Request:
    """Used by one thread, which closes it."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self._taken: list[tuple[Budget, int]] = []
        self.method: str = str(environ["REQUEST_METHOD"]).upper()
        # The host's part of the path, under which the pages are mounted.
        self.root = quote(_text(environ.get("SCRIPT_NAME") or "").rstrip("/"))
        self.path = "/" + _text(environ.get("PATH_INFO") or "").strip("/")

    def close(self) -> None:
        for held in ("_arrived", "json", "form"):
            self.__dict__.pop(held, None)
        while self._taken:
            budget, size = self._taken.pop()
            budget.give(size)

    def header(self, name: str) -> str:
        key = name.upper().replace("-", "_")
        value = self.environ.get(key if key in WITHOUT_PREFIX else f"HTTP_{key}", "")
        return value if isinstance(value, str) else ""

    @property
    def changes(self) -> bool:
        """Whether the method may change something."""
        return self.method not in READING

    @property
    def is_secure(self) -> bool:
        """Whether the browser speaks TLS, if need be with a proxy."""
        return self.environ.get("wsgi.url_scheme") == "https" or self.header("X-Forwarded-Proto") == "https"

    @property
    def origin(self) -> str:
        """As the browser sees it, for examples."""
        return f"{'https' if self.is_secure else 'http'}://{self.header('Host')}"

    @property
    def is_json(self) -> bool:
        return self.header("Content-Type").partition(";")[0].strip().lower() == _JSON

    @cached_property
    def query(self) -> Values:
        return _pairs(self.environ.get("QUERY_STRING") or "")

    @cached_property
    def cookies(self) -> Mapping[str, str]:
        """Of two with a name the last one."""
        pairs = (part.partition("=") for part in self.header("Cookie").split(";"))
        return {name.strip(): value.strip().strip('"') for name, _, value in pairs}

    @cached_property
    def form(self) -> Values:
        """The fields of a form, or of a JSON object. Refuses any other body."""
        if self.is_json:
            return {name: [value] for name, value in self.json.items()}
        kind = self.header("Content-Type").partition(";")[0].strip().lower()
        if kind not in ("", _FORM):
            raise Refused(415, f"the body must be {_JSON} or a form, is {kind}")
        return _pairs(self._body.decode("utf-8", "replace"))

    @cached_property
    def json(self) -> Mapping[str, Any]:
        try:
            value = simplejson.loads(self._body.decode() or "{}")
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise bad_request("the body must be a JSON object")
        return value

    @property
    def _body(self) -> bytearray:
        if isinstance(self._arrived, Refused):
            raise self._arrived
        return self._arrived

    @cached_property
    def _arrived(self) -> bytearray | Refused:
        """The refusal of a body is kept too: it cannot be read once more."""
        try:
            body = self._read(self._length())
            self.take(VALUES, len(body) + VALUE_BYTES * sum(map(body.count, BEFORE_VALUES)))
        except Refused as refusal:
            return refusal.with_traceback(None)  # whose frames hold this request, which would wait for the collector
        return body

    def _length(self) -> int:
        length = self.header("Content-Length")
        if self.header("Transfer-Encoding"):
            if length:
                raise bad_request("the body has two lengths: Content-Length and that of Transfer-Encoding")
            raise Refused(411, "tell the length of the body in Content-Length")
        length = length or "0"
        if not (length.isascii() and length.isdigit() and len(length) <= MOST_DIGITS):
            raise bad_request(f"Content-Length must be one decimal number, is {length[:40]!r}")
        if int(length) > MOST_BYTES:
            raise Refused(413, f"the body must have at most {MOST_BYTES:,} bytes, has {int(length):,}")
        return int(length)

    def _read(self, length: int) -> bytearray:
        body = bytearray()  # grows in place: a join would hold all of it twice
        while length:
            size = min(length, AT_ONCE)
            self.take(BODIES, size)
            part: bytes = self.environ["wsgi.input"].read(size)
            if not part:
                raise bad_request("the body ended before its Content-Length: nothing was done")
            body += part
            length -= len(part)
        return body

    def take(self, budget: Budget, size: int) -> None:
        """Until the request is closed."""
        budget.take(size)
        self._taken.append((budget, size))


def name_in(host: str) -> str:
    """The name or the address in a header `Host`: without the port, and the brackets of an address of IPv6."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()


def _text(path: str) -> str:
    """WSGI gives the bytes of a path as characters of Latin-1."""
    return path.encode("latin-1", "replace").decode("utf-8", "replace")


def _pairs(text: str) -> Values:
    try:
        # A name that broke as UTF-8 comes back as the bytes that it had.
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="surrogateescape")
    except ValueError:
        raise bad_request(f"at most {MOST_FIELDS:,} fields may be sent at once") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if name.endswith(EXACT):
            name, value = name.removesuffix(EXACT), unquote(value, errors="surrogateescape")
        found.setdefault(name, []).append(_with_halves(value))
    return found


def _with_halves(text: str) -> str:
    """Links write half a surrogate pair, which names and payloads may have, in three bytes of its own."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogatepass")
    except UnicodeError:
        return text
