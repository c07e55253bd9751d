"""The functions that a program calls for each job that was cancelled, see `App.on_cancel`."""

from __future__ import annotations

from goworkers_py.links.handlers import EndHandler
from goworkers_py.policy.registry import Registry

NAME = "cancelling"


def handlers_of(registry: Registry) -> list[EndHandler]:
    handlers: list[EndHandler] = registry.of_features.setdefault(NAME, [])
    return handlers
