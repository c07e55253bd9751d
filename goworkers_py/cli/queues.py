"""`queues`, `queue show|clear|pause|resume|delete`, `jobs`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import click

import goworkers_py
from goworkers_py.admin.entries import Filter
from goworkers_py.admin.job_sets import Changed, SetName
from goworkers_py.admin.queues import Queues
from goworkers_py.admin.stats import QueueStats
from goworkers_py.cli.base import FAILED, Words, connected, fail
from goworkers_py.cli.job_sets import COLUMNS, NONE, entries_of
from goworkers_py.cli.listing import IN_QUEUE, list_entries, tell_of_none
from goworkers_py.cli.selection import Wish, as_json, dry_run, filtered, limit, may_clear, progress, tell, yes
from goworkers_py.cli.tables import Table, duration
from goworkers_py.config.options import Config
from goworkers_py.wire import payload


@click.command()
@as_json
@connected
def queues(config: Config, as_json: bool) -> None:
    """The queues: size, how long the next job has waited, whether they are paused."""
    _show(_queues().all(), as_json)
    if told := _queues().foreign():
        fail("; ".join(told), FAILED)


@click.group(cls=Words)
def queue() -> None:
    """One queue."""


def _name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value or not payload.encodable(value):
        raise click.BadParameter("a queue's name is text")
    return value


named = click.argument("name", callback=_name)


@queue.command()
@named
@limit
@as_json
@connected
def show(config: Config, name: str, limit: int, as_json: bool) -> None:
    """The queue and its next jobs, in the order in which they will run; `jobs` lists all of them."""
    found = _existing(name)
    entries = _queues().next_jobs(name, limit)
    if as_json:
        jobs = ",".join(entry.as_json for entry in entries)
        click.echo(f'{json.dumps(dataclasses.asdict(found))[:-1]}, "next": [{jobs}]}}')
    else:
        _show([found], as_json)
        click.echo()
        list_entries(IN_QUEUE, entries, limit, as_json, f"jobs in queue {name}")


@queue.command()
@named
@yes
@connected
def clear(config: Config, name: str, yes: bool) -> None:
    """Deletes all jobs that wait in it."""
    if may_clear(f"queue {name}", _existing(name).size, yes):
        tell(Changed(_queues().clear(name)), "deleted")


@queue.command()
@named
@filtered
@dry_run
@as_json
@connected
def delete(config: Config, name: str, wanted: Filter, dry_run: bool, as_json: bool) -> None:
    """Deletes the jobs that a filter finds."""
    if wanted.empty:
        raise click.UsageError("say which jobs to delete, by --jid or a filter; queue clear deletes all")
    found, wish, deleted = _existing(name), Wish(wanted), 0
    with progress(found.size) as advance:
        for looked_at, removed in _queues().delete(name, wish.fits, dry_run):
            deleted += removed
            advance(looked_at)
    tell(Changed(deleted), "would be deleted" if dry_run else "deleted", as_json)
    wish.report_missing(f"queue {name}")


@queue.command()
@named
@connected
def pause(config: Config, name: str) -> None:
    """No pyworkers process begins a job of it until `resume`; what runs is run to its end."""
    known = _queues().one(name)
    changed = _queues().pause(name)
    click.echo(f"{name} is paused" if changed else f"{name} was paused already")
    if known is None:
        click.echo(f"pyworkers: nothing has been pushed to a queue {name} yet", err=True)


@queue.command()
@named
@connected
def resume(config: Config, name: str) -> None:
    """Ends a pause."""
    changed = _queues().resume(name)
    click.echo(f"{name} is resumed" if changed else f"{name} was not paused")


@click.command()
@click.argument("queue", required=False)
@click.option("--set", "of_set", type=click.Choice([name.value for name in SetName]), help="of a set, not a queue")
@filtered
@limit
@as_json
@connected
def jobs(config: Config, queue: str | None, of_set: str | None, wanted: Filter, limit: int, as_json: bool) -> None:
    """The jobs of a queue, the newest first, or of a set."""
    if (queue is None) == (of_set is None):
        raise click.UsageError("say where: a queue's name, or --set retries, scheduled or dead")
    if queue is not None:
        _existing(queue)
        entries = (entry for page in _queues().pages(queue) for entry in page)
        list_entries(IN_QUEUE, filter(wanted.fits, entries), limit, as_json, f"jobs in queue {queue} {wanted}")
    else:
        name = SetName(of_set)
        found = filter(wanted.fits, entries_of(name, config))
        list_entries(COLUMNS[name], found, limit, as_json, f"{NONE[name]} {wanted}")


def _existing(name: str) -> QueueStats:
    found = _queues().one(name)
    if found is None:
        fail(f"there is no queue {name!r}; pyworkers queues lists them", FAILED)
    return found


def _show(found: Sequence[QueueStats], as_json: bool) -> None:
    if as_json:
        for one in found:
            click.echo(json.dumps(dataclasses.asdict(one)))
        return
    if not found:
        tell_of_none("queues", as_json)
    rows = [(one.name, str(one.size), duration(one.latency_s), "yes" if one.paused else "no") for one in found]
    Table("queue", "size>", "latency>", "paused").add(rows)


def _queues() -> Queues:
    return Queues(*goworkers_py.app.place)
