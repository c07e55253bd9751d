"""The command line of bin/bench."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from bench.bars import BARS, Bar
from bench.bars.throughput import drain
from bench.page import write_page
from bench.report import Results
from bench.run import Run
from bench.server import OwnRedis
from bench.systems import ALL, ASYNQ, DRAMATIQ, GO_WORKERS, HUEY, OURS, SCRIPTED, SIDEKIQ, TRANSPORT

JOBS, QUICK_JOBS = 60_000, 30_000
ROUNDS = 3
# The one that a quick run measures beside ours: the first that can be had.
QUICK_PEERS = (SIDEKIQ, GO_WORKERS, ASYNQ, DRAMATIQ, HUEY)


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, _end)
    if options.results:
        results = _read(options.results)
    else:
        results = Results(_machine())
        try:
            _measure(options, results)
        except KeyboardInterrupt:
            print("\nbench: interrupted", file=sys.stderr)
            return 130
    if len(results.tables) > 1:
        print(results.summary())
    if options.docs:
        write_page(results, options.docs)
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
    add("--jobs", type=_at_least(100), metavar="N", help=f"default: {JOBS:,}; others get fewer, by their speed")
    add("--json", type=Path, metavar="FILE", help="write the figures there after each bar")
    add("--docs", type=Path, metavar="FOLDER", help="write benchmarks.md and its pictures there")
    add("--from", dest="results", type=Path, nargs="+", metavar="FILE", help="measure nothing: take these figures")
    return parser.parse_args(words)


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
    read = [Results.from_json(json.loads(file.read_text("utf-8"))) for file in files]
    for more in read[1:]:
        read[0].merge(more)
    for table in read[0].tables:
        print(table.text(), end="\n\n")
    return read[0]


def _measure(options: argparse.Namespace, results: Results) -> None:
    with OwnRedis() as server:
        run = Run(server, options.rounds, options.jobs or (QUICK_JOBS if options.quick else JOBS), options.systems)
        results.machine["redis"] = server.version
        for name, bar in _bars(options, run).items():
            tables = bar(run)
            results.machine["systems"] = {system.name: system.version for system in ALL if system.name in run.versions}
            results.replace(name, tables)
            for table in tables:
                print(table.text(), end="\n\n", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results.as_json(), indent=1) + "\n", "utf-8")


def _bars(options: argparse.Namespace, run: Run) -> dict[str, Bar]:
    if options.quick and not options.only:
        peer = next((peer for peer in QUICK_PEERS if run.available(peer)), None)
        return {"drain": partial(drain, systems=(OURS, TRANSPORT, SCRIPTED, *([peer] if peer else [])))}
    return {name: bar for name, bar in BARS.items() if not options.only or name in options.only}


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
