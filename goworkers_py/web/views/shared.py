"""Questions to the broker that several pages share."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.admin.places import DEAD, RETRIES
from goworkers_py.admin.summary import Sample
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.brokers.contracts.fleet import Day, Process, Stats
from goworkers_py.web.site.snapshots import PageSnapshot
from goworkers_py.web.site.visit import Visit

# Pages that many people look at ask the broker once in so many seconds.
STATS_AGE_S, PROCESSES_AGE_S, HISTORY_AGE_S, SAMPLE_AGE_S = 1.0, 2.0, 10.0, 60.0
DAYS = 30
# States whose jobs are counted by class and error, from a sample.
SAMPLED: Mapping[str, Place] = {"retry": RETRIES, "dead": DEAD}


def fleet_stats(visit: Visit) -> Stats:
    def read() -> Stats:
        stats = visit.inspector.stats()
        visit.trends.add(visit.partition, stats)
        return stats

    return visit.snapshot("stats", STATS_AGE_S, read)


def fleet_processes(visit: Visit) -> list[Process]:
    return visit.snapshot("processes", PROCESSES_AGE_S, visit.inspector.processes)


def fleet_history(visit: Visit) -> list[Day]:
    """The last days, today first."""
    return visit.snapshot("history", HISTORY_AGE_S, lambda: visit.inspector.history(DAYS))


def sampled(visit: Visit, state: str) -> PageSnapshot[Sample]:
    place = SAMPLED[state]
    return visit.panel(f"sample of {state}", SAMPLE_AGE_S, lambda: visit.inspector.sample(place))
