"""docs/metrics.md: every metric for Prometheus, from what the exporter writes of a fleet that has one of everything."""

from __future__ import annotations

import re
from dataclasses import replace

from goworkers_py.brokers.contracts.fleet import QueueStats, Stats
from goworkers_py.observe.health_report import HealthReport, merged
from goworkers_py.observe.run_stats import RESULTS, RunStats
from goworkers_py.web.prometheus import exposition
from reference.markdown import GENERATED, Missing, code, table

_HEAD = f"""\
{GENERATED}

# Metrics

Every metric that `/metrics` serves in Prometheus' text format, with its type and its labels. A process serves it with \
`stats_port`; [deploying](deploying.md#health-and-metrics) says how, and has a dashboard and alarms.

The label `partition` is there for the [partitions](partitions.md) beside the main one only. Metrics of the first \
table cover the processes that share the port. Those of the second table cover the whole fleet: take `max` over \
several processes, not `sum`.
"""

_OF_THE_FLEET = "broker_up"  # this metric and those behind it are of the broker


def page() -> str:
    rows = [
        [code(name), kind, ", ".join(code(label) for label in sorted(_labels(text, name, kind))), about]
        for name, about, kind, text in _METRICS.findall(_example())
    ]
    split = next(place for place, row in enumerate(rows) if row[0] == code(f"pyworkers_{_OF_THE_FLEET}"))
    head = ["metric", "type", "labels", "what it is"]
    results = ", ".join(map(code, RESULTS))
    parts = [
        _HEAD,
        "## Of the processes\n",
        table(head, rows[:split]) + "\n",
        f"Values of the label `result`: {results}.\n",
        "## Of the fleet\n",
        table(head, rows[split:]) + "\n",
    ]
    return "\n".join(parts)


_METRICS = re.compile(r"^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)\n((?:[^#].*\n)*)", re.MULTILINE)


def _labels(samples: str, name: str, kind: str) -> set[str]:
    if not samples:
        raise Missing(f"metric {name} has no sample in reference/metrics.py")
    labels = set(re.findall(r'[{,](\w+)="', samples))
    return labels - {"le"} if kind == "histogram" else labels


def _example() -> str:
    part = HealthReport(
        **{
            **merged("working", []),
            "queues": {"mail": {"busy": 0, "capacity": 1, "waiting": 0, "stuck": 0}},
            "pools": {"web": {"capacity": 1, "stuck": 0}},
            "jobs": {"mail": RunStats(["Mail"]).snapshot()},
            "of_features": {"limits": {"stripe": 1}},
            "terms": {"": {"here": 1, "epoch": 1, "holder": ""}},
        }
    )
    on_server = replace(Stats.nothing(), queues=[QueueStats("mail", 1, 0.0)], limits={"stripe": 1})
    report = HealthReport(**{**part, "partitions": {"billing": part}})
    return exposition(report, replace(on_server, partitions={"billing": on_server}))
