"""Which lock a unique job takes: by its class and a key, which is all its arguments, or what `unique_by` returns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import simplejson

from goworkers_py.config.option_values import whole_seconds
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.unique.lock import LockClaim, OnConflict, Until
from goworkers_py.features.unique.payload import LOCK, lock_field, newest_of
from goworkers_py.wire import payload

# Hexadecimal digits of the digest in the name of a lock.
DIGITS = 32
# A lock that another feature names lasts through retries and long runs, whatever this is: a job that waits for longer
# in its queue loses it.
NAMED_S = 7 * 86_400
_LARGE = 10**18
_canonical = simplejson.JSONEncoder(sort_keys=True, separators=(",", ":"))


class NamedLock(NamedTuple):
    """In place of a function `unique_by`: the lock has this name, whatever the arguments are."""

    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        return self.name


def named_lock(name: str, waits: bool) -> Mapping[str, Any]:
    """The options of a push by which no other job has a lock of this name until the job has ended. `waits`: the job
    waits for that end; else it is skipped."""
    conflict = "reschedule" if waits else "skip"
    by = NamedLock(name)
    return {"unique_for": NAMED_S, "unique_until": "success", "on_conflict": conflict, "unique_by": by}


class Uniqueness(NamedTuple):
    """The options of the pushes of one class."""

    job_class: str
    for_s: int
    until: Until = "success"
    on_conflict: OnConflict = "skip"
    by: Callable[..., Any] | None = None

    def name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The name of the lock of a job with these arguments."""
        if isinstance(self.by, NamedLock):
            return self.by.name
        short = _short_text(args) if self.by is None and not kwargs else ""
        text = short or _canonical.encode(self._key(args, kwargs))
        return f"{self.job_class}:{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self.by is None:
            return [list(args), dict(kwargs)] if kwargs else [list(args)]
        try:
            key = self.by(*args, **kwargs)
        except TypeError as error:  # most often: it does not take the job's arguments
            raise ArgumentError(f"{self.job_class}: unique_by: {error}") from error
        key = list(key) if isinstance(key, tuple) else key
        try:
            if isinstance(key, Mapping):
                raise ArgumentError("the key is a dict")
            payload.check_plain(key, "the key")
        except ArgumentError as error:
            raise ArgumentError(f"unique_by: {error}; return a text, a number or a list of them") from None
        return {"by": key}

    def field(self, name: str) -> dict[str, Any]:
        """The member of the payload's field."""
        return {LOCK: lock_field(name, self.for_s, self.until, self.on_conflict)}

    def claim(self, name: str, jid: str, fields: Mapping[str, Any] = MappingProxyType({})) -> LockClaim:
        """`fields` are those of the payload; `replace` passes on what the holder needs of them."""
        newest = newest_of(fields) if self.on_conflict == "replace" else b""
        return LockClaim(name, jid, self.for_s, self.on_conflict, newest, outlasts=self.until == "expiry")


def _short_text(args: Sequence[Any]) -> str:
    """The JSON that `_canonical` writes for these arguments without kwargs; empty for other arguments than numbers and
    simple names. Most jobs have a few of those, and simplejson's preparation for a call takes longer than this."""
    texts = []
    for arg in args:
        kind = type(arg)
        if kind is int and -_LARGE < arg < _LARGE:
            texts.append(str(arg))
        elif kind is str and arg.isascii() and arg.isalnum():
            texts.append(f'"{arg}"')
        else:
            return ""
    return f"[[{','.join(texts)}]]"


def uniqueness_of(said: Mapping[str, Any], job_class: str) -> Uniqueness | None:
    """The uniqueness that these options of a push ask for; None for a job that is not unique."""
    for_s = said.get("unique_for")
    if not for_s:
        return None
    until, on_conflict = said.get("unique_until", "success"), said.get("on_conflict", "skip")
    if on_conflict == "replace" and until != "success":
        raise ArgumentError(
            f"on_conflict='replace' does not go with unique_until={until!r}: the newest arguments are in the lock, so "
            "it lasts until the job has ended; use unique_until='success'"
        )
    return Uniqueness(job_class, whole_seconds(for_s), until, on_conflict, said.get("unique_by"))


def check_lock_options(own: Mapping[str, Any], merged: Mapping[str, Any], job_class: str) -> None:
    """Refuses options `own` that say how a lock is, where nothing in `merged` asks for a lock, and two options that do
    not go together. `merged` has the defaults too."""
    lone = next((name for name in ("unique_by", "unique_until", "on_conflict") if own.get(name) is not None), None)
    if lone and merged.get("unique_for") is None:
        raise ArgumentError(f"{lone} needs unique_for: without it, there is no lock")
    uniqueness_of(merged, job_class)
