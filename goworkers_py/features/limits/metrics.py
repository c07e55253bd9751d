"""The metrics of limits."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.features.limits.limiting import NAME
from goworkers_py.features.parts import Figures
from goworkers_py.observe.health_report import HealthReport
from goworkers_py.web.gauges import OfFleet, OfProcesses


def _running(report: HealthReport) -> Mapping[str, int]:
    return report["of_features"].get(NAME, {})


GAUGES = (
    OfProcesses("limit_running_jobs", "jobs of the limit that run in these processes", "limit", _running),
    OfFleet("limit_waiting_jobs", "jobs that wait in the lines of the limit", "limit", lambda stats: stats.limits),
)


FIGURES = Figures(gauges=GAUGES)
