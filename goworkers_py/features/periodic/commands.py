"""`periodic list|show|history|pause|resume|run|set|forget|import`: periodic jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail, json_of
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, dry_run, limit
from goworkers_py.cli.tables import TextTable, as_text, clock_time, duration, printable, when
from goworkers_py.features.periodic.admin import PeriodicJobStatus, status_of_foreign
from goworkers_py.features.periodic.schedule import ForeignSchedule, HistoryEntry
from goworkers_py.features.periodic.slots import zone_of

# Slots and firings of a schedule that `show` shows.
SHOWN = 5
_BY_A_FUNCTION = "made by a function, for each slot"
_SEMICOLON = "\\u003b"  # in JSON; a comment would begin with the character itself


@click.group(cls=CommandGroup)
def periodic() -> None:
    """Shows or changes periodic jobs. NAME is that of the schedule, or SOURCE:NAME where two applications have one."""


@periodic.command("list")
@as_json
@connected
def list_(app: App, as_json: bool) -> None:
    """Lists the schedules with their next and last firing. Those of sidekiq-cron and sidekiq-scheduler are in it."""
    found = [*app.inspector.periodic_jobs(), *map(status_of_foreign, app.inspector.foreign_schedules())]
    show_all(found, as_json, _show, "periodic jobs")


@periodic.command()
@click.argument("name")
@as_json
@connected
def show(app: App, name: str, as_json: bool) -> None:
    """Shows one schedule with its next slots and its last firings."""
    inspector, slots, last = app.inspector, list[float](), list[HistoryEntry]()
    foreign = [status for status in map(status_of_foreign, inspector.foreign_schedules()) if _is_named(status, name)]
    if len(foreign) == 1 and not any(_is_named(status, name) for status in inspector.periodic_jobs()):
        [found] = foreign
    else:
        found, slots = inspector.periodic_job(name), inspector.periodic_slots(name, SHOWN)
        last = inspector.periodic_history(name)[:SHOWN]
    if as_json:
        click.echo(simplejson.dumps(_as_fields(found, slots, last)))
        return
    _show_details(found, slots)
    if last:
        click.echo()
        _show_history(last)


@periodic.command()
@click.argument("name")
@limit
@as_json
@connected
def history(app: App, name: str, limit: int, as_json: bool) -> None:
    """Shows the last firings of a schedule, the newest first. Tells what happened to each slot, and how late."""
    found = app.inspector.periodic_history(name)[: limit or None]
    show_all(found, as_json, _show_history, f"firings of {name} yet", HistoryEntry._asdict)


@periodic.command()
@click.argument("name")
@dry_run
@connected
def pause(app: App, name: str, dry_run: bool) -> None:
    """Stops a schedule, in all processes, until `resume`. Exit code 1 when it is paused already."""
    _change(app, name, dry_run, "paused", app.inspector.pause_periodic, "is paused already")


@periodic.command()
@click.argument("name")
@dry_run
@connected
def resume(app: App, name: str, dry_run: bool) -> None:
    """Ends a pause. The slots of its time are not made up for. Exit code 1 when it is not paused."""
    _change(app, name, dry_run, "resumed", app.inspector.resume_periodic, "is not paused")


@periodic.command()
@click.argument("name")
@dry_run
@connected
def run(app: App, name: str, dry_run: bool) -> None:
    """Pushes a job of the schedule now, also of a paused one. A process that has it in its code does so within seconds.
    Exit code 1 when no process has."""
    _change(app, name, dry_run, "asked for", app.inspector.run_periodic, "is in the code of no live process")


@periodic.command("set")
@click.argument("name")
@click.option("--cron", default="", help="cron expression")
@click.option("--every", type=click.IntRange(min=1), default=None, help="seconds")
@click.option("--timezone", default="", help="time zone of the cron expression")
@click.option("--args", "arguments", default=None, metavar="JSON", help="list of arguments")
@click.option("--unset", is_flag=True, help="what the code says counts again")
@dry_run
@connected
def set_(
    app: App, name: str, cron: str, every: int | None, timezone: str, arguments: str | None, unset: bool, dry_run: bool
) -> None:
    """Changes when a schedule fires, or the arguments of its jobs. All processes obey, until `set NAME --unset`."""
    if unset and (cron or every or timezone or arguments is not None):
        raise click.UsageError("--unset goes without other options")
    if unset:
        _change(app, name, dry_run, "unset", app.inspector.unset_periodic, "has nothing set")
        return
    args = None if arguments is None else json_of(arguments, list, "--args must be a JSON list")
    if not (cron or every or timezone or args is not None):
        raise click.UsageError("give --cron, --every, --timezone, --args or --unset")

    def change(name: str) -> bool:
        app.inspector.set_periodic(name, cron=cron, every=every or 0, timezone=timezone, args=args)
        return True

    _change(app, name, dry_run, "set", change, "")


@periodic.command()
@click.argument("name")
@dry_run
@connected
def forget(app: App, name: str, dry_run: bool) -> None:
    """Deletes a schedule that no code has any more, with its history. It is refused while a process of the last minute
    has it in its code."""
    app.inspector.check_unused_periodic(name)
    _change(app, name, dry_run, "forgotten", app.inspector.forget_periodic, "is forgotten already")


@periodic.command("import")
@click.option("--timezone", default="", help="time zone of the Ruby processes, for times that name none")
@connected
def import_(app: App, timezone: str) -> None:
    """Prints schedules of Ruby gems as sections for the configuration. It reads sidekiq-cron and sidekiq-scheduler.

    A schedule that would mean something else here is printed as a comment. The reason stands beside it, and on the
    standard error output.
    """
    found = app.inspector.foreign_schedules()
    if timezone:
        zone_of(timezone)  # refuses one that nobody knows
    for schedule in found:
        if schedule.cron and not schedule.timezone:
            schedule = dataclasses.replace(schedule, timezone=timezone)
        obstacles = list(_obstacles(schedule))
        click.echo("\n".join(_section(schedule, obstacles)))
        for reason in (*obstacles, *schedule.remarks):
            click.echo(f"pyworkers: {_one_line(schedule.name)}: {_one_line(reason)}", err=True)
    if not found:
        click.echo("pyworkers: no schedules of sidekiq-cron or sidekiq-scheduler", err=True)


def _change(app: App, name: str, dry_run: bool, done: str, change: Callable[[str], bool], why_not: str) -> None:
    if dry_run:
        app.inspector.periodic_history(name)  # fails where there is none of this name
        click.echo(f"{name}: would be {done}")
        return
    with noted(app.inspector, f"periodic job {name}{'' if done != 'unset' else ': unset'}") as noting:
        noting.count = changed = change(name)
    if not changed:
        fail(f"{name} {why_not}", FAILED)
    click.echo(f"{name}: {done}")


def _show(found: Sequence[PeriodicJobStatus]) -> None:
    table = TextTable("name", "source", "when", "class", "queue", "state", "next", "last")
    table.add(
        [
            (status.name, status.source, status.rule + (" (set)" if status.overridden else ""), status.job_class or "-",
             status.queue or "-", status.state, when(status.next_at),
             f"{status.last.word} {when(status.last.at)}" if status.last else "-")
            for status in found
        ]
    )  # fmt: skip


def _as_fields(status: PeriodicJobStatus, slots: Sequence[float], history: Sequence[HistoryEntry]) -> dict[str, Any]:
    return {**dataclasses.asdict(status), "next_slots": [*slots], "history": [entry._asdict() for entry in history]}


def _show_details(status: PeriodicJobStatus, slots: Sequence[float]) -> None:
    for name, text in _rows_of(status):
        click.echo(f"{name:<14} {printable(text)}")
    for number, slot in enumerate(slots):
        click.echo(f"{'' if number else 'next':<14} {clock_time(slot)}")


def _rows_of(status: PeriodicJobStatus) -> Iterator[tuple[str, str]]:
    yield "name", status.name
    yield "source", f"{status.source}, generation {status.generation}" if status.generation else status.source
    yield "state", f"{status.state}, paused by hand" if status.paused and status.state != "paused" else status.state
    set_rule = status.rule_of_code not in ("", status.rule)
    yield "when", f"{status.rule}, set by hand; the code says {status.rule_of_code}" if set_rule else status.rule
    yield "class", status.job_class or "-"
    yield "queue", status.queue or "-"
    yield "arguments", _arguments(status)
    if status.catch_up:
        yield "catch up", status.catch_up
        yield "overlap", status.overlap
    if status.seen_at is not None:
        yield "last seen", f"{when(status.seen_at)}, in the code of a process"
        yield "fired", f"{status.fired} slots; {status.skipped} were skipped or missed"
    if status.asked:
        yield "asked for", f"{status.asked} by hand, not pushed yet"


def _arguments(status: PeriodicJobStatus) -> str:
    if status.args is None:
        return _BY_A_FUNCTION
    if not status.overridden or status.args == status.args_of_code:
        return as_text(status.args)
    of_code = _BY_A_FUNCTION if status.args_of_code is None else as_text(status.args_of_code)
    return f"{as_text(status.args)}, set by hand; in the code {of_code}"


def _show_history(found: Sequence[HistoryEntry]) -> None:
    table = TextTable("slot", "what", "late>", "job", "missed since")
    table.add([_row(entry) for entry in found])


def _row(entry: HistoryEntry) -> tuple[str, str, str, str, str]:
    late = duration(max(0.0, entry.at - entry.slot)) if entry.word == "fired" else "-"
    since = clock_time(entry.missed_from) if entry.missed_from is not None else "-"
    return clock_time(entry.slot), entry.word, late, entry.jid or "-", since


def _is_named(status: PeriodicJobStatus, name: str) -> bool:
    return name in (status.name, f"{status.source}:{status.name}")


def _obstacles(schedule: ForeignSchedule) -> Iterator[str]:
    if not schedule.enabled:
        yield f"it is disabled in {schedule.program}"
    if schedule.cron and not schedule.timezone:
        yield "its times are in the time zone of the Ruby processes: say --timezone"
    if not all(map(_fits_a_line, (schedule.name, schedule.job_class, schedule.queue))):
        yield "its name, class or queue has characters that a section cannot have"
    yield from schedule.obstacles


def _section(schedule: ForeignSchedule, obstacles: Sequence[str]) -> Iterator[str]:
    """All of it is a comment where something is in the way."""
    active = "; " if obstacles else ""
    yield f"{active}[periodic:{_one_line(schedule.name)}]"
    yield f"# from {schedule.program}: {_one_line(schedule.rule)}. Remove it there"
    for obstacle in obstacles:
        yield f"# not active: {_one_line(obstacle)}"
    for remark in schedule.remarks:
        yield f"# {_one_line(remark)}"
    if schedule.every:
        yield f"{active}every = {schedule.every}"
    else:
        yield f"{active}cron = {schedule.cron}"
        yield f"{active}timezone = {schedule.timezone}"
    yield f"{active}class = {_one_line(schedule.job_class)}"
    yield f"{active}queue = {_one_line(schedule.queue)}"
    if schedule.args:
        yield f"{active}args = {as_text(schedule.args).replace(';', _SEMICOLON)}"
    yield ""


def _fits_a_line(text: str) -> bool:
    return text.isprintable() and text == text.strip() and not set(text) & set(";]")


def _one_line(text: str) -> str:
    """The text comes from Redis, and nobody who writes there may add lines to a configuration."""
    return "".join(character if character.isprintable() else " " for character in text)
