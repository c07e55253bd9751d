"""How late a job starts on an idle system, and how that is spread."""

from __future__ import annotations

from functools import partial

from bench.measure import latencies_ns
from bench.report import Row, Table, percentile
from bench.run import Run
from bench.systems import BARE, OURS, PEERS_OF_OURS

STAMPS_A_ROUND, MOST_S_A_ROUND = 150, 6.0
JOBS_A_STAMP = 200  # of --jobs, so that a small run is short here too
TIMES_BARE = 1.5
SHARES = (0.01, 0.05, *(number / 20 for number in range(2, 19)), 0.95, 0.99, 1.0)


def latency(run: Run) -> list[Table]:
    systems = (OURS, BARE, *PEERS_OF_OURS)
    how = "From just before the push to the first line of the job, one job at a time on an otherwise idle system."
    medians = Table("latency", "idle, enqueue to first line, p50", "ms", how, digits=2, column="start p50, ms")
    tails = Table("latency", "idle, enqueue to first line, p99", "ms", how, digits=2, column="start p99, ms")
    count = max(5, min(STAMPS_A_ROUND, run.jobs // JOBS_A_STAMP))
    measures = {
        one.name: partial(latencies_ns, run.server, one, count, MOST_S_A_ROUND) for one in run.available(*systems)
    }
    found = run.in_turn(medians, measures)
    medians.left_out |= run.reasons(systems)
    medians.rows = [row_of(label, rounds, 0.5) for label, rounds in found.items()]
    tails.rows = [row_of(label, rounds, 0.99) for label, rounds in found.items()]
    _judge(medians, tails)
    medians.extra["spread_ms"] = {label: _spread(rounds) for label, rounds in found.items()}
    return [medians, tails]


def row_of(label: str, rounds: list[list[int]], share: float) -> Row:
    return Row(label, [percentile(stamps, share) / 1e6 for stamps in rounds if stamps])


def _spread(rounds: list[list[int]]) -> list[tuple[float, float]]:
    """Share of the jobs, and the latency that they do not exceed."""
    everything = [stamp for stamps in rounds for stamp in stamps]
    return [(share, percentile(everything, share) / 1e6) for share in SHARES]


def _judge(medians: Table, tails: Table) -> None:
    for table in (medians, tails):
        ours = table.row(OURS.name)
        for row in table.rows:
            if ours and row is not ours:
                row.ratio = f"{ours.median / row.median:.2f}x"
    ours, bare = medians.row(OURS.name), medians.row(BARE.name)
    if ours and bare:
        ratio = ours.median / bare.median
        medians.judge(bare.label, f"{ratio:.2f}x", f"<= {TIMES_BARE}x", ratio <= TIMES_BARE)
    ours = tails.row(OURS.name)
    for row in tails.rows:
        if ours and row.label not in (OURS.name, BARE.name):
            tails.judge(row.label, row.ratio, "< 1x", ours.median < row.median)
