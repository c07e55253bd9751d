"""The command line of bin/bench."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from bench.bars import BARS, Bar
from bench.bars.throughput import drain
from bench.machine import machine
from bench.page import FIGURES, write_pages
from bench.report import Record, Results
from bench.run import Run
from bench.server import OwnRedis
from bench.systems import ALL, ASYNQ, DRAMATIQ, GO_WORKERS, HUEY, OURS, SIDEKIQ, TRANSPORT

JOBS, QUICK_JOBS = 60_000, 30_000
ROUNDS = 3
# The one that a quick run measures beside ours: the first that can be had.
QUICK_PEERS = (SIDEKIQ, GO_WORKERS, ASYNQ, DRAMATIQ, HUEY)


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, _end)
    if options.results:
        results = _read(options.results)
        if options.docs:
            write_pages(results, options.docs)
    else:
        earlier = _earlier(options.docs)
        record = _record(options)
        try:
            _measure(options, record, earlier)
        except KeyboardInterrupt:
            print("\nbench: interrupted", file=sys.stderr)
            return 130
        results = Results([record])
    if len(results.tables) > 1:
        print(results.summary())
    return 1 if any(set(table.vital) & set(table.left_out) for table in results.tables) else 0


def _end(*_: object) -> NoReturn:
    sys.exit(143)  # through the ends of all `with`s


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    names = [system.name for system in ALL]
    parser = argparse.ArgumentParser(prog="bench", description="Measures goworkers-py beside its peers.")
    add = parser.add_argument
    add("--quick", action="store_true", help="ours, the transport ceiling and one peer: under a minute")
    add("--only", type=_names_of(list(BARS)), default=[], metavar="BAR[,BAR]", help=", ".join(BARS))
    add("--systems", type=_names_of(names), default=[], metavar="NAME[,NAME]", help=", ".join(names))
    add("--rounds", type=_at_least(1), default=ROUNDS, metavar="N", help=f"default: {ROUNDS}")
    add("--jobs", type=_at_least(100), metavar="N", help=f"for ours: {JOBS:,}; others get fewer, by their speed")
    add("--json", type=Path, metavar="FILE", help="write the figures there after each bar")
    add("--docs", type=Path, metavar="FOLDER", help="write pages, pictures and figures there after each bar")
    add("--from", dest="results", type=Path, nargs="+", metavar="FILE", help="measure nothing: take these figures")
    options = parser.parse_args(words)
    options.jobs = options.jobs or (QUICK_JOBS if options.quick else JOBS)
    return options


def _names_of(known: list[str]) -> Any:
    def names(text: str) -> list[str]:
        given = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {unknown[0]!r}: there are {', '.join(known)}")
        return given

    return names


def _at_least(lowest: int) -> Any:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < lowest:
            raise argparse.ArgumentTypeError(f"must be a number from {lowest} on")
        return int(text)

    return count


def _read(files: Sequence[Path]) -> Results:
    """Of several files with the same bar, the last one's counts."""
    results = Results()
    for file in files:
        for record in Results.from_json(file.read_text("utf-8")).records:
            results = results.with_record(record)
    for table in results.tables:
        print(table.text(), end="\n\n")
    return results


def _earlier(docs: Path | None) -> Results:
    """The figures of the pages: a run of some bars keeps the figures of the others, with their date."""
    figures = docs / FIGURES if docs else None
    return Results.from_json(figures.read_text("utf-8")) if figures and figures.exists() else Results()


def _record(options: argparse.Namespace) -> Record:
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    load = round(os.getloadavg()[0], 2)
    return Record(date, machine(), {"rounds": options.rounds, "jobs": options.jobs, "load": load})


def _measure(options: argparse.Namespace, record: Record, earlier: Results) -> None:
    with OwnRedis() as server:
        run = Run(server, options.rounds, options.jobs, options.systems)
        record.machine["redis"] = server.version
        for bar in _bars(options, run).values():
            tables = bar(run)
            record.versions = {system.name: system.version for system in ALL if system.name in run.versions}
            record.tables += tables
            for table in tables:
                print(table.text(), end="\n\n", flush=True)
            if options.json:
                options.json.write_text(Results([record]).as_json(), "utf-8")
            if options.docs:
                write_pages(earlier.with_record(record), options.docs)


def _bars(options: argparse.Namespace, run: Run) -> dict[str, Bar]:
    if options.quick and not options.only:
        peer = next((peer for peer in QUICK_PEERS if run.available(peer)), None)
        return {"drain": partial(drain, systems=(OURS, TRANSPORT, *([peer] if peer else [])))}
    return {name: bar for name, bar in BARS.items() if not options.only or name in options.only}


if __name__ == "__main__":
    sys.exit(main())
