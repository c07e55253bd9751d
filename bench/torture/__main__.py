"""The command line of bin/torture."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from bench.environments import Unavailable
from bench.machine import machine
from bench.programs import Failed
from bench.torture.page import as_json, write_page
from bench.torture.plan import KINDS, Plan
from bench.torture.report import account
from bench.torture.run import run
from bench.torture.systems import SYSTEMS, System

MINUTES = 4.0


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, _end)
    if options.results:
        records = [record for file in options.results for record in json.loads(file.read_text("utf-8"))["records"]]
        write_page(sorted(records, key=lambda record: record["plan"]["seed"]), options.docs)
        return 0
    if options.list:
        print("\n".join([*(_line(system) for system in SYSTEMS.values()), "", "faults:", *_faults()]))
        return 0
    fine, records = True, []
    for name in options.systems:
        try:
            record = _torture(SYSTEMS[name], options)
        except Unavailable as error:
            fine = options.all and fine
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        except Failed as error:
            fine = False
            print(f"{name}: no verdict: {error}", file=sys.stderr)
            continue
        except KeyboardInterrupt:
            print("\ntorture: interrupted", file=sys.stderr)
            return 130
        records.append(record)
        fine = fine and not (record["verdict"]["lost"] or record["verdict"]["stuck"])
        if options.json:
            options.json.write_text(as_json(records), "utf-8")
    return 0 if fine else 1


def _torture(system: System, options: argparse.Namespace) -> dict[str, Any]:
    say = print if not options.quiet else lambda text: None
    system.find()
    system.install()
    plan = Plan(options.seed, options.minutes * 60, tuple(options.faults), calm_s=options.calm)
    folder = Path(tempfile.mkdtemp(prefix=f"torture-{system.name}-"))
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    say(f"{system.name} {system.version}, seed {plan.seed}, {options.minutes:g} minutes; its ledger and logs: {folder}")
    settle_s = system.settle_s if options.settle is None else options.settle
    result = run(plan, system, folder, say, settle_s, options.hurry)
    print(account(result), flush=True)
    load = round(os.getloadavg()[1], 1)
    return {"date": date, "machine": {**machine(), "load": load}, "settings": system.settings, **result.as_json()}


def _line(system: System) -> str:
    try:
        system.find()
    except Unavailable as error:
        return f"{system.name:<14} left out: {error}"
    return f"{system.name:<14} {system.version}"


def _faults() -> list[str]:
    return [f"{kind:<14} {meaning}" for kind, meaning in KINDS.items()]


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description="Breaks job systems and accounts for every job.")
    add = parser.add_argument
    add("systems", nargs="*", metavar="SYSTEM", help=f"ours, or {', '.join(SYSTEMS)}")
    add("--all", action="store_true", help="every system that can be had")
    add("--list", action="store_true", help="systems with their versions, and kinds of faults")
    add("--seed", type=int, default=1, metavar="N", help="of jobs and faults: default 1")
    add("--minutes", type=float, default=MINUTES, metavar="N", help=f"of faults: default {MINUTES:g}")
    add("--faults", type=_kinds, default=list(KINDS), metavar="KIND[,KIND]", help=", ".join(KINDS))
    add(
        "--calm",
        type=float,
        default=Plan.calm_s,
        metavar="S",
        help=f"jobs come for so long after the last fault: default {Plan.calm_s:g}",
    )
    add("--settle", type=float, metavar="S", help="wait so long for recovery; default: as long as the system needs")
    add("--hurry", action="store_true", help="end when each job has ended: a second run later is not seen")
    add("--quiet", action="store_true", help="print the accounts only")
    add("--json", type=Path, metavar="FILE", help="write the results there")
    add("--from", dest="results", type=Path, nargs="+", metavar="FILE", help="run nothing: take these results")
    add("--docs", type=Path, metavar="FOLDER", help="... and write the page and the results there")
    options = parser.parse_args(words)
    if bool(options.results) != bool(options.docs):
        parser.error("--from and --docs go together")
    names = ["goworkers-py" if name == "ours" else name for name in options.systems]
    unknown = [name for name in names if name not in SYSTEMS]
    if unknown:
        parser.error(f"no system {unknown[0]!r}: there are ours, {', '.join(SYSTEMS)}")
    options.systems = list(SYSTEMS) if options.all else names
    if not (options.systems or options.list or options.results):
        parser.error("name a system, or give --all or --list")
    return options


def _kinds(text: str) -> list[str]:
    given = [kind.strip() for kind in text.split(",") if kind.strip()]
    unknown = [kind for kind in given if kind not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no {unknown[0]!r}: there are {', '.join(KINDS)}")
    return given


def _end(*_: object) -> NoReturn:
    sys.exit(143)  # through the ends of all `with`s


if __name__ == "__main__":
    sys.exit(main())
