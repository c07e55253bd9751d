"""Writes docs/torture.md from the results of the runs, which are kept beside it.

How a run works is told here; how each system is set up and loses jobs, in its module. The results give each figure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.torture.judge import AFTER_S, STUCK_S, UNEXPLAINED
from bench.torture.plan import JOBS_A_SECOND, KINDS, LONG_S, LONGEST_DELAY_S, SHORT_MS, WORKERS, Plan
from bench.torture.systems import ALL, System
from bench.torture.systems.system import THREADS

PAGE, RESULTS = "torture.md", "torture.json"

Record = dict[str, Any]

INTRO = """\
# Torture

The same faults strike goworkers-py and six other job systems at the same moments, and a ledger accounts for every job.
A job is lost if its push was acknowledged and it never ended. Run it yourself, with your own seed.

"""

RUNNING = """\
## How to run it

```console
$ bin/torture --list                          # systems with their versions, and the kinds of faults
$ bin/torture ours --seed 7                   # one system; its ledger and logs are kept
$ bin/torture sidekiq rq --faults kill,pause  # some kinds of faults only
$ bin/torture --all --json results.json       # every system that can be had
```

It needs Linux, `make setup` and a Redis server. Python systems are put into environments of their own; `go` and
`ruby-sidekiq` are taken from the machine, and `--list` says what is missing and how to get it. The exit code is 1 if a
job is lost or something is stuck. A run of four minutes takes up to three more, in which the system may recover; RQ
needs twenty.

"""

METHOD = f"""\
## How it works

- **Jobs and faults are drawn from the seed** before anything starts. So each system gets the same jobs, and the same
  faults at the same moments. `bench/torture/plan.py` has all of it.
- **Jobs:** {JOBS_A_SECOND} a second. Nine of ten take {SHORT_MS} ms, the others {LONG_S[0]:g} to {LONG_S[1]:g} s. One
  of ten is to run later, by up to {LONGEST_DELAY_S:g} s. One of sixteen fails in its first run, and is retried.
- **Processes:** {len(WORKERS)} workers that run {THREADS} jobs at once each, and one producer. A worker that has ended
  is started again after a second. Each process has a proxy of its own before Redis.
- **Redis** has an append-only file with `appendfsync always`. What it has acknowledged is there after its crash.
- **The ledger** is one file that no system knows of. The producer appends each push before it is sent and when it was
  acknowledged, each job its begin and its end, by one write a line. `kill -9` takes no line away.
- **The wait:** jobs come for {Plan.calm_s:g} s after the last fault. Then the run waits for as long as the recovery of
  that system may take by its own times.

| fault | what it is |
| --- | --- |
{{faults}}

The judge reads the ledger alone:

- **Lost:** the push was acknowledged, and no run of the job ended well. Redis may hold it still, in a place where
  nobody has looked in the time of the run.
- **Run twice:** two runs ended well. A fault explains it that touched Redis or the worker of the first run, from its
  begin to {AFTER_S:g} s after its end, or the worker that ran it again, or the push, or any worker while the job
  waited, which may have held it. None of these systems promises exactly once.
- **Early:** a run began before its time, by the clock of the machine, which all processes share.
- **Stuck:** for {STUCK_S:g} s no job began, though one waited, Redis was there, and a worker that had run jobs before
  was neither ended nor paused. Or a worker ran nothing in the time without faults.
- **A push that failed** is not counted as lost, whether or not the job ran: its producer has the error.

"""

WINDOWS = """\
## Windows

- All processes are on one machine. There goworkers-py and the kernel know of a killed process at once; over several
  machines, it waits for the lease as the others do. The freeze shows that way.
- The machine was busy with other work, so starts of processes and of Redis took seconds longer than planned, for some
  runs more than for others. The faults are the same, but not what they met: compare kinds of loss, not small counts.
- A fault comes some twenty times in a run: a window of microseconds is rarely hit. A zero is no proof.
- It covers neither power loss, nor a failover to a replica, nor clocks that jump.
- Times between retries and looks are shortened where a system has an option for them. Nothing else is.
"""


def write_page(records: Sequence[Record], folder: Path) -> None:
    (folder / RESULTS).write_text(as_json(records), "utf-8")
    (folder / PAGE).write_text(page(records), "utf-8")


def as_json(records: Sequence[Record]) -> str:
    return json.dumps({"records": records}, indent=1) + "\n"


def page(records: Sequence[Record]) -> str:
    faults = "\n".join(f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items())
    parts = [INTRO, *_conditions(records), RUNNING, METHOD.format(faults=faults), "## The systems\n\n"]
    return "".join(
        [*parts, *(_system(system, _of(records, system)) for system in ALL if _of(records, system)), WINDOWS]
    )


def _of(records: Sequence[Record], system: System) -> list[Record]:
    return [record for record in records if record["system"] == system.name]


def _conditions(records: Sequence[Record]) -> Iterator[str]:
    lines = [
        ["", "acknowledged", "lost", "of these still in Redis", "run twice", "unexplained", "early", "stuck"],
        *(_sums(system, _of(records, system)) for system in ALL if _of(records, system)),
    ]
    yield _markdown(lines) + "\n"
    first, dates = records[0], sorted({record["date"] for record in records})
    machine = first["machine"]
    seeds = sorted({record["plan"]["seed"] for record in records})
    faults = sum(sum(record["faults"].values()) for record in records if record["system"] == first["system"])
    yield f"- **Runs:** seeds {' and '.join(map(str, seeds))}, with {first['plan']['minutes']:g} minutes of faults "
    yield f"each. Each system met the same {faults} faults.\n"
    yield f"- **When:** {dates[0]} to {dates[-1]}.\n"
    yield f"- **Machine:** {machine['cores']} cores of {machine['processor']}, {machine['system']}, "
    yield f"Python {machine['python']}, Redis {first['redis']}. Several runs and other programs shared it: the load "
    yield f"average was up to {max(record['machine']['load'] for record in records):g}.\n\n"


def _sums(system: System, records: Sequence[Record]) -> list[str]:
    verdicts = [record["verdict"] for record in records]
    count = _counter(verdicts)
    lost = count(lambda verdict: verdict["lost"])
    early = max((seconds for verdict in verdicts for seconds in verdict["early"].values()), default=0)
    gone = sum(record["gone"] for record in records)
    name = f"**{system.name}**" if system is ALL[0] else system.name
    return [
        f"{name} {records[-1]['version'].split()[0]} ({system.language})",
        f"{sum(verdict['acknowledged'] for verdict in verdicts):,}",
        f"{lost:,}",
        f"{lost - gone:,}" if lost else "",
        f"{count(lambda verdict: verdict['twice']):,}",
        f"{count(_unexplained):,}",
        f"{count(lambda verdict: verdict['early']):,}" + (f", by up to {early:.1f} s" if early else ""),
        f"{count(lambda verdict: verdict['stuck']):,}",
    ]


def _counter(verdicts: Sequence[Record]) -> Callable[[Callable[[Record], Any]], int]:
    return lambda what: sum(len(what(verdict)) for verdict in verdicts)


def _unexplained(verdict: Record) -> list[str]:
    return [job for job, why in verdict["twice"].items() if why == UNEXPLAINED]


def _system(system: System, records: Sequence[Record]) -> str:
    twice = Counter(why for record in records for why in record["verdict"]["twice"].values())
    reasons = "; ".join(f"{count:,}: {why}" for why, count in twice.most_common())
    ended = sum(record["verdict"]["ended_by_themselves"] for record in records)
    lines = [["seed", "date", "acknowledged", "failed pushes", "lost", "run twice", "early", "stuck"]]
    for record in records:
        verdict = record["verdict"]
        lines.append(
            [
                str(record["plan"]["seed"]),
                record["date"],
                *(f"{verdict[name]:,}" for name in ("acknowledged", "unsure")),
                *(f"{len(verdict[name]):,}" for name in ("lost", "twice", "early", "stuck")),
            ]
        )
    parts = [
        f"### {system.name} {records[-1]['version'].split()[0]}\n",
        f"Set beside its defaults: {system.settings}.\n",
        system.notes,
        system.losses,
        f"Run twice, by the fault that explains it: {reasons}.\n" if reasons else "",
        f"Processes that ended by themselves, and were started again: {ended}.\n" if ended else "",
        _markdown(lines),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *rows = lines
    rule = ["---" if number == 0 else "---:" for number in range(len(head))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *rows))
