"""Writes a health report in Prometheus' text format."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from itertools import accumulate

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.core.version import __version__
from goworkers_py.features import BY_NAME
from goworkers_py.observe.health_report import HealthReport, not_live, not_ready
from goworkers_py.observe.run_stats import BOUNDS_S, RESULTS, RUN, RUN_SUM, WAIT, WAIT_SUM, Row, sum_of
from goworkers_py.web.gauges import OfFleet, OfProcesses

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = dict[str, str]
Sample = tuple[str, Labels, float]  # suffix of the metric's name, labels, value

_COUNTS = {
    "recovered": ("recovered_jobs_total", "jobs recovered from dead processes"),
    "poison": ("poison_jobs_total", "jobs buried because they killed their processes"),
    "stuck": ("stuck_jobs_total", "jobs that did not end at their time limit"),
    "lost_leases": (
        "lost_leases_total",
        "lost leases: jobs finished or interrupted here after they were recovered elsewhere; they may have run twice",
    ),
    "settle_retries": ("settle_retries_total", "settlements that had to be tried again"),
    "outage_seconds": ("outage_seconds_total", "seconds during which the broker did not serve"),
    **{count: metric for feature in BY_NAME for count, metric in feature.counters.items()},
}
_BUCKETS = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]


def exposition(report: HealthReport, stats: Stats | None) -> str:
    """`stats` is None while the broker does not answer."""
    metrics = [_of_build(), *_of_jobs(report), *_of_processes(report), *_of_server(stats)]
    return "".join(line for metric in metrics for line in metric)


def _of_build() -> Iterator[str]:
    labels = {"version": __version__, "python": platform.python_version()}
    return _metric(
        "build_info", "gauge", "always 1; the labels are the versions of pyworkers and Python", [("", labels, 1)]
    )


def _parts(report: HealthReport) -> list[tuple[Labels, HealthReport]]:
    """The report of the main partition and those of the others, each with its labels."""
    return [({}, report), *(({"partition": name}, part) for name, part in report["partitions"].items())]


def _of_jobs(report: HealthReport) -> Iterator[Iterator[str]]:
    rows = [
        ({**of, "queue": queue, "class": name or "(none)"}, row)
        for of, part in _parts(report)
        for queue, rows in part["jobs"].items()
        for name, row in rows.items()
    ]
    yield _metric(
        "jobs_total",
        "counter",
        "runs of jobs by outcome",
        [
            ("", {**labels, "result": result}, count)
            for labels, row in rows
            for result, count in zip(RESULTS, row[:RUN_SUM], strict=True)
        ],
    )
    ran = [sample for labels, row in rows for sample in _histogram(labels, row, RUN, RUN_SUM)]
    yield _metric("job_run_seconds", "histogram", "how long runs took", ran)
    by_queue = [
        ({**of, "queue": queue}, sum_of({"": row} for row in rows.values()).get(""))
        for of, part in _parts(report)
        for queue, rows in part["jobs"].items()
    ]
    waited = [
        sample for labels, row in by_queue if row is not None for sample in _histogram(labels, row, WAIT, WAIT_SUM)
    ]
    yield _metric("queue_latency_seconds", "histogram", "how long jobs had waited when they began", waited)


def _histogram(labels: Labels, row: Row, start: int, sum_at: int) -> Iterator[Sample]:
    counts = list(accumulate(row[start : start + len(_BUCKETS)]))
    for bound, count in zip(_BUCKETS, counts, strict=True):
        yield "_bucket", {**labels, "le": bound}, count
    yield "_sum", labels, row[sum_at]
    yield "_count", labels, counts[-1]


def _of_processes(report: HealthReport) -> Iterator[Iterator[str]]:
    yield _one("live", "gauge", "0 when a loop stands still", not not_live(report))
    yield _one("ready", "gauge", "1 while jobs are fetched", not not_ready(report))
    yield _one("processes", "gauge", "number of processes that these figures cover", report["processes"])
    parts = _parts(report)
    oldest: list[Sample] = [("", of, part["oldest_s"]) for of, part in parts]
    yield _metric("oldest_job_seconds", "gauge", "for how long the oldest running job has run", oldest)
    for what, name, about in (
        ("busy", "busy_threads", "threads that run a job"),
        ("capacity", "threads", "worker threads"),
        ("waiting", "prefetched_jobs", "fetched jobs that wait for a thread"),
        ("stuck", "stuck_threads", "threads that a stuck job holds, without those that a new worker has replaced"),
    ):
        samples: list[Sample] = [
            ("", {**of, "queue": queue}, row[what])  # type: ignore[literal-required]
            for of, part in parts
            for queue, row in part["queues"].items()
        ]
        if what == "capacity":
            samples = [sample for sample in samples if sample[2]]
            samples += [
                ("", {**of, "pool": name}, pool["capacity"])
                for of, part in parts
                for name, pool in part["pools"].items()
            ]
        yield _metric(name, "gauge", about, samples)
    for gauge in _gauges_of_features():
        if isinstance(gauge, OfProcesses):
            yield _of_feature(gauge, [(of, gauge.read(part)) for of, part in parts])
    for count, (name, about) in _COUNTS.items():
        yield _metric(name, "counter", about, [("", of, part["counts"][count]) for of, part in parts])


def _of_server(stats: Stats | None) -> Iterator[Iterator[str]]:
    others = stats.partitions if stats is not None else {}
    up: list[Sample] = [("", {}, stats is not None)]
    up += [("", {"partition": name}, part is not None) for name, part in others.items()]
    yield _metric("broker_up", "gauge", "1 when the broker answered just now", up)
    yield _one("redis_up", "gauge", "the old name of pyworkers_broker_up", stats is not None)
    if stats is None:
        return
    parts: list[tuple[Labels, Stats]] = [({}, stats)]
    parts += [({"partition": name}, part) for name, part in others.items() if part is not None]
    for field, name, about in (
        ("scheduled", "scheduled_jobs", "scheduled jobs"),
        ("parked", "parked_jobs", "jobs that wait in a line"),
        ("outbox", "outbox_jobs", "pushes that wait to be relayed to another broker"),
        ("retries", "retry_jobs", "jobs that wait for a retry"),
        ("dead", "dead_jobs", "dead jobs"),
        ("in_progress", "in_progress_jobs", "jobs in progress in all processes of the fleet"),
    ):
        yield _metric(name, "gauge", about, [("", of, getattr(part, field)) for of, part in parts])
    for gauge in _gauges_of_features():
        if isinstance(gauge, OfFleet):
            yield _of_feature(gauge, [(of, gauge.read(part)) for of, part in parts])
    queues = [({**of, "queue": queue.name}, queue) for of, part in parts for queue in part.queues]
    sizes = [("", labels, float(queue.size)) for labels, queue in queues]
    yield _metric("queue_size", "gauge", "jobs that wait in the queue", sizes)
    paused = [("", labels, float(queue.paused)) for labels, queue in queues]
    yield _metric("queue_paused", "gauge", "1 while the queue is paused", paused)
    ages = [("", labels, queue.latency_s) for labels, queue in queues]
    yield _metric("queue_oldest_seconds", "gauge", "how long the next job of the queue has waited", ages)


def _gauges_of_features() -> Iterator[OfProcesses | OfFleet]:
    return (gauge for feature in BY_NAME for gauge in feature.figures().gauges)


def _of_feature(gauge: OfProcesses | OfFleet, parts: list[tuple[Labels, Mapping[str, float]]]) -> Iterator[str]:
    samples: list[Sample] = [
        ("", {**of, gauge.label: name} if gauge.label else of, value)
        for of, values in parts
        for name, value in sorted(values.items())
    ]
    return _metric(gauge.name, "gauge", gauge.about, samples)


def _one(name: str, kind: str, about: str, value: float) -> Iterator[str]:
    return _metric(name, kind, about, [("", {}, value)])


def _metric(name: str, kind: str, about: str, samples: list[Sample]) -> Iterator[str]:
    yield f"# HELP pyworkers_{name} {about}\n# TYPE pyworkers_{name} {kind}\n"
    for suffix, labels, value in samples:
        written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"pyworkers_{name}{suffix}{f'{{{written}}}' if written else ''} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
