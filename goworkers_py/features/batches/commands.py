"""`batches list`, `batches show`, `batches cancel`, `batches close`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import click
import simplejson

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json, change_each, dry_run, limit
from goworkers_py.cli.tables import TextTable, when
from goworkers_py.features.batches.batch import BatchStatus


@click.group(cls=CommandGroup)
def batches() -> None:
    """Shows batches of jobs, cancels them, or closes open ones."""


@batches.command("list")
@click.option("--open", "only_open", is_flag=True, help="only batches that have not ended")
@limit
@as_json
@connected
def list_(app: App, only_open: bool, limit: int, as_json: bool) -> None:
    """Lists batches, the last changed first. Batches that ended without failed jobs come last."""
    found = (batch for batch in app.inspector.batches.all() if not (only_open and batch.ended_at))
    show_all([*itertools.islice(found, limit or None)], as_json, _show, "batches", _fields)


@batches.command()
@click.argument("bid")
@as_json
@connected
def show(app: App, bid: str, as_json: bool) -> None:
    """Shows a batch and the newest of its jobs that failed for good. Exit code 1 when there is none."""
    status = app.inspector.batches.status(bid)
    if status is None:
        fail(f"there is no batch {bid}, or not any more", FAILED)
    deaths = app.inspector.batches.deaths(bid)
    if as_json:
        records = [death._asdict() for death in deaths]
        click.echo(simplejson.dumps({**_fields(status), "deaths": records}))
        return
    _show([status])
    click.echo(_why(status))
    if deaths:
        table = TextTable("failed job", "class", "at", "error")
        table.add([(death.jid or "?", death.job_class or "?", when(death.at), death.error) for death in deaths])


@batches.command()
@click.argument("bids", nargs=-1, required=True)
@dry_run
@connected
def cancel(app: App, bids: Sequence[str], dry_run: bool) -> None:
    """Cancels batches. Their jobs that wait do not run, and those that run are interrupted.

    Exit code 1 when one of them has ended or is not there.
    """
    _change(app, bids, dry_run, app.inspector.batches.cancel, "cancelled")


@batches.command()
@click.argument("bids", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="end them now, though some of their jobs have not ended")
@dry_run
@connected
def close(app: App, bids: Sequence[str], force: bool, dry_run: bool) -> None:
    """Closes batches that a killed program keeps open. They end with their last job.

    With --force they end now: for jobs that another program has deleted. Exit code 1 when one of them has ended or is
    not there.
    """
    _change(app, bids, dry_run, lambda bid: app.inspector.batches.close(bid, force=force), "closed")


def _change(app: App, bids: Sequence[str], dry_run: bool, change: Callable[[str], bool], done: str) -> None:
    def is_open(bid: str) -> bool:
        status = app.inspector.batches.status(bid)
        return status is not None and status.ended_at is None

    could = is_open if dry_run else None
    change_each(app.inspector, "batches", bids, done, change, could, "has ended or is not there")


def _fields(status: BatchStatus) -> dict[str, Any]:
    return {**dataclasses.asdict(status), "pending": status.pending, "state": status.state}


def _why(status: BatchStatus) -> str:
    """Why the batch has not ended."""
    if status.ended_at is not None:
        return f"ended {when(status.ended_at)}"
    waits = (
        [f"{counted(status.pending)} {'has' if status.pending == 1 else 'have'} not ended"] if status.pending else []
    )
    held = [f"{status.holds} programs keep it open (`pyworkers batches close`)"] if status.holds else []
    return " and ".join([*waits, *held])


def _show(found: Sequence[BatchStatus]) -> None:
    table = TextTable(
        "batch", "name", "state", "opened", "jobs>", "pending>", "succeeded>", "failed>", "cancelled>", "expired>"
    )
    table.add(
        [
            (batch.bid, batch.name or "-", _state(batch), when(batch.at or None), *map(str, _counts(batch)))
            for batch in found
        ]
    )


def _state(batch: BatchStatus) -> str:
    return f"{batch.state} (held by a program)" if batch.holds and batch.ended_at is None else batch.state


def _counts(batch: BatchStatus) -> tuple[int, ...]:
    return batch.total, batch.pending, batch.succeeded, batch.failed, batch.cancelled, batch.expired
