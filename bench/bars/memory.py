"""Measures the memory that Redis needs for the entries of each feature, beside asynq where that has the feature."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.entries import HOST, LINKS, OWN, PLAIN, SHARED, TOGETHER, Entries
from bench.measure import Site
from bench.programs import Failed
from bench.report import Row, Table
from bench.run import Run, rows
from bench.systems import ASYNQ, OURS

COUNT = 1_000_000
USUAL_JOBS = 60_000
THERE = 0.99  # the first job of a line is in its queue


def memory(run: Run) -> list[Table]:
    if not run.available(OURS):
        return []
    run = replace(run, rounds=1)  # another one would find the same
    beside = {feature: _beside_asynq(run, feature) for feature in SHARED}
    return [*beside.values(), _ours(run, beside)]


def _beside_asynq(run: Run, feature: str) -> Table:
    entries = SHARED[feature]
    table = Table("memory", _named(run, feature, entries[OURS]), "bytes", _how(run))
    measures = {one.name: partial(_bytes, run, entries[one]) for one in run.available(OURS, ASYNQ)}
    table.rows = rows(run.in_turn(table, measures))
    table.left_out |= run.reasons((ASYNQ,))
    ours, asynq = table.row(OURS.name), table.row(ASYNQ.name)
    if ours and asynq and feature != PLAIN:
        ratio = ours.median / asynq.median
        table.judge(asynq.label, f"{ratio:.2f}x", "< 1x", ratio < 1)
    return table


def _ours(run: Run, beside: dict[str, Table]) -> Table:
    """All features, those included that were measured beside asynq."""
    table = Table("memory", "an entry of each feature of goworkers-py", "bytes", _how(run))
    found = {each.title: each.row(OURS.name) for each in beside.values()}
    measures = {_named(run, feature, entries): partial(_bytes, run, entries) for feature, entries in OWN.items()}
    table.rows = [Row(title, row.values) for title, row in found.items() if row]
    table.rows += rows(run.in_turn(table, measures))
    return table


def _named(run: Run, feature: str, entries: Entries) -> str:
    return feature if entries.share == 1 else f"{feature}, of {_count(run, entries.share):,}"


def _count(run: Run, share: float = 1.0) -> int:
    """A number of whole groups, batches and chains."""
    return max(1, int(COUNT * share * min(1.0, run.jobs / USUAL_JOBS)) // TOGETHER) * TOGETHER


def _how(run: Run) -> str:
    return (
        f"How much `used_memory` of an empty Redis {run.server.version} with {run.server.allocator} grows by "
        f"{_count(run):,} entries, or as many as the line says, divided by their number: bytes an entry are MB a "
        "million. A job has one number as its argument, and its payload is counted too. A worker, on a machine whose "
        f"name has {len(HOST)} characters, has run the jobs of kept results, of retries, and of locks without a job; "
        f"all others wait. A group or a batch has {TOGETHER} jobs, a chain {LINKS} links."
    )


def _bytes(run: Run, entries: Entries) -> float:
    server, count = run.server, _count(run, entries.share)
    with Site(server) as site:
        before = server.used_bytes()
        entries.make(site, count)
        used = server.settled_bytes() - before
        found = int(server.client.execute_command(*entries.look)) * entries.each  # type: ignore[no-untyped-call]
        if found < count * THERE:
            raise Failed(f"{count} entries were made, and {found} are there")
        return used / count
