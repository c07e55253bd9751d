"""The metrics of limits."""

from __future__ import annotations

from goworkers_py.web.gauges import OfFleet, OfProcesses

GAUGES = (
    OfProcesses(
        "limit_running_jobs", "jobs of the limit that run in these processes", "limit", lambda report: report["limited"]
    ),
    OfFleet("limit_waiting_jobs", "jobs that wait in the lines of the limit", "limit", lambda stats: stats.limits),
)
