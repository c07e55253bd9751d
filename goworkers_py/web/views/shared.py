"""Questions to the broker that several pages share."""

from __future__ import annotations

from goworkers_py.brokers.contracts.fleet import Day, Process, Stats
from goworkers_py.web.site.visit import Visit

# Pages that many people look at ask the broker once in so many seconds.
STATS_AGE_S, PROCESSES_AGE_S, HISTORY_AGE_S = 1.0, 2.0, 10.0
DAYS = 30


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
