"""Runs simulated fleets: `python -m simulation --hours 1000`. `make simulate` does so, for a million hours."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from simulation.reverts import REVERTS, take_out

if TYPE_CHECKING:
    from simulation.run import Outcome


def main() -> int:
    options = _options()
    if options.without:
        take_out(options.without)
    if options.script or options.seed is not None:
        return _one(options)
    return _many(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("simulation", description=__doc__)
    parser.add_argument("--hours", type=float, default=100.0, help="simulated hours in all (100)")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first run (1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="real processes (one for each processor)")
    parser.add_argument("--server", choices=("memory", "redis"), default="memory", help="the broker's (memory)")
    parser.add_argument("--seed", type=int, help="run this one only, and tell all of its complaints")
    parser.add_argument("--script", help="run this script only: the JSON that a shrunk run prints")
    parser.add_argument("--trace", help="with --seed or --script: write each step to this file")
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="with --seed or --script: look for a shorter run that fails in the same way",
    )
    names = ", ".join(repr(one.name) for one in REVERTS)
    parser.add_argument("--without", help=f"take out a mend, and stop at the first complaint: {names}")
    options = parser.parse_args()
    if (options.trace or options.shrink) and options.seed is None and not options.script:
        parser.error("--trace and --shrink are about one run: add --seed or --script")
    return options


def _one(options: argparse.Namespace) -> int:
    from simulation.run import Script, simulate
    from simulation.shrink import shrink

    script = Script.from_json(options.script) if options.script else Script.of(options.seed, options.server)
    if options.trace:
        with Path(options.trace).open("w") as file:
            outcome = simulate(script, lambda line: print(line, file=file))
    else:
        outcome = simulate(script)
    if options.shrink and outcome.complaints:
        outcome = shrink(outcome, lambda line: print(line, flush=True))
    print(outcome, *outcome.complaints, sep="\n")
    return 1 if outcome.complaints else 0


def _many(options: argparse.Namespace) -> int:
    began, failed = time.monotonic(), 0
    hours, working, steps, jobs, runs, number = 0.0, 0.0, 0, 0, 0, 0
    faults: Counter[str] = Counter()
    for outcome in _outcomes(options):
        number, hours, steps = number + 1, hours + outcome.hours, steps + outcome.steps
        working += outcome.working_hours
        jobs, runs = jobs + outcome.jobs, runs + outcome.runs
        faults.update(outcome.faults)
        if outcome.complaints:
            failed += 1
            print(f"seed {outcome.script.seed}: {outcome}", *outcome.complaints[:5], sep="\n    ", flush=True)
        if hours >= options.hours or (failed and options.without):
            break
    took_s = time.monotonic() - began
    print(
        f"{hours:,.0f} hours ({working:,.1f} without the nights) in {number:,} runs, in {took_s:.0f} s: "
        f"{jobs:,} jobs ran {runs:,} times in {steps:,} steps"
    )
    print("faults: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(faults.items())))
    print(f"{failed} runs with complaints")
    return 1 if failed else 0


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    from simulation.run import Script, simulate

    scripts = (Script.of(seed, options.server) for seed in itertools.count(options.first))
    if options.processes == 1:
        yield from map(simulate, scripts)
        return
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        # A bounded number ahead: `imap` would read scripts for ever.
        for ahead in iter(lambda: list(itertools.islice(scripts, 4 * options.processes)), []):
            yield from pool.imap_unordered(simulate, ahead)


if __name__ == "__main__":
    sys.exit(main())
