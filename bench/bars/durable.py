"""Drains a queue while Redis writes an append-only file: rate, processor time and growth, by the size of the jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from bench.bars.throughput import THREADS, hold_against
from bench.measure import Drained, drain
from bench.report import Table
from bench.run import Run, rows, rows_of
from bench.systems import ASYNQ, GO_WORKERS, OURS, SIDEKIQ

SMALL = "165 bytes"
# The size of a job, the characters of its argument, and how much fewer jobs than of the small ones.
SIZES = ((SMALL, 10, 1.0), ("10 KB", 10_000, 0.4), ("100 KB", 100_000, 0.08))
SYSTEMS = (OURS, SIDEKIQ, GO_WORKERS, ASYNQ)
WITHOUT = "{}, no file"
FILE_BYTES, SERVER_US = 200, 7.0
HOW = (
    "As drain, with `appendonly yes` and `appendfsync everysec`, and each time the same without a file. The file is "
    "begun once the queue is full, so it grows by what fetching and settling write, and no push is in it."
)

Found = Mapping[str, Sequence[Drained]]


def durable(run: Run) -> list[Table]:
    return [table for name, size, share in SIZES for table in _with_jobs_of(run, name, size, share)]


def _with_jobs_of(run: Run, name: str, size: int, share: float) -> list[Table]:
    rates = Table("durable", f"no-op jobs of {name}, {THREADS} threads, with the file", "jobs/s", HOW)
    measures = {}
    for one in run.available(*SYSTEMS):
        once = partial(drain, run.server, one, run.count_for(one, share), "noop", ["x" * size])
        measures |= {one.name: partial(once, durable=True), WITHOUT.format(one.name): once}
    found = run.in_turn(rates, measures)
    rates.left_out |= run.reasons(SYSTEMS)
    with_file = {one.name: found[one.name] for one in SYSTEMS if one.name in found}
    rates.rows = rows_of(with_file, "rate")
    for one in SYSTEMS[1:]:
        hold_against(rates, one.name)
    return [table for table in (rates, _shares(name, found), *_costs(name, with_file)) if table.rows]


def _shares(name: str, found: Found) -> Table:
    pairs = {one.name: (found.get(one.name, []), found.get(WITHOUT.format(one.name), [])) for one in SYSTEMS}
    percents = {
        label: [100 * one.rate / other.rate for one, other in zip(with_file, without, strict=False)]
        for label, (with_file, without) in pairs.items()
    }
    shown = rows({label: values for label, values in percents.items() if values})
    # The unit ends as a rate does: more is better.
    return Table("durable", f"{name}: share of the rate without the file", "% of jobs/s", HOW, shown)


def _costs(name: str, with_file: Found) -> list[Table]:
    server = Table("durable", f"{name}: processor time of Redis a job", "µs", HOW, rows_of(with_file, "server_us"), 1)
    written = Table("durable", f"{name}: growth of the file a job", "bytes", HOW, rows_of(with_file, "file_bytes"))
    used, grown = server.row(OURS.name), written.row(OURS.name)
    if used and name == SMALL:
        server.judge(used.label, "", f"< {SERVER_US:g} µs", used.median < SERVER_US)
    if grown:
        written.judge(grown.label, "", f"< {FILE_BYTES} bytes", grown.median < FILE_BYTES)
    return [server, written]
