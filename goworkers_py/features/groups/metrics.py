"""The figures of groups among those of the fleet, and the metrics that show them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from goworkers_py.admin.inspector import Inspector
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import MOST_FOR_FIGURES
from goworkers_py.features.parts import Figures
from goworkers_py.web.gauges import OfFleet

GAUGES = (
    OfFleet("groups", "groups of jobs that wait to be aggregated", "", lambda stats: {"": stats.groups}),
    OfFleet("grouped_jobs", "jobs that wait in groups", "", lambda stats: {"": stats.grouped}),
    OfFleet(
        "grouped_oldest_seconds",
        "how long the first job of a group has waited",
        "",
        lambda stats: {"": stats.oldest_grouped_s},
    ),
)


def figures(inspector: Inspector) -> Mapping[str, int]:
    """Of the first groups and sets. The oldest is the first member of an open group."""
    if not inspector.has(Groups):
        return {}
    found = [entry for entry in itertools.islice(inspector.groups(), MOST_FOR_FIGURES) if entry.size]
    firsts = [entry.first for entry in found if entry.first is not None]
    oldest_s = max(0, int(inspector.now() - min(firsts))) if firsts else 0
    return {"groups": len(found), "grouped": sum(entry.size for entry in found), "oldest_grouped_s": oldest_s}


FIGURES = Figures(figures, GAUGES)
