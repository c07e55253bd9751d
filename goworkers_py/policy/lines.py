"""Lines in which jobs are parked: a feature lets the jobs of its lines go, people those of all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from goworkers_py.core.line_owner import LineOwner
from goworkers_py.features import FEATURES
from goworkers_py.features.parts import Whereabouts


@cache
def _whereabouts() -> Sequence[Whereabouts]:
    return [feature.whereabouts() for feature in FEATURES]


def owner_of(line: str) -> LineOwner | None:
    """None for a line of people, and for no line."""
    owners = (whereabouts.line_owner(line) for whereabouts in _whereabouts())
    return next((owner for owner in owners if owner is not None), None) if line else None


def waiting_by_owner(lines: Iterable[tuple[str, int]]) -> dict[str, int]:
    """How many jobs wait for each owner. `lines`: the names of lines, and how many jobs each holds."""
    counts: dict[str, int] = {}
    for line, size in lines:
        if (owner := owner_of(line)) is not None:
            counts[owner.of] = counts.get(owner.of, 0) + size
    return counts
