"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.features.feature import Feature


class AtomicFeature(Feature):
    """The pushes of a job happen in the step that ends it."""

    name = "atomic"
    options_of_code = "AtomicOptions"

    def code(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
        if not options.get("atomic"):
            return function
        from goworkers_py.features.atomic.api import atomically

        return atomically(function)


FEATURE = AtomicFeature()
