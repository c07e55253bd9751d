"""`job show`, `job cancel`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import simplejson

from goworkers_py.admin.job_status import JobStatus
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected
from goworkers_py.cli.tables import clock_time, printable


@click.group(cls=CommandGroup)
def job() -> None:
    """Shows or cancels one job."""


@job.command("show")
@click.argument("jid")
@click.option("--json", "as_json", is_flag=True, help="print JSON, for programs")
@connected
def show(app: App, jid: str, as_json: bool) -> None:
    """Shows where a job is and how it came there. Exit code 1 when it is found nowhere."""
    status = app.inspector.status(jid)
    click.echo(simplejson.dumps(status.as_dict()) if as_json else _lines(status))
    sys.exit(FAILED if status.state == "unknown" else 0)


@job.command("cancel")
@click.argument("jids", nargs=-1, required=True, metavar="JID...")
@click.option("--retry", is_flag=True, help="interrupt a running job only; it is retried as after a failure")
@click.option("--wait", default=2.0, show_default=True, help="seconds to wait until a process has met the job")
@connected
def cancel(app: App, jids: Sequence[str], retry: bool, wait: float) -> None:
    """Cancels jobs, wherever they are. Exit code 1 unless each of them is cancelled now."""
    answers = {jid: app.cancel(jid, retry=retry, timeout=wait) for jid in jids}
    for jid, answer in answers.items():
        click.echo(f"{jid} {printable(answer)}")
    sys.exit(0 if set(answers.values()) == {"cancelled"} else FAILED)


def _lines(status: JobStatus) -> str:
    rows = [
        ("state", f"{status.state}{_where(status)} ({_sureness(status)})"),
        ("class", status.job_class),
        ("queue", status.queue),
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


def _sureness(status: JobStatus) -> str:
    if status.verified:
        return "verified" if status.tracked else "found by a search; it has no record"
    if status.tracked:
        return "last known: it is not there any more"
    return "no record, and not found among the first 10,000 jobs of each place"


def _progress(status: JobStatus) -> str:
    told = status.progress
    if told is None:
        return ""
    share = f"{told.at:g} of {told.total:g} ({told.percent:.0f} %)" if told.total else f"{told.at:g}"
    return f"{share} {told.text}".strip()
