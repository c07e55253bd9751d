"""The health report of a process, and of several processes together: for systemd, monitors and probes.

A report is plain JSON, because a child of `processes = N` sends it to its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict

from goworkers_py.core.version import __version__
from goworkers_py.features import FEATURES
from goworkers_py.observe.run_stats import END, Rows, sum_of
from goworkers_py.observe.running_jobs import RunningJob, oldest

STARTING, WORKING, QUIET, STOPPING = "starting", "working", "quiet", "stopping"
STANDBY = "standby"  # another process works, and this one is ready to take over
# Part of the trouble that a process reports while it runs a suspect in quarantine; the job's class and jid follow. This
# trouble ends by itself. `doctor` and `health` look for the text in reports of processes of other releases too.
OF_SUSPECT = "for a suspect of having crashed processes, which is to run alone:"

# The heartbeat and each fetcher finish a round of their loop every few seconds, also during an outage. This limit is
# longer than all waits of one round together, name servers that do not answer included.
STALE_AFTER_S = 120.0


COUNTERS = (
    "recovered", "poison", "stuck", "lost_leases", "settle_retries", "outage_seconds",
    *(name for feature in FEATURES for name in feature.counters),
)  # fmt: skip


class QueueReport(TypedDict):
    busy: int  # threads that run a job
    capacity: int  # threads of its own; 0 for a queue that shares those of a pool
    waiting: int  # fetched jobs that wait for a thread
    stuck: int  # threads that a stuck job holds


class PoolReport(TypedDict):
    """Of a pool of several queues."""

    capacity: int  # threads
    stuck: int  # threads that a stuck job holds


class TermReport(TypedDict):
    """The term of a fence, of which one process at a time has one."""

    here: int  # how many of these processes have it
    epoch: int  # the highest one that was seen
    holder: str  # the identity that has it; empty: there is none, as far as these processes know


class HealthReport(TypedDict):
    processes: int
    state: str
    stale: str  # which loops finished no round for STALE_AFTER_S; empty if none
    cut_off: str  # for how long no beat has reached the server, as text; empty while the lease is fresh
    oldest_s: float  # seconds for which the oldest running job has run
    queues: dict[str, QueueReport]
    pools: dict[str, PoolReport]
    counts: dict[str, float]  # since the start of the process, by the names in COUNTERS
    jobs: dict[str, Rows]  # by queue, since the start of the process
    running: dict[str, list[RunningJob]]  # by queue
    of_features: dict[str, dict[str, int]]  # figures of running jobs, by feature
    partitions: dict[str, Any]  # a HealthReport of each partition but the main one, which has none itself
    terms: dict[str, TermReport]  # of processes behind a fence, by partition; empty: the main one


# A parent adds up only reports of its own shape. USR2 after an upgrade gives a parent children of another version.
_PARTS = (HealthReport, QueueReport, PoolReport, TermReport, RunningJob)
SHAPE = " ".join([__version__, str(END), *(name for part in _PARTS for name in part.__annotations__)])


def past(report: HealthReport) -> HealthReport:
    """The part of a report that still counts after its process has ended: counts and run statistics."""
    return {
        **report,
        "processes": 0,
        "stale": "",
        "cut_off": "",
        "oldest_s": 0.0,
        "queues": {},
        "pools": {},
        "running": {},
        "of_features": {},
        "partitions": {name: past(partition) for name, partition in report["partitions"].items()},
        "terms": {},
    }


def not_live(report: HealthReport) -> str:
    """Why this process should be restarted; empty if it should not. An outage is no reason."""
    return report["stale"]


def not_ready(report: HealthReport) -> str:
    """Why this process fetches no jobs now; empty if it fetches, or stands by."""
    if report["state"] == STANDBY:
        return report["stale"]
    if report["state"] != WORKING:
        return report["state"]
    if not report["processes"]:
        return "no process is running"
    return report["stale"] or report["cut_off"] or all_stuck(report)


def with_partitions(reports: Mapping[str, HealthReport]) -> HealthReport:
    """The report of a process from those of its partitions, at least one. The main one has an empty name."""
    if [*reports] == [""]:
        return reports[""]
    first = next(iter(reports.values()))
    main = reports.get("") or HealthReport(**{**merged(first["state"], []), "processes": 1})
    others = {name: report for name, report in reports.items() if name}
    return HealthReport(
        **{
            **main,
            "stale": _trouble_text(main["stale"], others, "stale"),
            "cut_off": _trouble_text(main["cut_off"], others, "cut_off"),
            "partitions": others,
        }
    )


def _trouble_text(main: str, others: Mapping[str, HealthReport], what: Literal["stale", "cut_off"]) -> str:
    parts = (f"partition {name}: {report[what]}" for name, report in others.items() if report[what])
    return "; ".join(filter(None, (main, *parts)))


def all_stuck(report: HealthReport) -> str:
    """Names the queues and pools in which stuck jobs hold all threads; empty if there is none."""
    queues = [name for name, queue in report["queues"].items() if queue["stuck"] >= queue["capacity"] > 0]
    pools = [f"pool {name}" for name, pool in report["pools"].items() if pool["stuck"] >= pool["capacity"]]
    found = [*([f"queue {', '.join(queues)}"] if queues else []), *pools]
    own = f"stuck jobs hold all threads of {', '.join(found)}" if found else ""
    others = (f"partition {name}: {stuck}" for name, part in report["partitions"].items() if (stuck := all_stuck(part)))
    return "; ".join(filter(None, (own, *others)))


def merged(state: str, reports: Iterable[HealthReport]) -> HealthReport:
    """The reports of several processes, added up into one."""
    reports = list(reports)
    queues: dict[str, QueueReport] = {}
    pools: dict[str, PoolReport] = {}
    for report in reports:
        for name, pool in report["pools"].items():
            of_all = pools.setdefault(name, PoolReport(capacity=0, stuck=0))
            of_all["capacity"] += pool["capacity"]
            of_all["stuck"] += pool["stuck"]
        for name, queue in report["queues"].items():
            sums = queues.setdefault(name, QueueReport(busy=0, capacity=0, waiting=0, stuck=0))
            sums["busy"] += queue["busy"]
            sums["capacity"] += queue["capacity"]
            sums["waiting"] += queue["waiting"]
            sums["stuck"] += queue["stuck"]
    features = {name: None for report in reports for name in report["of_features"]}
    all_queues = {name: None for report in reports for name in report["jobs"]}
    partitions = {name: None for report in reports for name in report["partitions"]}
    return HealthReport(
        processes=sum(report["processes"] for report in reports),
        state=state,
        stale="; ".join(filter(None, (report["stale"] for report in reports))),
        cut_off="; ".join(filter(None, (report["cut_off"] for report in reports))),
        oldest_s=max((report["oldest_s"] for report in reports), default=0.0),
        queues=queues,
        pools=pools,
        counts={name: sum(report["counts"].get(name, 0) for report in reports) for name in COUNTERS},
        jobs={name: sum_of(report["jobs"].get(name, {}) for report in reports) for name in all_queues},
        running={name: oldest(report["running"].get(name, []) for report in reports) for name in queues},
        of_features={name: _summed(report["of_features"].get(name, {}) for report in reports) for name in features},
        partitions={
            name: merged(state, [report["partitions"][name] for report in reports if name in report["partitions"]])
            for name in partitions
        },
        terms=_terms(reports),
    )


def _summed(figures: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for counts in figures:
        for name, count in counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _terms(reports: Iterable[HealthReport]) -> dict[str, TermReport]:
    found: dict[str, TermReport] = {}
    for report in reports:
        for name, term in report["terms"].items():
            known = found.get(name, term)
            newest = term if term["epoch"] >= known["epoch"] else known
            here = term["here"] + (known["here"] if name in found else 0)
            found[name] = {**newest, "here": here}
    return found


def in_words(report: HealthReport) -> str:
    """One line for people."""
    parts: list[HealthReport] = [report, *report["partitions"].values()]
    standing_by = [_standby(named) for part in parts if part["state"] == STANDBY for named in part["terms"].items()]
    if report["state"] == STANDBY:
        return report["stale"] or "; ".join(standing_by)
    busy = sum(queue["busy"] for part in parts for queue in part["queues"].values())
    capacity = sum(row["capacity"] for part in parts for row in (*part["queues"].values(), *part["pools"].values()))
    trouble = report["stale"] or report["cut_off"] or all_stuck(report)
    queues = [
        *report["queues"],
        *(f"{name}/{queue}" for name, part in report["partitions"].items() for queue in part["queues"]),
    ]
    line = f"{report['state']}, {busy} of {capacity} threads busy, queues {', '.join(queues)}"
    return "; ".join([line, *standing_by, *([trouble] if trouble else [])])


def _standby(named: tuple[str, TermReport]) -> str:
    partition, term = named
    of = f"partition {partition}: " if partition else ""
    return (
        f"{of}standby of {term['holder']}, epoch {term['epoch']}" if term["holder"] else f"{of}standby, no leader yet"
    )
