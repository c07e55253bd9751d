"""The first page: how much is done and fails, what waits, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goworkers_py.admin.doctor import Doctor, Finding
from goworkers_py.admin.metrics import ClassMetrics
from goworkers_py.web.site.snapshots import PageSnapshot
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.queues import busy_by_queue, rows
from goworkers_py.web.views.shared import fleet_history, fleet_processes, fleet_stats, sampled

FINDINGS_AGE_S, SLOWEST_AGE_S, SERVERS_AGE_S = 60.0, 15.0, 10.0
MOST_QUEUES = 10
LONGEST_DOCTOR_S = 6.0
# The doctor of the command line reads more. Here it runs beside other work, once in a minute.
SAMPLE, MOST_FAILURES = 50, 1_000


def overview(visit: Visit) -> Data:
    """The fleet at a glance: counts by state, jobs by day, the fullest queues, the findings of the doctor, the classes
    that fail most, and version, memory and clients of each server of the broker."""
    stats, processes = fleet_stats(visit), fleet_processes(visit)
    days = fleet_history(visit)
    fullest = sorted(stats.queues, key=lambda queue: (-queue.size, -queue.latency_s, queue.name))[:MOST_QUEUES]
    return {
        "stats": replace(stats, queues=[]),
        "now": visit.trends.rates(visit.partition),
        "busy": sum(process.busy for process in processes),
        "threads": sum(process.concurrency for process in processes),
        "processes": len(processes),
        "waiting": sum(queue.size for queue in stats.queues),
        "latency_s": max((queue.latency_s for queue in stats.queues if queue.size), default=0.0),
        "queues": rows(fullest, processes, busy_by_queue(visit)),
        "number_of_queues": len(stats.queues),
        "days": [{"date": day.date, "processed": day.processed, "failed": day.failed} for day in reversed(days)],
        "findings": findings(visit),
        "slowest": _slowest(visit),
        "failing": {"retries": sampled(visit, "retry"), "dead": sampled(visit, "dead")},
        "servers": visit.panel("servers", SERVERS_AGE_S, visit.inspector.broker_facts),
    }


def findings(visit: Visit, wait_s: float | None = None) -> PageSnapshot[Sequence[Finding]]:
    return visit.panel("findings", FINDINGS_AGE_S, lambda: _findings(visit), wait_s)


def _slowest(visit: Visit) -> PageSnapshot[list[ClassMetrics]] | None:
    """The classes that have taken most time in the last hour; None where the broker does not know."""
    if not visit.inspector.knows_metrics:
        return None
    return visit.panel("metrics 1", SLOWEST_AGE_S, lambda: visit.inspector.metrics(1))


def _findings(visit: Visit) -> Sequence[Finding]:
    """The problems first."""
    work = visit.host.our_work() if not visit.partition else None
    found = Doctor(visit.inspector, work, SAMPLE, MOST_FAILURES).findings()
    # The page shows failures by themselves.
    return sorted(
        (finding for finding in found if finding.check != "failures"), key=lambda finding: not finding.problem
    )


def _stats(visit: Visit) -> Data:
    """The counters, the sizes of the states and of the queues."""
    return visit.inspector.stats().as_dict()


def _doctor(visit: Visit) -> Data:
    """The findings of the doctor, each with the command that helps: the problems first. Looked for once in a minute;
    `value` is null while the first look is not over."""
    return {"findings": findings(visit, LONGEST_DOCTOR_S)}


VIEWS = [
    View("/", "Overview", "overview.html", overview, menu="Overview"),
    View("/stats", "Stats", "", _stats),
    View("/doctor", "Doctor", "", _doctor),
]
ACTIONS: list[Action] = []
