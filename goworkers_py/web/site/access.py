"""Stub until the real one lands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from goworkers_py.web.http.errors import Refused


@dataclass(frozen=True, slots=True)
class Grant:
    who: str
    view: bool
    act: bool


class Access(Protocol):
    def decide(self, environ: dict[str, Any]) -> Grant: ...


class ByFunction:
    def __init__(self, authorize: Callable[[dict[str, Any], str], bool]) -> None:
        self._authorize = authorize

    def decide(self, environ: dict[str, Any]) -> Grant:
        view, act = bool(self._authorize(environ, "view")), bool(self._authorize(environ, "act"))
        return Grant(environ.get("REMOTE_USER") or "somebody", view, act)  # the function may have set it


class Closed:
    def decide(self, environ: dict[str, Any]) -> Grant:
        raise Refused(403, "these pages are closed: give application(authorize=...)")
