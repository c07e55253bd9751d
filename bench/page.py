"""Writes docs/benchmarks.md, the page of the bars beside it, and the pictures, all from the figures of the runs.

The prose here says how something is measured, never what came of it: each figure on a page is taken from a record.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import pictures
from bench.bars.latency import MOST_S_A_ROUND, STAMPS_A_ROUND
from bench.bars.throughput import NAP_THREADS, THREADS
from bench.measure import LEAST_COST_S, WARM_UP_SHARE, WINDOW_S
from bench.pictures import DARK, LIGHT, Picture
from bench.report import Record, Results, Row, Table
from bench.systems import ALL, BARE, COMMANDS, OURS, PEERS_OF_OURS, TRANSPORT

PAGE, BARS_PAGE, FIGURES = "benchmarks.md", "benchmarks-bars.md", "benchmarks.json"

HEADINGS = {
    "drain": "Throughput and CPU",
    "sleep": "Jobs that wait",
    "latency": "Latency",
    "footprint": "Memory and start",
    "memory": "Memory in Redis",
    "payload": "Large payloads",
    "durable": "Append-only file",
    "backlog": "Backlog",
    "queues": "Many queues",
    "pools": "Pools",
    "processes": "Two processes",
    "fairness": "Fairness",
    "promotion": "Scheduled jobs",
    "enqueue": "Enqueueing",
    "shapes": "Unique jobs, batches and chains",
    "timers": "Timers of the delay queue",
    "rabbitmq": "RabbitMQ",
    "serial": "Serial mode",
}

# The bar, and what is drawn from its first table.
PICTURES: dict[str, tuple[str, Callable[[Table], Picture], str]] = {
    "drain": ("bench-throughput", pictures.throughput, "Jobs a second by system"),
    "latency": ("bench-latency", pictures.latency, "How late a job starts, by system"),
    "backlog": ("bench-backlog", pictures.backlog, "Jobs a second by backlog"),
}
BUSY = 0.5  # from this load for each core on, the page warns
ABOUT_EQUAL, TENS = 1.05, 20
OPENING = ("drain", "latency")  # their pictures stand at the top

INTRO = """\
# Benchmarks

How fast goworkers-py is beside other job systems, and what a job costs in processor time and memory. The systems keep
their jobs in Redis and, in a part of its own, in RabbitMQ. The figures of a table are of one machine: compare them with
each other, and not with those of another one.

"""

# The meaning of a column, by how its heading begins.
READING = {
    "no-op": """\
- **No-op jobs/s** is the overhead of a system: the jobs do nothing, ten at once, until a full queue is empty.
""",
    "CPU": """\
- **CPU µs/job** is the processor time that one such job takes, in all processes of the worker together and in the Redis
  server. With 1,000 jobs a second, 100 µs a job is a tenth of a core.
""",
    "5 ms": """\
- **5 ms jobs/s** is for jobs that wait 5 ms each, as for a database, 25 at once: at most 5,000 a second.
""",
    "start": """\
- **Start** is the time from just before the push to the first line of the job, on an idle system: the median, and the
  99th percentile.
""",
    "memory": """\
- **Memory** is that of an idle worker with ten threads.
""",
}

CAPTIONS = {
    "drain": f"""\
`{TRANSPORT.name}` is no job system but a ceiling: one Python process that moves payloads from the queue to an
in-progress list and out of it again, with one script call for each hundred, each way. It runs nothing.
""",
    "latency": f"""\
`{BARE.name}` is no job system: one Python thread that does BRPOPLPUSH, runs the job, and LREM. The scale is
logarithmic. A picture takes the jobs of all rounds together, a table the median of the rounds.
""",
}

RUNNING = """\
## How to run it

```console
$ make bench          # all of it; writes this page, its pictures, and the figures as docs/benchmarks.json
$ make bench-quick    # ours, the ceiling and one peer, in less than a minute; writes nothing
$ make bench ARGS='--only drain,sleep,latency,footprint --docs docs'    # the table and the pictures at the top
$ make bench ARGS='--only pools,durable'    # these parts; prints their tables and writes nothing
$ .venv/bin/python bin/bench --help    # the names of all parts
```

The benchmark puts the Python peers into environments of their own, builds the Go peers if there is a `go`, and takes
the `sidekiq` on `PATH`. It starts a Redis server of its own, without persistence but for the part on the append-only
file, and a node of RabbitMQ if `rabbitmq-server` is installed, and needs Linux. A run of some parts keeps the figures
of the others, with the date of the run that measured them. [The bars](benchmarks-bars.md) that the project sets itself,
and those that it misses, are on a page for contributors.

"""

METHOD = f"""\
## How it is measured

- **In turn, in rounds.** The systems run one after the other, A B C A B C, each alone on an emptied server. The
  processes of one are ended before the next one starts. Tables show the median of the rounds, the least and the most.
- **Defaults.** Every system runs with its defaults, reliability included, with ten threads and the log level warning
  unless the table says otherwise. Where a system has no threads, the list below says what it has. Python peers are
  given the fast parser `hiredis`, which ours depends on.
- **Drain.** The queue is filled first, then the worker is started. Jobs do nothing at all and write nothing. The server
  is asked how many are left, jobs in progress included where the system keeps them there. The clock runs from the
  moment when {WARM_UP_SHARE:.0%} of the jobs are done until none is left, or {WINDOW_S:.0f} s: start-up does not count.
  Slower systems are given fewer jobs, so that all take about as long. Systems that read Sidekiq's format are given the
  same payloads.
- **CPU** is user and system time between the same two moments. That of the worker is of all its processes, those
  included that ended meanwhile. That of the server comes from `INFO cpu`, and the few looks of the benchmark are in it.
  A drain in which the worker used less than {LEAST_COST_S:g} s has no figure.
- **Append-only file.** Redis is told `appendonly yes` once the queue is full, and the worker is started once the jobs
  are in the file. The benchmark takes the size of the file at the same two moments as CPU. A drain takes a second or
  two, so it meets one sync or two.
- **Transport.** `{TRANSPORT.name}` uses scripts of a hundred, `{COMMANDS.name}` pipelines of a hundred single commands.
- **Latency.** One job at a time on an otherwise idle system, each some time after the last one ran; the time is chosen
  at random, so that it does not keep step with a system that polls. The producer notes the monotonic clock just before
  the push, the job in its first line; on Linux that clock is the same for all processes and languages. A round has at
  most {STAMPS_A_ROUND} jobs and ends after {MOST_S_A_ROUND:g} s, so there are few jobs of a system that polls.
- **Memory and processor use** are those of all processes of a worker together, pages that they share counted for each.

"""

BARS_INTRO = f"""\
# The bars of the benchmark

For contributors: the speed that the project demands of itself, and what came of it. `make bench` writes this page
together with [the benchmarks]({PAGE}), which say how each figure is measured.

Ratios are ours over theirs. A bar that is missed by less than the rounds differ may be met by the next run.

"""


def write_pages(results: Results, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FIGURES).write_text(results.as_json(), "utf-8")
    (folder / PAGE).write_text(page(results), "utf-8")
    (folder / BARS_PAGE).write_text(bars_page(results), "utf-8")
    for bar, (name, draw, _) in PICTURES.items():
        if _is_drawn(results, bar):
            picture = draw(_tables(results, bar)[0])
            (folder / f"{name}.svg").write_text(picture.svg(LIGHT), "utf-8")
            (folder / f"{name}-dark.svg").write_text(picture.svg(DARK), "utf-8")


def page(results: Results) -> str:
    main = results.record_of("drain") or results.records[-1]
    parts = [INTRO, *_opening(results, main), *_conditions(main), RUNNING, *_sections(results, main), METHOD]
    return "".join([*parts, *_systems(main), *_other_runs(results, main)])


# --- the opening


def _opening(results: Results, main: Record) -> Iterator[str]:
    shown = [
        (record, table)
        for bar in HEADINGS
        for record, table in _columns(results, bar)
        if record.machine == main.machine
    ]
    rates = main.of("drain")
    if rates:
        yield _opening_table(main, rates[0], shown)
        yield "The best figure of each column is bold.\n\n"
        dates = dict.fromkeys(record.date for record, _ in shown if record is not main)
        if dates:
            yield f"\\* measured in [another run](#other-runs) on the same machine: {'; '.join(dates)}.\n\n"
        columns = [table.column for _, table in shown]
        yield from (text for head, text in READING.items() if any(column.startswith(head) for column in columns))
        yield "\n"
    for bar in OPENING:
        if _is_drawn(results, bar):
            yield f"{_picture(bar)}{CAPTIONS[bar]}\n"


def _columns(results: Results, bar: str) -> list[tuple[Record, Table]]:
    record = results.record_of(bar)
    return [(record, table) for table in record.of(bar) if table.column] if record else []


def _opening_table(main: Record, rates: Table, shown: list[tuple[Record, Table]]) -> str:
    labels = {one.name for one in (OURS, *PEERS_OF_OURS)}
    order = sorted((row for row in rates.rows if row.label in labels), key=lambda row: -row.median)
    heads = [table.column + (" \\*" if record is not main else "") for record, table in shown]
    lines = [["", *heads]]
    lines += [[_named(row.label, main), *(_cell(table, row.label, labels) for _, table in shown)] for row in order]
    return _markdown(lines) + "\n"


def _named(label: str, record: Record) -> str:
    system = next(one for one in ALL if one.name == label)
    name = f"**{label}**" if system is OURS else label
    return f"{name} {record.versions[label].split()[0]} ({system.language})"


def _cell(table: Table, label: str, among: set[str]) -> str:
    row = table.row(label)
    if row is None:
        return "-"
    best = (max if table.more_is_better else min)(each.median for each in table.rows if each.label in among)
    figure = table.figure(row.median)
    return f"**{figure}**" if row.median == best else figure


def _picture(bar: str) -> str:
    name, _, description = PICTURES[bar]
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{name}-dark.svg">\n'
        f'  <img alt="{description}" src="{name}.svg">\n</picture>\n\n'
    )


# --- on what, with which settings


def _conditions(main: Record) -> Iterator[str]:
    rounds, jobs = main.settings["rounds"], main.settings["jobs"]
    measured = {row.label for table in main.of("drain")[:1] for row in table.rows}
    missing = [one.name for one in PEERS_OF_OURS if one.name not in measured]
    yield "## On what this was measured\n\n"
    yield f"- **When:** {main.date}.\n"
    yield f"- **Machine:** {_machine(main)}.{_load(main)}\n"
    yield f"- **Threads:** {THREADS}; {NAP_THREADS} for the jobs that wait.\n"
    yield f"- **Jobs:** {jobs:,} no-op jobs a round for goworkers-py, fewer for slower systems.\n"
    yield f"- **How often:** {'one round' if rounds == 1 else f'{rounds} rounds, of which the figures are medians'}.\n"
    yield f"- **Noise:** {_noise(main)}\n"
    yield f"- **Not measured:** {', '.join(missing)}.\n" if missing and measured else ""
    yield "- **Versions and settings** of the systems are [at the end](#the-systems).\n\n"


def _load(record: Record) -> str:
    load = record.settings.get("load")
    if load is None:
        return ""
    busy = " Other programs were at work, so figures of time are not to be trusted."
    return f" The load average at the start was {load:g}.{busy if load > BUSY * record.machine['cores'] else ''}"


def _machine(record: Record) -> str:
    machine = record.machine
    return (
        f"{machine['cores']} cores of {machine['processor']}, {machine['system']}, Python {machine['python']}, "
        f"Redis {machine['redis']}"
    )


def _noise(main: Record) -> str:
    rates = main.of("drain")
    spreads = {row.label: row.spread for row in rates[0].rows if len(row.values) > 1} if rates else {}
    if not spreads:
        return "unknown, for a single round says nothing of it."
    widest = max(spreads, key=lambda label: spreads[label])
    ours = f"{spreads[OURS.name]:.0%} for goworkers-py, " if OURS.name in spreads else ""
    return (
        "from the slowest round to the fastest, no-op jobs/s differ by this share of the median: "
        f"{ours}{statistics.median(spreads.values()):.0%} for the typical system, {spreads[widest]:.0%} at most "
        f"({widest}). A smaller difference between two systems says nothing."
    )


# --- the sections


def _sections(results: Results, main: Record) -> Iterator[str]:
    for bar, heading in HEADINGS.items():
        record = results.record_of(bar)
        if record is not None:
            yield f"## {heading}\n\n"
            yield "" if record is main else f"*Measured in [another run](#other-runs): {record.date}.*\n\n"
            yield _picture(bar) if _is_drawn(results, bar) and bar not in OPENING else ""
            yield from _section(record.of(bar))


def _section(tables: list[Table]) -> Iterator[str]:
    said = ""
    for table in tables:
        if table.how != said:
            yield f"{table.how}\n\n"
        said = table.how
        yield f"**{table.title[:1].upper()}{table.title[1:]}**\n\n{_table(table)}\n"
        for name, reason in table.left_out.items():
            yield f"Left out: {name} ({reason}).\n\n"


def _table(table: Table) -> str:
    ours = table.row(OURS.name)
    lines = [["", table.unit, "min..max", *(["goworkers-py is"] if ours else [])]]
    for row in table.rows:
        against = [_against(ours, row, table.more_is_better)] if ours else []
        lines.append([row.label, table.figure(row.median), table.span(row), *against])
    return _markdown(lines)


def _against(ours: Row, row: Row, more_is_better: bool) -> str:
    if row is ours or not row.median or not ours.median:
        return ""
    better = ours.median / row.median if more_is_better else row.median / ours.median
    times = max(better, 1 / better)
    if times < ABOUT_EQUAL:
        return "about equal"
    return f"{times:,.{0 if times > TENS else 1}f}x {'better' if better > 1 else 'worse'}"


def _systems(main: Record) -> Iterator[str]:
    lines = [["", "language", "version", "how it is run"]]
    for system in ALL:
        if system.name in main.versions:
            about = system.about.format(threads=10)
            lines.append([system.name, system.language, main.versions[system.name], about])
    yield f"## The systems\n\n{_markdown(lines, right=0)}"


def _other_runs(results: Results, main: Record) -> Iterator[str]:
    others = [record for record in results.records if record is not main]
    yield "\n## Other runs\n\n" if others else ""
    for record in others:
        rounds, jobs = record.settings["rounds"], record.settings["jobs"]
        versions = [f"{name} {told}" for name, told in record.versions.items() if told != main.versions.get(name, "")]
        yield (
            f"- **{record.date}:** {_machine(record)}.{_load(record)} Rounds: {rounds}. "
            f"Jobs for goworkers-py: {jobs:,}. Versions that differ: {', '.join(versions) or 'none'}.\n"
        )


# --- the page of the bars


def bars_page(results: Results) -> str:
    lines = [["", "", "", "min..max", "ratio", "bar", ""]]
    for bar in HEADINGS:
        for table in _tables(results, bar):
            lines += _judged(table)
    dates = "; ".join(record.date for record in results.records)
    return f"{BARS_INTRO}Measured {dates}: {results.summary()}.\n\n{_markdown(lines, right=0)}"


def _judged(table: Table) -> Iterator[list[str]]:
    for row in table.rows:
        if row.met is not None:
            figures = [f"{table.figure(row.median)} {table.unit}", table.span(row), row.ratio, row.bar]
            verdict = "pass" if row.met else "**FAIL**"
            yield [f"{table.bar}: {table.title}", row.label, *figures, f"{verdict}{row.note and f' ({row.note})'}"]


# --- pieces


def _tables(results: Results, bar: str) -> list[Table]:
    record = results.record_of(bar)
    return record.of(bar) if record else []


def _is_drawn(results: Results, bar: str) -> bool:
    tables = _tables(results, bar)
    return bar in PICTURES and bool(tables) and bool(tables[0].rows)


def _markdown(lines: list[list[str]], right: int = 1) -> str:
    """A table; from the second column on, figures stand at the right."""
    rules = ["---", *(["--:" if right else "---"] * (len(lines[0]) - 1))]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in [escaped[0], rules, *escaped[1:]])
