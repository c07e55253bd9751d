"""The decorator `@NAME.aggregate` below a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from goworkers_py.features.groups.api import GatheredJob

A = TypeVar("A")  # what the function returns


class AggregatedJob:
    def aggregate(self: GatheredJob, function: Callable[[list[list[Any]]], A], /) -> Callable[[list[list[Any]]], A]:
        """Decorator: `@invoice.aggregate` below the job. The function gets the arguments of the members of a group, a
        list of lists, those that joined first first. It returns the arguments of the one job that runs instead.

        It runs as a job of this class: when it raises, it is retried, and the members are safe. See docs/groups.md.
        """
        from goworkers_py.features.groups.api import aggregate_by

        aggregate_by(self, function)
        return function
