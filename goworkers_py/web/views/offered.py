"""What a page of a feature answers where the broker has no part of the feature."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from goworkers_py.brokers.broker import Capability
from goworkers_py.web.site.visit import Visit

T = TypeVar("T")

MOST = 500  # rows of a page
AGE_S = 2.0


def entries(
    visit: Visit, name: str, needs: Capability | type, read: Callable[[], Iterable[T]], most: int = MOST
) -> list[T]:
    """The first entries of a list that pages share for a moment; none where the broker lacks the part."""
    if not visit.inspector.has(needs):
        return []

    def first() -> list[T]:
        found: Iterator[T] = iter(read())
        return list(itertools.islice(found, most))

    return visit.snapshot(name, AGE_S, first)
