"""Payloads of which one field is hostile. TEMPLATES is the one table of the fields that we read: a field that is read
anew belongs into it, and every field in it meets each of VALUES."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

_TIME = 1_700_000_000.5
# As text of JSON: Python writes some of them in another way, or not at all.
VALUES = {
    "null": b"null",
    "true": b"true",
    "false": b"false",
    "zero": b"0",
    "minus one": b"-1",
    "a million": b"1000000",
    "beyond 64 bits": b"-9223372036854775809",
    "400 digits": b"9" * 400,
    "5,000 digits": b"7" * 5_000,
    "infinite": b"1e400",
    "a large float": b"1e308",
    "a tiny float": b"5e-324",
    "empty text": b'""',
    "half of a pair": b'"\\ud800"',
    "half of a pair inside": b'"a:b\\udfff c"',
    "NUL and line ends": b'"\\u0000\\r\\n\\u2028"',
    "a time of Go": b'"2006-01-02 15:04:05 UTC"',
    "a long text": b'"' + b"x" * 20_000 + b'"',
    "a list": b"[]",
    "a list of half pairs": b'["\\ud800",null,1]',
    "a list of 3,000 texts": json.dumps([f"q{number}" for number in range(3_000)]).encode(),
    "an object": b"{}",
    "an object of half pairs": b'{"\\udc00":"\\ud800"}',
    "nested": b'{"a":' * 40 + b"[" * 40 + b"]" * 40 + b"}" * 40,
}
# These make the whole payload unreadable, in whatever field.
UNREADABLE = {
    "nested too deep": b"[" * 300 + b"]" * 300,
    "NaN": b"NaN",
    "minus Infinity": b"-Infinity",
    "no UTF-8": b'"\xff\xed\xa0\x80"',
}

_ORDINARY = {
    "jid": "j", "queue": "q", "created_at": _TIME, "enqueued_at": _TIME, "retry": 3,
}  # fmt: skip
_OPTIONS = {
    "wrapped": None, "kwargs": {}, "at": _TIME, "retry_count": 0, "retry_max": 3, "retry_for": 1e9, "retry_queue": "q",
    "dead": True, "backtrace": 3, "error_class": "E", "error_message": "e", "error_backtrace": "", "failed_at": _TIME,
    "retried_at": _TIME, "unfit_since": _TIME, "expires_at": 4e9, "expiry": 4e9, "expires_in": 60, "tags": ["a"],
    "timeout": 60, "deadline": 4e9, "log_level": "warning", "display_class": "D", "client_class": "C", "cattr": {},
    "track": True, "retain": 60, "bid": "b", "unique_for": 60, "unique_until": "start", "lock_digest": "{jid}",
    "lock": "until_executed", "lock_limit": 1, "lock_ttl": 60, "on_conflict": "reject",
    "on_server_conflict": "reject", "pyworkers_echo": {"v": 1, "end": "dead", "error": "e"},
}  # fmt: skip
_TIES = {
    "lock": {"name": "lock of {jid}", "for": 60, "until": "success", "conflict": "", "begun": False},
    "limits": [{"name": "shared", "key": "k", "holds": True}],
    "batch": {"id": "{jid}.{jid}", "to": ["q", "r"], "over": False},
    "chain": {"id": "{jid}", "n": 1, "part": 1, "to": ["q"], "gives": True},
}
# By what they are. `class` stands for a class that succeeds, and for one that fails.
TEMPLATES: dict[str, dict[str, Any]] = {
    "bare": _ORDINARY,
    "plain": {**_ORDINARY, **_OPTIONS},
    "tied": {
        **_ORDINARY,
        "track": True,
        "pyworkers": {"v": 1, "needs": ["unique", "limits", "batch", "chain"], "rounds": 1, **_TIES},
    },
    "asks for its lock": {
        **_ORDINARY,
        "pyworkers": {"v": 1, "needs": ["unique"], "lock": {**_TIES["lock"], "until": "start", "conflict": "replace"}},
    },
    "in a batch": {**_ORDINARY, "pyworkers": {"v": 1, "needs": ["batch"], "batch": {"id": "{jid}", "to": ["q"]}}},
    "dead in its batch": {
        **_ORDINARY, "retry": 0, "pyworkers": {"v": 1, "needs": ["batch", "chain"], **_TIES},
    },
    "under a lock of Ruby": {
        **_ORDINARY, "lock_digest": "{jid}", "lock": "until_executed", "lock_limit": 1, "lock_ttl": 60,
        "on_conflict": "reject", "on_server_conflict": {"server": "reject"},
    },
    "member of a group": {
        **_ORDINARY,
        "pyworkers": {"v": 1, "needs": ["group"], "group": {"name": "{jid}", "grace": 90, "delay": 90, "size": 90}},
    },
    "aggregates a set": {
        **_ORDINARY,
        "pyworkers": {"v": 1, "needs": ["group"], "group": {"name": "{jid}", "queue": "q", "set": "s{jid}"}},
    },
    "needs a newer release": {**_ORDINARY, "pyworkers": {"v": 1, "needs": ["telepathy"], "rounds": 3}},
    "recovered": {
        **_ORDINARY,
        "recovered": {"v": 1, "count": 1, "since": _TIME, "rounds": 1, "mark": "", "verdict": 0},
    },
    "of plain format": {
        **_ORDINARY, "plain": {"v": 1, "as": "text", "properties": {"headers": {"a": 1}, "timestamp": 1}},
    },
    "enclosing": {**_ORDINARY, "unreadable": {"v": 1, "as": "text"}},
    "iterable": {**_ORDINARY, "checkpoint": 5, "time_slice": 60},
}  # fmt: skip
_CLASSES = {"enclosing": ("pyworkers.Unreadable",), "iterable": ("Iterates",), "dead in its batch": ("Fails",)}
# Fields that need not be hostile in every template.
_MET_BARE = {"class", "args", "queue", "created_at", "enqueued_at"}
MARK = re.compile(rb'case\\?": ?\\?"(case-\d+-)')
_HERE = "@hostile@"


class Case(NamedTuple):
    mark: bytes  # is in the payload wherever that goes
    about: str
    raw: bytes


@cache
def cases() -> tuple[Case, ...]:
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for kind, template in TEMPLATES.items():
        classes = _CLASSES.get(kind, ("Succeeds", "Fails"))
        values = VALUES | UNREADABLE if kind in ("bare", "tied") else VALUES
        for number, (path, name) in enumerate(product(_paths({"class": "", "args": [1], **template}), values)):
            if kind != "bare" and path[0] in _MET_BARE:
                continue
            # A plain job fails with every other value of a field, and succeeds with the others.
            for job_class in classes[number % 2 :][:1] if kind == "plain" else classes:
                whole = {"class": job_class, "args": [1], **template}
                yield _case(f"{kind}, {job_class}, {'.'.join(map(str, path))}: {name}", whole, path, values[name])


_count = iter(range(1_000_000))


def _case(about: str, whole: dict[str, Any], path: tuple[Any, ...], value: bytes) -> Case:
    mark = f"case-{next(_count)}-"
    text = json.dumps({**_with(whole, path), "case": mark}).replace("{jid}", mark).replace('"j"', f'"{mark}"')
    return Case(mark.encode(), about, text.encode().replace(f'"{_HERE}"'.encode(), value))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in pairs:
        yield from _paths(part, (*path, name))


def _with(value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return _HERE
    copied = value.copy()
    copied[path[0]] = _with(value[path[0]], path[1:])
    return copied
