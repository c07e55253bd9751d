"""`groups list`, `groups show`, `groups flush`, `groups set`, `groups delete`: jobs that wait to be aggregated."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import click

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, Function, connected, fail
from goworkers_py.cli.listing import IN_QUEUE, list_rows, show_all
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, confirm, dry_run, limit, yes
from goworkers_py.cli.tables import TextTable, exact_duration, when
from goworkers_py.cli.times import span_of
from goworkers_py.features.groups.group import Group, GroupEntry, OwnSettings


@click.group(cls=CommandGroup)
def groups() -> None:
    """Shows groups of jobs, flushes them, or gives them settings."""


def named(command: Function) -> Function:
    """Adds what names a group or a set of it, and calls the command with the Group."""
    about = "a set of members whose aggregation job was pushed, by its name in `groups list`"
    return named_open(click.option("--set", "of_set", default="", metavar="SET", help=about)(command))


def named_open(command: Function) -> Function:
    """Adds what names an open group, and calls the command with the Group."""

    def run(app: App, job_class: str, name: str, queue: str, of_set: str = "", **given: Any) -> Any:
        return command(app, _found(app, job_class, name, queue, of_set), **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    run = click.option("--queue", default="", help="the queue of the group, where several have this name")(run)
    run = click.argument("name")(run)
    return click.argument("job_class", metavar="CLASS")(run)


def _found(app: App, job_class: str, name: str, queue: str, of_set: str) -> Group:
    if queue:
        return Group(queue, job_class, name, of_set)
    entries = app.inspector.groups(job_class)
    found = {entry.group.queue for entry in entries if entry.group.name == name and of_set in ("", entry.group.set)}
    if len(found) > 1:
        fail(f"queues {', '.join(sorted(found))} have a group {name} of {job_class}: choose one by --queue", FAILED)
    if not found:
        is_set = click.get_current_context().info_name == "set"
        hint = "; a group without members takes settings with --queue" if is_set else ""
        fail(f"there is no group {name} of {job_class}; `pyworkers groups list` lists all{hint}", FAILED)
    return Group(found.pop(), job_class, name, of_set)


@groups.command("list")
@click.option("--class", "job_class", default="", help="only groups of this class")
@limit
@as_json
@connected
def list_(app: App, job_class: str, limit: int, as_json: bool) -> None:
    """Lists groups, those that are due first. A row with a set has members that are aggregated just now, or whose
    aggregation job waits, is retried or is dead."""
    found = app.inspector.groups(job_class)
    show_all([*itertools.islice(found, limit or None)], as_json, _show, "groups")


@groups.command()
@connected
@named
@limit
@as_json
def show(app: App, group: Group, limit: int, as_json: bool) -> None:
    """Lists the members of a group, the oldest first."""
    size = 0 if (entry := app.inspector.group(group)) is None else entry.size
    members = app.inspector.members(group, min(size, limit + 1) if limit else size)
    list_rows(IN_QUEUE, members, limit, as_json, f"members in {_named(app, group)}")


@groups.command()
@connected
@named
@dry_run
def flush(app: App, group: Group, dry_run: bool) -> None:
    """Lets a group be aggregated at once. With --set, pushes the job that aggregates the set once more: for a job that
    another program has deleted. However many such jobs there are, the members are aggregated once.

    Exit code 1 when it has no members.
    """
    with noted(app.inspector, _entry(group), dry_run) as change:
        there = bool(app.inspector.members(group, 1)) if dry_run else app.inspector.flush_group(group)
        change.count = int(there)
    if not there:
        fail(f"no members in {_named(app, group)}", FAILED)
    click.echo(f"{group.name}: {'would be flushed' if dry_run else 'is due now'}")


@groups.command("set")
@connected
@click.option("--grace", metavar="TIME", callback=span_of, help="so long after its last member: 5m, or seconds")
@click.option("--max-delay", metavar="TIME", callback=span_of, help="so long after its first member; 0: no limit")
@click.option("--max-size", type=click.IntRange(0, 1_000_000_000), help="number of members; 0: no limit")
@click.option("--reset", is_flag=True, help="the settings of the code hold again")
@named_open
@dry_run
def set_(
    app: App, group: Group, grace: float | None, max_delay: float | None, max_size: int | None, reset: bool,
    dry_run: bool,
) -> None:  # fmt: skip
    """Gives a group settings of its own: when it is flushed. They hold at once, last while it is empty, and go before
    those of the code. A group without members needs --queue. Settings that are not named stay as they are.

    Exit code 1 when --reset finds nothing set.
    """
    given = OwnSettings(grace, max_delay, max_size)
    if reset == (given != OwnSettings()):
        raise click.UsageError("give --grace, --max-delay or --max-size, or --reset alone")
    entry = app.inspector.group(group)
    own = OwnSettings() if reset or entry is None else entry.own
    if reset and (entry is None or entry.own == OwnSettings()):
        fail(f"{group.name}: nothing is set", FAILED)
    if entry is None:
        _warn_of_unknown(app, group)
    changed = own._replace(**{name: value for name, value in given._asdict().items() if value is not None})
    if not dry_run:
        with noted(app.inspector, f"{_entry(group)}: {_own_settings(changed) or 'no settings of its own'}") as change:
            app.inspector.set_group(group, changed)
            change.count = 1
    click.echo(
        f"{group.name}: {'would have' if dry_run else 'has'} {_own_settings(changed) or 'no settings of its own'}"
    )


def _warn_of_unknown(app: App, group: Group) -> None:
    """Settings for a group that will never have members do nothing."""
    fetched = {queue for process in app.inspector.processes() for queue in process.queues}
    lacks = [] if any(app.inspector.groups(group.job_class)) else [f"class {group.job_class} has no groups now"]
    lacks += [] if group.queue in fetched else [f"no live process fetches from queue {group.queue}"]
    if lacks:
        click.echo(f"pyworkers: warning: {', and '.join(lacks)}: look for a misspelt name", err=True)


@groups.command()
@connected
@named
@yes
@dry_run
def delete(app: App, group: Group, yes: bool, dry_run: bool) -> None:
    """Deletes all members of a group. Exit code 1 when it has none."""
    entry = app.inspector.group(group)
    if entry is None or not entry.size:
        fail(f"no members in {_named(app, group)}", FAILED)
    if dry_run:
        click.echo(f"{counted(entry.size)} would be deleted")
        return
    confirm(f"delete {counted(entry.size)} of group {group.name}", yes)
    with noted(app.inspector, _entry(group)) as change:
        change.count = app.inspector.delete_group(group)
    click.echo(f"{counted(change.count)} deleted")


def _named(app: App, group: Group) -> str:
    """An empty group, and where its members may be: in sets that are aggregated."""
    same = (entry for entry in app.inspector.groups(group.job_class) if entry.size and entry.group.open == group)
    sets = ", ".join(entry.group.set for entry in same)
    hint = f"; to see those whose aggregation job was pushed, add --set: {sets}" if sets else ""
    return f"group {group.name} of {group.job_class}{hint}"


def _entry(group: Group) -> str:
    return f"group {group.name} of {group.job_class} in queue {group.queue}{group.set and f', set {group.set}'}"


def _own_settings(own: OwnSettings) -> str:
    """The settings that have a value. 0 is no limit."""
    spans = {"grace": own.grace_s, "max delay": own.max_delay_s}
    texts = [f"{name} {exact_duration(span) if span else 0}" for name, span in spans.items() if span is not None]
    return ", ".join([*texts, *([] if own.max_size is None else [f"max size {own.max_size}"])])


def _show(entries: Sequence[GroupEntry]) -> None:
    table = TextTable("class", "queue", "group", "set", "members>", "since", "due", "settings")
    table.add([_row(entry) for entry in entries])


def _row(entry: GroupEntry) -> tuple[str, ...]:
    group, settings = entry.group, entry.settings
    settings_text = f"grace {exact_duration(settings.grace_s)}"
    settings_text += f", max delay {exact_duration(settings.max_delay_s)}" if settings.max_delay_s else ""
    settings_text += f", max size {settings.max_size}" if settings.max_size else ""
    settings_text += " (set by hand)" if entry.own != OwnSettings() else ""
    due = "pushed" if group.set and entry.due is None else when(entry.due)
    return (
        group.job_class, group.queue, group.name, group.set or "-", str(entry.size), when(entry.first), due,
        "-" if group.set else settings_text,
    )  # fmt: skip
