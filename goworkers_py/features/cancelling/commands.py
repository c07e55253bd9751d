"""`job cancel`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

import click
import simplejson

from goworkers_py.admin.filter import Filter, counted
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, connected
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, chosen, dry_run, filtered
from goworkers_py.cli.tables import printable
from goworkers_py.features.cancelling.admin import IN_OTHERS, CancelAnswer, not_obeyed


@click.command()
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
