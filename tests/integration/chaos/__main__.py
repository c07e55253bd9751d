"""The long form."""

from __future__ import annotations

import argparse
import functools
import operator
import random
import sys
import tempfile
from pathlib import Path

from chaos.run import Plan, run

BLOCK_PROGRAMS = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos", description="Breaks things at random and accounts for every job.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--seeds", type=int, default=1, help="so many runs, which share the minutes")
    parser.add_argument("--jobs-per-s", type=float, default=Plan.jobs_per_s)
    parser.add_argument("--outage", type=float, default=90, help="seconds without a server, once in each run")
    parser.add_argument("--parents", action="store_true", help="three parents with children, not four single processes")
    told = parser.parse_args()
    accounts = {}
    for seed in range(told.seed, told.seed + told.seeds):
        directory = Path(tempfile.mkdtemp(prefix="pyworkers-chaos-"))
        minutes = told.minutes / told.seeds
        print(f"seed {seed}, {minutes:g} minutes; its files: {directory}", flush=True)
        accounts[seed] = run(
            Plan(
                minutes * 60,
                seed,
                told.jobs_per_s,
                parents=told.parents,
                outage_s=min(told.outage, minutes * 60 / 2),
                block_programs=BLOCK_PROGRAMS,
            ),
            directory,
            lambda text: print(text, flush=True),
        )
        print(accounts[seed], flush=True)
    if told.seeds > 1:
        print(f"\nseeds {min(accounts)} to {max(accounts)}\n{functools.reduce(operator.add, accounts.values())}")
        print("\n".join(f"seed {seed}: {'fine' if one.fine else 'FAILED'}" for seed, one in accounts.items()))
    sys.exit(0 if all(one.fine for one in accounts.values()) else 1)


if __name__ == "__main__":
    main()
