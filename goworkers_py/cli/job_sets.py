"""`retries`, `scheduled`, `parked`, `outbox`, `dead`: a group of commands for the jobs of each state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from goworkers_py.admin.filter import Filter, counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.jobs import Steps
from goworkers_py.admin.places import DEAD, OUTBOX, PARKED, RETRIES, SCHEDULED
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.cli import listing
from goworkers_py.cli.base import FAILED, ListGroup, connected, fail
from goworkers_py.cli.listing import KINDS, Columns, list_rows, show_job
from goworkers_py.cli.selection import (
    TrackingFilter,
    as_json,
    carry_out,
    chosen,
    cleared,
    confirm,
    dry_run,
    filtered,
    limit,
    may_clear,
    progress,
    tell,
    yes,
)
from goworkers_py.cli.times import HOW, time_of

PLACES = {place.state.value: place for place in (RETRIES, SCHEDULED, PARKED, OUTBOX, DEAD)}
COLUMNS: dict[Place, Columns] = {
    RETRIES: listing.RETRIES, SCHEDULED: listing.SCHEDULED, PARKED: listing.PARKED, OUTBOX: listing.OUTBOX,
    DEAD: listing.DEAD,
}  # fmt: skip
NONE = {RETRIES: "retries", SCHEDULED: "scheduled jobs", PARKED: "parked jobs", OUTBOX: "pushes", DEAD: "dead jobs"}
_ABOUT = {
    RETRIES: "Jobs that failed and wait for their next try.",
    SCHEDULED: "Jobs that wait for a time that their producer chose.",
    PARKED: "Jobs that wait in a line, such as that of a limit.",
    OUTBOX: "Pushes of atomic jobs that wait to go to another broker.",
    DEAD: "Jobs that failed for good.",
}

_ORDER = {
    RETRIES: "those due first come first", SCHEDULED: "those due first come first",
    PARKED: "line by line, the newest first", OUTBOX: "broker by broker, the newest first",
    DEAD: "those that died last come first",
}  # fmt: skip

Verb = Callable[..., Steps]
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def list_place(app: App, place: Place, wanted: Filter, limit: int, as_json: bool) -> None:
    list_rows(COLUMNS[place], app.inspector.jobs(place, wanted), limit, as_json, f"{NONE[place]} {wanted}")


def make_group(place: Place) -> click.Group:
    name = place.state.value

    @click.group(name, cls=ListGroup, help=_ABOUT[place])
    def group() -> None: ...

    @group.command("list", help=f"Lists the {NONE[place]}: {_ORDER[place]}.")
    @filtered
    @limit
    @as_json
    @connected
    def list_(app: App, wanted: Filter, limit: int, as_json: bool) -> None:
        list_place(app, place, wanted, limit, as_json)

    @group.command()
    @click.argument("jid", required=False)
    @click.option("--match", default="", metavar="TEXT", help="jobs with this text in the payload, readable or not")
    @as_json
    @connected
    def show(app: App, jid: str | None, match: str, as_json: bool) -> None:
        """Shows a job in full. If it has failed, its error and backtrace are there too."""
        _show(app.inspector, place, jid, match, as_json)

    @group.command()
    @yes
    @connected
    def clear(app: App, yes: bool) -> None:
        """Deletes all jobs of this state."""
        if may_clear(name, app.inspector.count(place), yes):
            tell(cleared(app.inspector, place, name), "deleted")

    _add_changes(group, place)
    return group


def _add_changes(group: click.Group, place: Place) -> None:
    if place != SCHEDULED:
        _add_summary(group, place)
    if place != OUTBOX:
        _add(group, place, "retry", "retried", "Puts jobs into their queues, to run now.", Inspector.retry)
    if place in (RETRIES, SCHEDULED):
        at = click.option(
            "--at", "at", required=True, callback=time_of, metavar="TIME", help=f"when they become due: {HOW}"
        )
        _add(group, place, "reschedule", "rescheduled", "Lets jobs wait for another time.", Inspector.reschedule, [at])
    _add(group, place, "delete", "deleted", "Deletes jobs.", Inspector.delete)
    if place not in (DEAD, OUTBOX):
        _add(group, place, "kill", "killed", "Moves jobs to the dead set.", Inspector.kill)


def _show(inspector: Inspector, place: Place, jid: str | None, match: str, as_json: bool) -> None:
    if (jid is None) != bool(match):
        raise click.UsageError("give either the jid, or --match with a part of the payload")
    shown = False
    for job in inspector.jobs(place, Filter(jids=[jid] if jid is not None else [], match=match)):
        show_job(job, as_json)
        shown = True
    if not shown:
        wanted = f"whose payload contains {match!r}" if jid is None else f"with jid {jid}"
        fail(f"no job in {place.state.value} {wanted}", FAILED)


def _add_summary(group: click.Group, place: Place) -> None:
    @group.command()
    @click.option("--sample", is_flag=True, help="estimate the counts from 2,000 of the jobs: at once, however many")
    @limit
    @as_json
    @connected
    def summary(app: App, sample: bool, limit: int, as_json: bool) -> None:
        """Counts the jobs by class and error."""
        if sample:
            estimate = app.inspector.sample(place)
            list_rows(KINDS, estimate.kinds, limit, as_json, NONE[place])
            if estimate.looked_at < estimate.total:
                of_all = f"{estimate.looked_at} of {counted(estimate.total)}"
                click.echo(f"pyworkers: estimated from {of_all}; without --sample all are counted", err=True)
            return
        with progress(app.inspector.count(place)) as advance:
            kinds = app.inspector.summary(place, advance)
        list_rows(KINDS, kinds, limit, as_json, NONE[place])


def _add(
    group: click.Group, place: Place, verb: str, done: str, about: str, change: Verb, options: Sequence[Option] = ()
) -> None:
    """The values of `options` go to `change` by their names."""
    name = place.state.value

    @group.command(verb, help=f"{about} Choose them by --jid, by a filter, or --all.")
    @filtered
    @click.option("--all", "everything", is_flag=True, help="all jobs of this state")
    @dry_run
    @yes
    @as_json
    @connected
    def command(
        app: App, wanted: Filter, everything: bool, dry_run: bool, yes: bool, as_json: bool, **more: Any
    ) -> None:
        if wanted.empty != everything:
            raise click.UsageError(f"choose the jobs to {verb}: by --jid, by a filter, or --all")
        inspector, tracking = app.inspector, TrackingFilter(wanted)
        size = inspector.count(place)
        if everything and size and verb != "retry" and not dry_run:
            confirm(f"{verb} all of {counted(size)} in {name}", yes)
        steps = change(inspector, place, tracking, dry_run=dry_run, **more)
        total = carry_out(inspector, chosen(name, wanted), steps, size, dry_run)
        tell(total, f"would be {done}" if dry_run else done, as_json)
        tracking.report_missing(name)

    for option in options:
        option(command)
        command.params.insert(0, command.params.pop())  # before the filters


retries, scheduled, parked, outbox, dead = map(make_group, (RETRIES, SCHEDULED, PARKED, OUTBOX, DEAD))
