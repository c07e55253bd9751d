"""The command."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from soak.judge import judge, read_record
from soak.report import summary, write_docs
from soak.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Runs every feature for hours: nothing may grow.")
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--samples", type=Path, metavar="FILE", help="where the samples go")
    parser.add_argument("--report", type=Path, metavar="FILE", help="run nothing: judge these samples")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write the page and its picture there")
    told = parser.parse_args()
    samples = told.report
    if samples is None:
        directory = Path(tempfile.mkdtemp(prefix="pyworkers-soak-"))
        samples = told.samples or directory / "samples.jsonl"
        signal.signal(signal.SIGTERM, _end)
        print(f"{told.hours:g} hours; samples: {samples}", flush=True)
        run(told.hours * 3600, directory, samples, lambda text: print(text, flush=True))
    record = read_record(samples)
    wrong = judge(record)
    print("\n".join([*summary(record), "", *(wrong or ["flat, and no job lost"])]))
    if told.docs is not None:
        write_docs(record, told.docs)
    return 1 if wrong else 0


def _end(*_: object) -> NoReturn:
    sys.exit(143)  # through the ends of all `with`s


if __name__ == "__main__":
    sys.exit(main())
