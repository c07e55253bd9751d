"""`job list`, `job show`, `job cancel`, `job again`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import NoReturn

import click
import simplejson

from goworkers_py.admin.filter import Filter, counted
from goworkers_py.admin.job_status import JobStatus
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail, json_of
from goworkers_py.cli.listing import ENDED, list_rows
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, chosen, dry_run, filtered, limit
from goworkers_py.cli.tables import clock_time, printable
from goworkers_py.cli.times import HOW, time_of
from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.features.cancelling.admin import IN_OTHERS, CancelAnswer, not_obeyed
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


@job.command("cancel")
@click.argument("jids", nargs=-1, metavar="[JID...]")
@filtered
@click.option("--retry", is_flag=True, help="interrupt a running job only; it is retried as after a failure")
@click.option("--running", "only_running", is_flag=True, help="of those that fit a filter, only the ones that run")
@click.option("--all", "everything", is_flag=True, help="with --running: all that run")
@click.option("--wait", default=2.0, show_default=True, help="seconds to wait until a process has met the job")
@dry_run
@as_json
@connected
def cancel(
    app: App,
    jids: Sequence[str],
    wanted: Filter,
    retry: bool,
    only_running: bool,
    everything: bool,
    wait: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Cancels jobs, wherever they wait or run. Takes their jids, or a filter for all that fit.

    Exit code 1 unless each of them is cancelled now.
    """
    if bool(jids) + (not wanted.empty) + everything != 1 or (everything and not only_running):
        raise click.UsageError(
            "choose the jobs to cancel: by their jids, by a filter such as --class, or by --running --all"
        )
    if jids:
        if dry_run or only_running:
            raise click.UsageError("--dry-run and --running are for a filter; `job show` shows where a job is")
        _cancel_each(app, jids, retry, wait)
    if retry:
        raise click.UsageError("--retry is for jids, not for a filter")
    with noted(app.inspector, chosen("jobs that run" if only_running else "jobs", wanted), dry_run) as change:
        counts = app.inspector.cancel_all(wanted, timeout=wait, dry_run=dry_run, only_running=only_running)
        change.count = counts.cancelled
    if as_json:
        click.echo(simplejson.dumps(asdict(counts)))
    else:
        totals = [("would be cancelled" if dry_run else "cancelled", counts.cancelled)]
        totals += [("requested: no process has confirmed it yet", counts.requested)] if counts.requested else []
        totals += [("too late: ended before", counts.too_late)] if counts.too_late else []
        totals += [(f"not cancelled: {IN_OTHERS}", counts.foreign)] if counts.foreign else []
        click.echo("\n".join(f"{counted(number)} {what}" for what, number in totals))
    sys.exit(FAILED if counts.requested or counts.too_late or counts.foreign else 0)


def _cancel_each(app: App, jids: Sequence[str], retry: bool, wait: float) -> NoReturn:
    answers = {}
    with noted(app.inspector, f"jobs {', '.join(jids)}") as change:
        for jid in jids:
            answers[jid] = answer = app.cancel(jid, retry=retry, timeout=wait)
            change.add(int(answer in ("cancelled", "interrupted")))
    for jid, answer in answers.items():
        click.echo(f"{jid} {answer}{printable(_why(app, jid, answer))}")
    sys.exit(0 if set(answers.values()) == {"cancelled"} else FAILED)


def _why(app: App, jid: str, answer: CancelAnswer) -> str:
    """The rest, of which the answer says nothing."""
    if answer not in ("runs in Ruby", "runs in Go"):
        return ""
    owner = app.inspector.status(jid).owner  # empty: it has ended meanwhile
    return f"{f' ({owner})' if owner else ''}, which does not obey a cancel: {not_obeyed(answer)}"


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
