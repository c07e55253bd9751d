"""The pool whose thread runs the code that runs now. A thread of a pool sets it once, as it begins."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.core.home import Home


class PoolHere(NamedTuple):
    home: Home  # the broker from which the pool fetches
    queues: frozenset[str]


pool_here: ContextVar[PoolHere | None] = ContextVar("goworkers_py_pool_here", default=None)
