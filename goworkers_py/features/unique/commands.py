"""`locks list`, `locks show`, `locks free`: the locks of unique jobs."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Sequence

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json, change_each, dry_run, limit
from goworkers_py.cli.tables import TextTable, when
from goworkers_py.features.unique.lock import LockEntry

_HELD = "to see the locks that are held: pyworkers locks list"


@click.group(cls=CommandGroup)
def locks() -> None:
    """Shows or frees the locks of unique jobs. A lock's name is its class, a colon and a digest."""


@locks.command("list")
@click.option("--class", "job_class", default="", help="only locks of this class")
@limit
@as_json
@connected
def list_(app: App, job_class: str, limit: int, as_json: bool) -> None:
    """Lists locks with the jobs that hold them, in no order."""
    found = app.inspector.locks(f"{job_class}:" if job_class else "")
    show_all([*itertools.islice(found, limit or None)], as_json, _show, "locks")


@locks.command()
@click.argument("name")
@as_json
@connected
def show(app: App, name: str, as_json: bool) -> None:
    """Shows a lock. `job show` shows the job that holds it. Exit code 1 when no job holds it."""
    entry = app.inspector.lock(name)
    if entry is None:
        fail(_why_not(name), FAILED)
    if as_json:
        click.echo(simplejson.dumps(dataclasses.asdict(entry)))
    else:
        _show([entry])


@locks.command()
@click.argument("names", nargs=-1, required=True)
@dry_run
@connected
def free(app: App, names: Sequence[str], dry_run: bool) -> None:
    """Frees locks. Their jobs stay, and run: a second one of the same key may be pushed then.

    Exit code 1 when no job holds one of them.
    """
    could = (lambda name: app.inspector.lock(name) is not None) if dry_run else None
    change_each(app.inspector, "locks", names, "freed", app.inspector.free_lock, could, "no job holds it")


def _why_not(name: str) -> str:
    """A free lock leaves nothing in the broker, so a free one and a misspelt one look alike."""
    job_class = name.rpartition(":")[0]
    if not job_class:
        return f"{name} names no lock: the name of a lock is the class of its job, a colon and a digest; {_HELD}"
    reason = f"no job holds the lock {name}: it is free, or its name is wrong, which cannot be told apart"
    return f"{reason}; {_HELD} --class {shlex.quote(job_class)}"


def _show(entries: Sequence[LockEntry]) -> None:
    table = TextTable("lock", "job", "queue", "since", "expires", "newer arguments", "its process")
    table.add(
        [
            (entry.name, entry.holder.jid or "?", entry.holder.queue or "-", when(entry.holder.at or None),
             "with its job" if entry.expires_at is None else when(entry.expires_at),
             "read" if entry.begun else "waiting" if entry.replaced else "-",
             entry.owner or "-")
            for entry in entries
        ]
    )  # fmt: skip
