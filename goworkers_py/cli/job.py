"""`job list`, `job show`, `job again`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from goworkers_py.admin.job_status import JobStatus
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail, json_of
from goworkers_py.cli.listing import ENDED, list_rows
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, limit
from goworkers_py.cli.tables import clock_time, printable
from goworkers_py.cli.times import HOW, time_of
from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.policy.lines import owner_of


@click.group(cls=CommandGroup)
def job() -> None:
    """Shows or cancels a job, pushes it again, lists ended ones."""


@job.command("list")
@click.option("--state", type=click.Choice(INDEXED), required=True, help="how the jobs have ended")
@limit
@as_json
@connected
def list_ended(app: App, state: StateWord, limit: int, as_json: bool) -> None:
    """Lists tracked jobs that have ended, the newest first.

    `pyworkers dead list` lists the dead jobs, and `pyworkers jobs` those that wait.
    """
    list_rows(ENDED, _ended(app, state, limit), limit, as_json, f"tracked jobs in the state {state}")


def _ended(app: App, state: StateWord, limit: int) -> Iterator[JobStatus]:
    after = None
    while after != "":
        page = app.inspector.ended(state, after=after or "", limit=min(limit + 1, PAGE) if limit else PAGE)
        yield from page.jobs
        after = page.next


@job.command("show")
@click.argument("jid")
@click.option("--json", "as_json", is_flag=True, help="print JSON, for programs")
@connected
def show(app: App, jid: str, as_json: bool) -> None:
    """Shows where a job is and how it came there. Exit code 1 when it is found nowhere."""
    status = app.inspector.status(jid)
    click.echo(status.as_json if as_json else _lines(status))
    sys.exit(FAILED if status.state == "unknown" else 0)


@job.command("again")
@click.argument("jid")
@click.option("--args", "args", metavar="JSON-ARRAY", help="other arguments")
@click.option("--kwargs", "named", metavar="JSON-OBJECT", help="other keyword arguments")
@click.option("-q", "--queue", "to", metavar="QUEUE", help="another queue")
@click.option("--at", callback=time_of, metavar="TIME", help=f"run at this time: {HOW}")
@connected
def again(app: App, jid: str, args: str | None, named: str | None, to: str | None, at: float | None) -> None:
    """Pushes a copy of a job with a new jid, and prints that jid. The job must be in a queue, scheduled, retried or
    dead. It stays where it is."""
    found = next(app.inspector.find(jid), None)
    if found is None:
        fail(f"no job with jid {jid} is kept anywhere; `pyworkers job show {jid}` tells what is known of it", FAILED)
    others = None if args is None else json_of(args, list, "--args must be a JSON array, such as '[1, \"a\"]'")
    kwargs = None if named is None else json_of(named, dict, "--kwargs must be a JSON object, such as '{\"a\": 1}'")
    with noted(app.inspector, f"job {jid}") as change:
        new = app.inspector.enqueue_again(found[1], args=others, kwargs=kwargs, queue=to, at=at)
        change.count, change.what = 1, f"job {jid}: as job {new}"
    click.echo(new)


def _lines(status: JobStatus) -> str:
    rows = [
        ("state", f"{status.state}{_where(status)} ({_sureness(status)})"),
        ("class", status.job_class),
        ("queue", status.queue),
        ("group", status.group),
        ("line", _line(status)),
        ("since", clock_time(status.since) if status.since else ""),
        ("due", clock_time(status.due) if status.due else ""),
        ("process", status.owner),
        ("progress", _progress(status)),
        ("error", ": ".join(filter(None, (status.error_class, status.error_message)))),
        ("result", "kept; workers.result(jid) returns it" if status.has_result else ""),
    ]
    lines = [f"{name:<10} {printable(text)}" for name, text in rows if text]
    lines += [
        f"  {clock_time(move.at)}  {move.state:<10} {printable(move.reason)}".rstrip() for move in status.timeline
    ]
    return "\n".join(lines)


def _where(status: JobStatus) -> str:
    return "" if status.place is None else f", behind {status.place} others"


def _line(status: JobStatus) -> str:
    owner = owner_of(status.line)
    return status.line if owner is None else f"of {owner.name}; `{owner.command}` tells who has the places"


def _sureness(status: JobStatus) -> str:
    if status.verified:
        return "verified" if status.tracked else "found by a search; it has no record"
    if status.tracked:
        return "last known: it is not there any more"
    return "no record, and not found among the first 10,000 jobs of each place"


def _progress(status: JobStatus) -> str:
    progress = status.progress
    if progress is None:
        return ""
    share = (
        f"{progress.at:g} of {progress.total:g} ({progress.percent:.0f} %)" if progress.total else f"{progress.at:g}"
    )
    return f"{share} {progress.text}".strip()
