"""Writes docs/benchmarks.md and its pictures from the figures of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bench import pictures
from bench.measure import WARM_UP_SHARE, WINDOW_S
from bench.report import Results, Table
from bench.systems import ALL, PEERS_OF_OURS

PAGE = "benchmarks.md"

HEADINGS = {
    "drain": "Throughput",
    "processes": "Two processes",
    "sleep": "Jobs that wait",
    "latency": "Latency",
    "fairness": "Fairness",
    "payload": "Large payloads",
    "backlog": "Backlog",
    "queues": "Many queues",
    "promotion": "Scheduled jobs",
    "enqueue": "Enqueueing",
    "footprint": "Memory and start",
}

# The bar, and what is drawn from its first table.
PICTURES: dict[str, tuple[str, Callable[[Table], str], str]] = {
    "drain": ("bench-throughput.svg", pictures.throughput, "Jobs a second by system"),
    "latency": ("bench-latency.svg", pictures.latency, "Distribution of the latency by system"),
    "backlog": ("bench-backlog.svg", pictures.backlog, "Jobs a second by backlog"),
}

INTRO = """\
# Benchmarks

goworkers-py beside its peers, all measured in one run on one machine, each on the same Redis in turn. This page and its
pictures are written by `make bench`, which puts the peers into environments of their own, starts a Redis server of its
own without persistence, and takes about twenty minutes. `make bench-quick` takes less than a minute: ours, what the
transport allows, and one peer. Figures depend on the machine; ratios do so less. `bin/bench --help` lists what can be
chosen.

"""

METHOD = f"""\
## How it is measured

- **In turn, in rounds.** Within a bar the systems run one after the other, A B C A B C, each alone on an emptied
  server; its processes are ended before the next one starts. Tables show the median of the rounds, the least and the
  most.
- **Defaults.** Every system runs with its defaults, reliability included, with ten threads and the log level warning
  unless the table says otherwise. Where a system has no threads, the list below says what it has. Python peers are
  given the fast parser `hiredis`, which ours depends on.
- **Drain.** The queue is filled first, then the worker is started. Jobs do nothing at all and write nothing; how many
  are left is asked of the server every few milliseconds, jobs in progress included where the system keeps them there.
  The clock runs from the moment when {WARM_UP_SHARE:.0%} of the jobs are done until none is left, or {WINDOW_S:.0f} s:
  start-up does not count for anyone. Slower systems are given fewer jobs, so that all take about as long; those that
  read Sidekiq's format are given the same payloads.
- **Transport.** What one Python process can move to an in-progress list and out of it again, a hundred payloads at a
  time, running nothing: `transport` by pipelines of single commands, `transport-scripted` by one script call for each
  hundred, each way.
- **Latency.** One job at a time on an otherwise idle system, each some time after the last one ran; the time is chosen
  at random, so that it does not keep step with a system that polls. The producer notes the monotonic clock just before
  the push, the job in its first line; on Linux that clock is the same for all processes and languages. `bare-loop` is
  one thread that does BRPOPLPUSH, runs the job, and LREM; its push is one LPUSH.
- **Memory and processor use** are those of all processes of a worker together, pages that they share counted for each.
- **Ratios** are ours over theirs.
"""


def write_page(results: Results, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PAGE).write_text(page(results), "utf-8")
    for bar, (name, draw, _) in PICTURES.items():
        tables = results.of(bar)
        if tables and tables[0].rows:
            (folder / name).write_text(draw(tables[0]), "utf-8")


def page(results: Results) -> str:
    parts = [INTRO, _machine(results), "\n", results.summary() + ".\n\n"]
    for bar, heading in HEADINGS.items():
        if results.of(bar):
            parts += [f"## {heading}\n\n", *_section(results, bar)]
    return "".join([*parts, METHOD, "\n", *_systems(results)])


def _machine(results: Results) -> str:
    machine = results.machine
    return (
        f"Measured on {machine['date']}: {machine['cores']} cores of {machine['processor']}, {machine['system']}, "
        f"Python {machine['python']}, Redis {machine['redis']}.\n"
    )


def _section(results: Results, bar: str) -> Iterator[str]:
    tables = results.of(bar)
    if bar in PICTURES and tables[0].rows:
        name, _, description = PICTURES[bar]
        yield f"![{description}]({name})\n\n"
    said = ""
    for table in tables:
        if table.how != said:
            yield f"{table.how}\n\n"
        said = table.how
        yield f"**{table.title[:1].upper()}{table.title[1:]}**\n\n{table.markdown()}\n\n"


def _systems(results: Results) -> Iterator[str]:
    versions: dict[str, str] = results.machine["systems"]
    yield "## The systems\n\n| | version | how it is run |\n|---|---|---|\n"
    for system in ALL:
        if system.name in versions:
            yield f"| {system.name} | {versions[system.name]} | {system.about.format(threads=10)} |\n"
    missing = [system.name for system in PEERS_OF_OURS if system.name not in versions]
    if missing:
        yield f"\nNot measured here: {', '.join(missing)}.\n"
