"""The long form."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from chaos.run import Plan, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos", description="Breaks things at random and accounts for every job.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--jobs-per-s", type=float, default=Plan.jobs_per_s)
    told = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="pyworkers-chaos-"))
    print(f"seed {told.seed}, {told.minutes:g} minutes; its files: {directory}", flush=True)
    account = run(Plan(told.minutes * 60, told.seed, told.jobs_per_s), directory, lambda text: print(text, flush=True))
    print(account)
    sys.exit(0 if account.fine else 1)


if __name__ == "__main__":
    main()
