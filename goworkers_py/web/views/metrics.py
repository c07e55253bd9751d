"""Metrics by class, in any language: how many runs, how many failed, how long they took, and the deploys between."""

from __future__ import annotations

import time
from collections.abc import Sequence

from goworkers_py.admin.metrics import ClassMetrics, RunSeries
from goworkers_py.brokers.contracts.metrics import DeployMark
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.charts import Bar
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit

HOURS = ("1", "2", "4", "8", "24", "72")
PERIOD = Param("hours", "of the last so many hours", default="1", choices=HOURS)
CLASS = Param("name", "name of the class", needed=True)
AGE_S = 15.0
MOST_CLASSES, MOST_BARS = 200, 72
DAY_S = 86_400

COLUMNS = Columns(
    "job_class", "runs", "failures", "mean_ms", "total_ms",
    failure_rate=lambda metrics: metrics.failures / metrics.runs if metrics.runs else None,
)  # fmt: skip


def classes(visit: Visit) -> Data:
    """The classes that have run in the last hours, in any language, that with the longest run time first."""
    hours = int(visit.args["hours"])
    data = {"hours": str(hours), "periods": HOURS, "offered": visit.inspector.knows_metrics}
    if not data["offered"]:
        return data | {"counted": None, "classes": [], "bars": [], "marks": [], "number": 0}
    counted = visit.panel(f"metrics {hours}", AGE_S, lambda: visit.inspector.metrics(hours))
    found = counted.value or []
    return data | {
        "counted": {"at": counted.at, "age_s": counted.age_s} if counted.value is not None else None,
        "classes": [metrics.as_dict() for metrics in COLUMNS.sorted(found, visit.args["sort"])[:MOST_CLASSES]],
        "number": len(found),
        "bars": _bars_of_all(found),
        "marks": _marks(visit, hours),
    }


def details(visit: Visit) -> Data:
    """One class: its runs and failures over time, its run times as percentiles and as a histogram."""
    hours, name = int(visit.args["hours"]), visit.args["name"]
    data = {"hours": str(hours), "periods": HOURS, "name": name, "offered": visit.inspector.knows_metrics}
    if not data["offered"]:
        return data | {"metrics": None, "bars": [], "histogram": [], "marks": []}
    found = visit.snapshot(f"metrics {hours} of {name}", AGE_S, lambda: visit.inspector.metrics_of(name, hours))
    bounds = [*(_span(bound) for bound in found.bounds_ms), f"over {_span(found.bounds_ms[-1])}"]
    last = max((place for place, count in enumerate(found.histogram) if count), default=-1)
    first = next((place for place, count in enumerate(found.histogram) if count), 0)
    return data | {
        "metrics": found.as_dict(),
        "bars": _bars(found.series),
        "histogram": [Bar(bounds[place], found.histogram[place]) for place in range(first, last + 1)],
        "marks": _marks(visit, hours),
    }


def _marks(visit: Visit, hours: int) -> Sequence[DeployMark]:
    return visit.snapshot(f"deploy marks {hours}", AGE_S, lambda: visit.inspector.deploy_marks(hours))


def _bars_of_all(found: Sequence[ClassMetrics]) -> list[Bar]:
    if not found:
        return []
    series = found[0].series
    runs = [sum(counts) for counts in zip(*(metrics.series.runs for metrics in found), strict=True)]
    failures = [sum(counts) for counts in zip(*(metrics.series.failures for metrics in found), strict=True)]
    return _bars(RunSeries(series.step_s, series.starts, runs, failures))


def _bars(series: RunSeries) -> list[Bar]:
    """At most MOST_BARS, so that each can be seen: several steps are one bar then."""
    together = -(-len(series.starts) // MOST_BARS)
    form = "%H:%M" if len(series.starts) * series.step_s <= DAY_S else "%m-%d %H:%M"
    return [
        Bar(
            time.strftime(form, time.gmtime(start)),
            sum(series.runs[place : place + together]),
            sum(series.failures[place : place + together]),
        )
        for place, start in list(enumerate(series.starts))[::together]
    ]


def _span(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:g} s"


VIEWS = [
    View("/metrics", "Metrics", "metrics.html", classes, (PERIOD, COLUMNS.param), menu="Metrics"),
    View("/metrics/class", "Class", "metrics_class.html", details, (CLASS, PERIOD), "/metrics"),
]
ACTIONS: list[Action] = []
