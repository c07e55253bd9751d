"""The figures of batches among those of the fleet, and the metrics that show them."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.admin.inspector import Inspector
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.batches.batch import BatchStatus
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.parts import Figures
from goworkers_py.web.gauges import OfFleet

# So many batches are looked at.
MOST_FOR_FIGURES = 500

GAUGES = (
    OfFleet("batches", "open batches", "", lambda stats: {"": stats.batches}),
    OfFleet(
        "batch_pending_jobs", "jobs of open batches that have not ended", "", lambda stats: {"": stats.batch_pending}
    ),
    OfFleet(
        "batch_oldest_seconds", "since the first open batch was opened", "", lambda stats: {"": stats.oldest_batch_s}
    ),
    OfFleet(
        "failed_batches",
        "batches that have ended, with jobs that failed for good",
        "",
        lambda stats: {"": stats.failed_batches},
    ),
)


def figures(inspector: Inspector) -> Mapping[str, int]:
    """None where the access rules do not allow to read them."""
    try:
        found = inspector.batches.idle(MOST_FOR_FIGURES) if inspector.has(Batches) else []
    except BrokerRefused:
        return {}
    unended = [batch for batch in found if batch.ended_at is None]
    return {
        "batches": len(unended),
        "batch_pending": sum(batch.pending for batch in unended),
        "oldest_batch_s": _oldest_s(inspector, unended),
        "failed_batches": sum(batch.ended_at is not None and batch.failed > 0 for batch in found),
    }


def _oldest_s(inspector: Inspector, unended: list[BatchStatus]) -> int:
    return max(0, int(inspector.now() - min(batch.at for batch in unended))) if unended else 0


FIGURES = Figures(figures, GAUGES)
