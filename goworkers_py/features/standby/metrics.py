"""The metrics of elections."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.config.partitions import MAIN
from goworkers_py.features.parts import Figures
from goworkers_py.observe.health_report import HealthReport
from goworkers_py.web.gauges import OfProcesses


def _leads(report: HealthReport) -> Mapping[str, int]:
    return {name or MAIN: term["here"] for name, term in report["terms"].items()}


def _epochs(report: HealthReport) -> Mapping[str, int]:
    return {name or MAIN: term["epoch"] for name, term in report["terms"].items()}


GAUGES = (
    OfProcesses("leader", "1 while a process of these leads; for processes with standby", "partition", _leads),
    OfProcesses("leader_epoch", "the highest epoch of a leader that these processes know", "partition", _epochs),
)


FIGURES = Figures(gauges=GAUGES)
