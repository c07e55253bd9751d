"""Writes what a soak has found: a table, a picture, and the page docs/internals/soak.md."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.pictures import BOTTOM, DARK, LEFT, LIGHT, RIGHT, TOP, WIDTH, Picture, line, steps, text
from soak import (
    CALL_EVERY_S,
    CLI_EVERY_S,
    DEPLOY_EVERY_S,
    DRAIN_S,
    KILL_EVERY_S,
    PAGES_EVERY_S,
    REOPEN_EVERY_S,
    SAMPLE_EVERY_S,
)
from soak.judge import ERRORS, FEWEST, ROLES, Record, Sample, figures, growth_of, judge

PAGE, PICTURE = "internals/soak.md", "soak"
PANEL, GAP, NAME = 74, 26, 14  # heights
FULL_H = 7.9
HEADROOM = 1.1  # over nine tenths of the values


class Curve(NamedTuple):
    name: str
    kind: str  # class of the line in the picture
    points: list[tuple[float, float]]  # seconds, value


class Panel(NamedTuple):
    title: str
    curves: list[Curve]


def table(record: Record) -> list[list[str]]:
    rows = [["figure", "start", "first third", "last third", "growth an hour", "noise allowed", "verdict"]]
    for figure in figures():
        growth = growth_of(figure, record)
        start = figure.read(record.samples[0])
        rows.append(
            [
                growth.name + (f", {growth.unit}" if growth.unit else ""),
                *(("-" if value is None else _figure(value)) for value in (start, growth.before, growth.after)),
                f"{growth.per_h:+.2f}",
                _figure(growth.allowed),
                "flat" if growth.is_flat else "**grows**",
            ]
        )
    return rows


def picture(record: Record) -> Picture:
    panels = list(_panels(record.samples))
    height = TOP + len(panels) * (PANEL + GAP) + BOTTOM - GAP
    hours = record.samples[-1]["s"] / 3600
    step, _ = steps(hours)
    parts: list[str] = []

    def across(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / 3600 / hours

    for number in range(int(hours / step) + 1):
        x = across(step * number * 3600)
        parts += [
            line(x, TOP, x, height - BOTTOM, "pale"),
            text(x, height - BOTTOM + 22, f"{step * number:g} h", "middle"),
        ]
    for number, panel in enumerate(panels):
        parts += _drawn(panel, TOP + number * (PANEL + GAP), across)
    return Picture(f"A soak of {_hours(record)}: what may grow", height, parts)


def write_docs(record: Record, docs: Path) -> None:
    drawn = picture(record)
    (docs / f"{PICTURE}.svg").write_text(drawn.svg(LIGHT), "utf-8")
    (docs / f"{PICTURE}-dark.svg").write_text(drawn.svg(DARK), "utf-8")
    (docs / PAGE).write_text(page(record), "utf-8")


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    rule = ["---", *["--:"] * (len(head) - 2), "---"]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, rule, *body])


def summary(record: Record) -> Iterator[str]:
    """For a terminal."""
    rows = table(record) if len(record.warm) >= FEWEST else [[]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    pushed, ended = _jobs(record)
    yield f"{record.hours:.2f} hours: {pushed:,} jobs pushed, {ended:,} ended"


# --- the picture


def _panels(samples: Sequence[Sample]) -> Iterator[Panel]:
    def of_roles(name: str, divisor: float = 1) -> list[Curve]:
        kinds = {"changing": "probe", "producer": "other"}
        return [
            Curve(role, kinds.get(role, "ours"), [
                (sample["s"], value / divisor)
                for sample in samples
                if (value := sample["processes"].get(role, {}).get(name)) is not None
            ])
            for role in ROLES if role != "redis"
        ]  # fmt: skip

    def of_redis(name: str, divisor: float = 1) -> list[Curve]:
        return [Curve("redis", "ours", [(sample["s"], sample["redis"][name] / divisor) for sample in samples])]

    yield Panel("memory, MB", of_roles("uss_kb", 1_000))
    yield Panel("threads", of_roles("threads"))
    yield Panel("descriptors", of_roles("descriptors"))
    yield Panel("memory of Redis, MB", of_redis("used_memory", 1_000_000))
    yield Panel("connections", of_redis("connected_clients"))
    yield Panel("keys", of_redis("dbsize"))
    yield Panel("jobs not ended", [Curve("jobs", "ours", [(sample["s"], sample["open"]) for sample in samples])])
    yield Panel("jobs a second", [Curve("jobs", "ours", list(_rates(samples)))])
    yield Panel("wait, p50, ms", [
        Curve("p50", "ours", [
            (sample["s"], late) for sample in samples if (late := sample["late_ms"]["50"]) is not None
        ])
    ])  # fmt: skip


def _rates(samples: Sequence[Sample]) -> Iterator[tuple[float, float]]:
    for before, after in itertools.pairwise(samples):
        ended = sum(after["jobs"]["ended"].values()) - sum(before["jobs"]["ended"].values())
        yield after["s"], ended / max(1.0, after["s"] - before["s"])


def _drawn(panel: Panel, top: float, across: Callable[[float], float]) -> Iterator[str]:
    """From zero on, so that what looks flat is flat. Peaks of a few samples are cut off."""
    values = sorted(value for curve in panel.curves for _, value in curve.points)
    _, most = steps(max(1e-9, values[len(values) * 9 // 10] * HEADROOM))
    floor = top + PANEL

    def up(value: float) -> float:
        return floor - PANEL * min(1.0, value / most)

    yield text(16, top + PANEL / 2 + 4, panel.title)
    for tick in (0, most):
        yield line(LEFT, up(tick), WIDTH - RIGHT, up(tick), "pale")
        yield text(LEFT - 8, up(tick) + 4, f"{tick:,g}", "end")
    for curve in panel.curves:
        points = " ".join(f"{across(seconds):.1f},{up(value):.1f}" for seconds, value in curve.points)
        yield f'<polyline class="{curve.kind}" points="{points}" stroke-width="1.5"/>'
    if len(panel.curves) > 1:
        yield from _names([curve for curve in panel.curves if curve.points], top, up)


def _names(curves: Sequence[Curve], top: float, up: Callable[[float], float]) -> Iterator[str]:
    """Beside the ends of the curves, the highest first, one below the other."""
    at = top - NAME
    for curve in sorted(curves, key=lambda curve: -curve.points[-1][1]):
        at = max(at + NAME, up(curve.points[-1][1]) + 4)
        yield text(WIDTH - RIGHT + 6, at, curve.name)


# --- the page

INTRO = """\
<!-- This page is written by `make soak ARGS='--docs docs'`. -->

# The soak

A fleet runs for hours under a steady load of every kind of job, with deploys, kills and people who look. Nothing may
grow: no memory, no threads, no descriptors, no connections, no keys. No job may be lost.

```console
$ make soak HOURS=8
$ make soak ARGS='--docs docs'                 # writes this page too
$ make soak ARGS='--report FILE --docs docs'   # from the samples of an earlier run
```

It prints the table below, and fails when something has grown or a job was lost.

"""
METHOD = """\
## What runs

- `steady`: one daemon with two children, the port for metrics and the pages. It lives from begin to end: what leaks in
  it adds up. It is the parent and the children of the table.
- `changing`: a single daemon, stopped by TERM and started anew every {deploy:g} minutes, killed with `kill -9` every
  {kill:g} minutes.
- Both reopen their logs every {reopen:g} minutes, as logrotate does.
- One Redis without an append-only file.
- The producer, in the process that takes the samples. It pushes plain jobs, also in bulk, and jobs with priorities;
  delayed, retried, dead, tracked, cancelled, expiring and iterable ones; unique ones, also with newer arguments; jobs
  under limits: with keys in order, by number and by rate; blocks under a limit; batches, chains and groups; atomic jobs
  with children; bodies of a plain list. Periodic jobs come too. It keeps tasks of a delay queue, and cancels half of
  them.
- People: a command of `pyworkers` every {cli:g} s, a page or a path of the API every {pages:g} s, a call to all
  processes every {call:g} s, results that are waited for.

The code is in `tests/integration/soak`.

## How it is judged

- A sample is taken every {sample:g} s. The memory of a process is what it shares with no other one (USS); that of Redis
  is `used_memory`.
- The first quarter of a run is the warm-up. The rest is divided by three, and **growth** is the difference between the
  means of the last and of the first third.
- Where the machine was busy with something else, and had no time for the load, there were fewer jobs, as the picture
  shows. So for keys and jobs that have not ended, the upper deciles of the thirds are compared in place of the means.
- **Noise** is what a figure may grow: a constant, with its reason in `judge.py`, or {errors:g} standard errors of the
  difference where that is more. It does not grow with the length, so a longer run finds a slower leak.
- The memory of `changing` is drawn and not judged: it is never old.
- Keys are judged by family too: how many, how many without a time to live, how many entries they have. The table has
  their sum.
- Some things are kept for hours or days: results, ended chains, metrics, receipts, reports, the audit list. Their lives
  are shortened to minutes and their lists to hundreds, so that each place has reached its bound before it is judged:
  see `SHORT_LIVES` in `fleet.py`.
- **Lost** is a job that has not ended {drain:g} s after the last push. Each job sends its ticket as it ends. A job
  that runs twice after a kill is not lost.

The latency of a job is shown and not judged: it is that of the machine.

## What it has found

- November 2026: `pyworkers:gone` kept an entry for ever of a program that ended just while another process declared the
  silent ones dead. There were seventeen after an hour and a half, on a machine that was busy with other work.
  Recoveries remove such entries since then.
- `pyworkers:receipt` was no leak. Receipts lived for ten minutes in that run, and at its end three lives of `changing`
  fell into ten minutes. Now they live for two minutes.
- `pyworkers:line`, of which the run above tells, was no leak either. Jobs of one key run one after the other there.
  Those of the first key fail once and keep their place until the retry, so this key was busy nearly all the time: its
  line grew to 18 and was empty again some minutes later, grew to 34, and was empty at the end. Since then this key
  gets a fifth of those jobs.
"""


def page(record: Record) -> str:
    wrong = judge(record)
    found = "\n".join(["It failed:\n", *(f"- {one}" for one in wrong)])
    verdict = found if wrong else "Nothing has grown, and no job was lost."
    method = METHOD.format(
        deploy=DEPLOY_EVERY_S / 60, kill=KILL_EVERY_S / 60, reopen=REOPEN_EVERY_S / 60, cli=CLI_EVERY_S,
        pages=PAGES_EVERY_S, call=CALL_EVERY_S, sample=SAMPLE_EVERY_S, drain=DRAIN_S,
        errors=ERRORS,
    )  # fmt: skip
    drawn = (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="../{PICTURE}-dark.svg">\n'
        f'  <img alt="What may grow, over the hours of a soak" src="../{PICTURE}.svg">\n</picture>\n\n'
    )
    shown = markdown(table(record)) if len(record.warm) >= FEWEST else ""
    return "".join([INTRO, f"{_conditions(record)}\n{verdict}\n\n", drawn, shown, "\n", method])


def _conditions(record: Record) -> str:
    head, samples = record.head, record.loaded
    pushed, ended = _jobs(record)
    lives = len({sample["processes"]["changing"].get("pid") for sample in samples} - {None})
    busy = sum(_cpu_s(samples, role) for role in ROLES) / (samples[-1]["s"] - samples[0]["s"])
    short = " It was shorter than the eight hours of the command." if record.hours < FULL_H else ""
    return (
        f"The last run began at {head['at'][:16].replace('T', ' ')} UTC and took **{_hours(record)}**: goworkers-py "
        f"{head['version']}, Python {head['python']}, Redis {head['redis']}, {head['cores']} cores. {pushed:,} jobs "
        f"were pushed, {ended:,} ended; a job of a batch or a chain counts with it. `changing` had {lives} lives. All "
        f"processes together used {busy:.0%} of a core.{short}\n"
    )


def _cpu_s(samples: Sequence[Sample], role: str) -> float:
    """Of all processes that had this role. What one has used after its last sample is not known."""
    total, before, pid = 0.0, 0.0, samples[0]["processes"].get(role, {}).get("pid")
    for number, sample in enumerate(samples):
        process = sample["processes"].get(role, {})
        if not process:
            continue
        if process["pid"] != pid:
            pid, before = process["pid"], 0.0
        elif number == 0:
            before = process["cpu_s"]
        total, before = total + process["cpu_s"] - before, process["cpu_s"]
    return total


def _jobs(record: Record) -> tuple[int, int]:
    jobs = (record.end or record.samples[-1])["jobs"]
    return sum(jobs["pushed"].values()), sum(jobs["ended"].values())


def _hours(record: Record) -> str:
    minutes = round(record.loaded[-1]["s"] / 60)
    if minutes < 60:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes % 60 == 0 else f"{minutes // 60} h {minutes % 60} min"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
