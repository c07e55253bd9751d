"""`queues`, `queue show|clear|pause|resume|delete|move`, `jobs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import click
import simplejson

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import QueueStats
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail
from goworkers_py.cli.job_sets import PLACES, list_place
from goworkers_py.cli.listing import IN_QUEUE, list_rows, show_all
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import (
    TrackingFilter,
    as_json,
    carry_out,
    chosen,
    cleared,
    dry_run,
    filtered,
    limit,
    may_clear,
    tell,
    yes,
)
from goworkers_py.cli.tables import TextTable, duration
from goworkers_py.wire import payload


@click.command()
@as_json
@connected
def queues(app: App, as_json: bool) -> None:
    """Lists the queues. Tells their size, how long the next job has waited, and whether they are paused."""
    show_all(app.inspector.queues(), as_json, _show, "queues")
    if damaged := app.inspector.damaged_queues():
        fail("; ".join(damaged), FAILED)


@click.group(cls=CommandGroup)
def queue() -> None:
    """Shows or changes one queue."""


def _name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value or not payload.encodable(value):
        raise click.BadParameter("a queue's name must be text, and not empty")
    return value


named = click.argument("name", callback=_name)


@queue.command()
@named
@limit
@as_json
@connected
def show(app: App, name: str, limit: int, as_json: bool) -> None:
    """Shows the queue and its next jobs in the order of their runs. `pyworkers jobs` lists all jobs."""
    found = _existing(app.inspector, name)
    jobs = app.inspector.first(waiting_in(name), limit or found.size)
    if as_json:
        next_jobs = ",".join(job.as_json for job in jobs)
        click.echo(f'{simplejson.dumps(dataclasses.asdict(found))[:-1]}, "next": [{next_jobs}]}}')
    else:
        _show([found])
        click.echo()
        list_rows(IN_QUEUE, jobs, limit, as_json, f"jobs in queue {name}")


@queue.command()
@named
@yes
@connected
def clear(app: App, name: str, yes: bool) -> None:
    """Deletes all jobs that wait in the queue."""
    if may_clear(f"queue {name}", _existing(app.inspector, name).size, yes):
        tell(cleared(app.inspector, waiting_in(name), f"queue {name}"), "deleted")


@queue.command()
@named
@filtered
@dry_run
@as_json
@connected
def delete(app: App, name: str, wanted: Filter, dry_run: bool, as_json: bool) -> None:
    """Deletes the jobs of the queue that fit a filter."""
    if wanted.empty:
        raise click.UsageError("choose the jobs to delete: by --jid or by a filter; `queue clear` deletes all")
    found, tracking = _existing(app.inspector, name), TrackingFilter(wanted)
    steps = app.inspector.delete(waiting_in(name), tracking, dry_run)
    total = carry_out(app.inspector, chosen(f"queue {name}", wanted), steps, found.size, dry_run)
    tell(total, "would be deleted" if dry_run else "deleted", as_json)
    tracking.report_missing(f"queue {name}")


@queue.command()
@named
@click.argument("to", callback=_name)
@filtered
@click.option("--all", "everything", is_flag=True, help="all jobs of the queue")
@dry_run
@as_json
@connected
def move(app: App, name: str, to: str, wanted: Filter, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Moves jobs of the queue to the back of queue TO, in their order. Choose them by --jid, by a filter, or --all."""
    if wanted.empty != everything:
        raise click.UsageError("choose the jobs to move: by --jid, by a filter, or --all")
    inspector, tracking = app.inspector, TrackingFilter(wanted)
    found, known = _existing(inspector, name), inspector.queue(to)
    what = chosen(f"queue {name} to queue {to}", wanted)
    total = carry_out(inspector, what, inspector.move(name, to, tracking, dry_run), found.size, dry_run)
    tell(total, "would be moved" if dry_run else "moved", as_json)
    if known is None:
        click.echo(f"pyworkers: no job has been pushed to queue {to} before; check the name", err=True)
    tracking.report_missing(f"queue {name}")


@queue.command()
@named
@connected
def pause(app: App, name: str) -> None:
    """Pauses the queue until `resume`. No pyworkers process begins a job of it meanwhile. Running jobs go on."""
    known = app.inspector.queue(name)
    with noted(app.inspector, f"queue {name}") as change:
        change.count = changed = app.inspector.pause(name)
    click.echo(f"{name} is paused" if changed else f"{name} was paused already")
    if known is None:
        click.echo(f"pyworkers: no job has been pushed to queue {name} yet; check the name", err=True)


@queue.command()
@named
@connected
def resume(app: App, name: str) -> None:
    """Ends the pause of the queue."""
    with noted(app.inspector, f"queue {name}") as change:
        change.count = changed = app.inspector.resume(name)
    click.echo(f"{name} is resumed" if changed else f"{name} was not paused")


@click.command()
@click.argument("queue", required=False)
@click.option("--set", "of_set", type=click.Choice(list(PLACES)), help="the jobs of this set instead of a queue")
@filtered
@limit
@as_json
@connected
def jobs(app: App, queue: str | None, of_set: str | None, wanted: Filter, limit: int, as_json: bool) -> None:
    """Lists the jobs of a queue, newest first, or of a set."""
    if of_set is not None and queue is None:
        list_place(app, PLACES[of_set], wanted, limit, as_json)
    elif queue is not None and of_set is None:
        _existing(app.inspector, queue)
        found = app.inspector.jobs(waiting_in(queue), wanted)
        list_rows(IN_QUEUE, found, limit, as_json, f"jobs in queue {queue} {wanted}")
    else:
        raise click.UsageError("give either a queue's name, or --set retries, scheduled, parked, outbox or dead")


def _existing(inspector: Inspector, name: str) -> QueueStats:
    found = inspector.queue(name)
    if found is None:
        fail(f"there is no queue {name!r}; `pyworkers queues` lists all", FAILED)
    return found


def _show(found: Sequence[QueueStats]) -> None:
    rows = [
        (queue.name, str(queue.size), duration(queue.latency_s), "yes" if queue.paused else "no") for queue in found
    ]
    TextTable("queue", "size>", "latency>", "paused").add(rows)
