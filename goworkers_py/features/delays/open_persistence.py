"""The persistence of a delay queue whose program names none."""

from __future__ import annotations

from importlib import import_module

from goworkers_py.features.delays.contract import Persistence


def default_persistence() -> Persistence:
    """In Redis, at PYWORKERS_BROKER or on this machine. Imported by name, as `open_broker` imports brokers."""
    made: Persistence = import_module("goworkers_py.features.delays.redis").RedisPersistence()
    return made
