"""The App that `import goworkers_py` makes. Pages, typed messages and test modes use it when they are given no other
one: they cannot import the root of the package, which imports them."""

from __future__ import annotations

from typing import Any

_app: Any = None


def remember(app: Any) -> None:
    """Called by the root of the package, before anything else can ask."""
    global _app
    _app = app


def default_app() -> Any:
    return _app
