"""The figures of chains among those of the fleet, and the metrics that show them."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.admin.inspector import Inspector
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.parts import Figures
from goworkers_py.web.gauges import OfFleet

# So many chains are looked at.
MOST_FOR_FIGURES = 500

GAUGES = (
    OfFleet("chains", "chains that run", "", lambda stats: {"": stats.chains}),
    OfFleet(
        "chain_link_oldest_seconds",
        "since the link was pushed that is at work for the longest",
        "",
        lambda stats: {"": stats.oldest_link_s},
    ),
    OfFleet("stopped_chains", "chains that a failed link has stopped", "", lambda stats: {"": stats.stopped_chains}),
)


def figures(inspector: Inspector) -> Mapping[str, int]:
    """None where the access rules do not allow to read them."""
    try:
        found = inspector.chains.idle(MOST_FOR_FIGURES) if inspector.has(Chains) else []
    except BrokerRefused:
        return {}
    since = [chain.since or chain.at for chain in found if chain.state == "running"]
    return {
        "chains": len(since),
        "oldest_link_s": max(0, int(inspector.now() - min(since))) if since else 0,
        "stopped_chains": sum(chain.state == "stopped" for chain in found),
    }


FIGURES = Figures(figures, GAUGES)
