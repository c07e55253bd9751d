"""`limits list`, `show`, `set`, `unset`, `forget`: how many jobs run at once, and how many begin in a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import click
import simplejson

from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail, with_jobs
from goworkers_py.cli.listing import report_none
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, dry_run, limit
from goworkers_py.cli.tables import Table
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.features.limits.configured import known_limits
from goworkers_py.features.limits.limit import ANY_RATE, MOST, LimitEntry, Rate, rate_of
from goworkers_py.features.limits.slot_jobs import jobs_with_places
from goworkers_py.features.limits.slot_tables import as_fields, show_slots

# Of a limit with very many keys, so many are counted.
MOST_COUNTED = 100_000
_ANY = "any"
UNKNOWN = "a limit is known when a process with its code has started, or by `-r MODULE` before that"


@click.group(cls=CommandGroup)
def limits() -> None:
    """Shows limits and who waits for them, or overrides them."""


@limits.command("list")
@as_json
@with_jobs
def list_(app: App, as_json: bool) -> None:
    """Lists limits. Tells what they allow, how many jobs have places and how many wait.

    Limits that only the configuration or the modules of -r have are in the list too.
    """
    declared = {entry.name: entry for entry in app.inspector.limits()}
    undeclared = {entry.name: entry for entry in _of_code(app) if entry.name not in declared}
    found = sorted({**declared, **undeclared}.items())
    rows: list[tuple[str, ...]] = []
    for name, entry in found:
        told = {**_told(entry, app.inspector), "declared": name in declared}
        if as_json:
            click.echo(simplejson.dumps(told))
        else:
            numbers = told["keys"], told["places"], told["waiting"]
            rows.append((name, *_allowed(entry), "yes" if told["set"] else "-", *map(str, numbers)))
    Table("limit", "concurrent", "rate", "burst", "set by hand", "keys>", "places>", "waiting>").add(rows)
    if undeclared:
        about = "in code or configuration only: a process declares its limits when it starts"
        click.echo(f"pyworkers: {', '.join(undeclared)}: {about}", err=True)
    if not found and not as_json:
        report_none(f"limits; {UNKNOWN}")


@limits.command()
@click.argument("name")
@limit
@as_json
@with_jobs
def show(app: App, name: str, limit: int, as_json: bool) -> None:
    """Shows a limit, who has its places, and how many jobs wait, by key. Exit code 1 when it is not known."""
    entry = _entry(app, name)
    slots = [*itertools.islice(app.inspector.slots(name), limit or None)]
    jobs = jobs_with_places(app.inspector, slots)
    if as_json:
        told = {**_told(entry, app.inspector), "slots": [as_fields(one, jobs) for one in slots]}
        click.echo(simplejson.dumps(told))
        return
    concurrent, rate, burst = _allowed(entry)
    click.echo(
        f"{name}: concurrent {concurrent}, rate {rate}, burst {burst}{', set by hand' if _is_set(entry) else ''}"
    )
    show_slots(slots, jobs)


@limits.command("set")
@click.argument("name")
@click.option("--concurrent", metavar="N", help="jobs that run at once: a number, 0 lets no job begin, or any")
@click.option("--rate", metavar="RATE", help="jobs that begin in a time, such as 100/minute, or any")
@click.option("--burst", type=click.IntRange(1, MOST), help="jobs of the rate that begin at once after a pause")
@dry_run
@with_jobs
def set_(app: App, name: str, concurrent: str | None, rate: str | None, burst: int | None, dry_run: bool) -> None:
    """Overrides a limit in the whole fleet until `limits unset`. A limit that no process has declared yet is declared
    then, if the configuration or a module of -r has it."""
    entry = _entry(app, name)
    number, new_rate = _concurrent(concurrent), _rate(entry, rate, burst)
    if number is None and new_rate is None:
        raise ArgumentError("limits set: give --concurrent, --rate or --burst")
    with noted(app.inspector, f"limit {name}{_of_settings(number, new_rate)}", dry_run) as change:
        if not dry_run and not app.inspector.set_limit(name, number, new_rate):
            app.inspector.declare_limit(entry.declared)
            app.inspector.set_limit(name, number, new_rate)
        change.count = 1
    click.echo(f"{name}: {'would be set' if dry_run else 'set'}")


@limits.command()
@click.argument("name")
@dry_run
@connected
def unset(app: App, name: str, dry_run: bool) -> None:
    """Ends what `limits set` has set. Exit code 1 when nothing was set."""
    entry = _declared(app, name)
    with noted(app.inspector, f"limit {name}", dry_run) as change:
        change.count = there = _is_set(entry) if dry_run else app.inspector.unset_limit(name)
    click.echo(f"{name}: {('would be unset' if dry_run else 'unset') if there else 'nothing is set'}")
    if not there:
        raise SystemExit(FAILED)


@limits.command()
@click.argument("name")
@dry_run
@connected
def forget(app: App, name: str, dry_run: bool) -> None:
    """Removes a limit that no code declares any more.

    The values of `limits set` go too. Exit code 1 while jobs wait for it or have places in it. A program
    whose code still declares it brings it back.
    """
    _declared(app, name)
    forget = app.inspector.check_unused_limit if dry_run else app.inspector.forget_limit
    try:
        with noted(app.inspector, f"limit {name}", dry_run) as change:
            forget(name)
            change.count = 1
    except ArgumentError as error:
        fail(str(error), FAILED)
    click.echo(f"{name}: {'would be forgotten' if dry_run else 'forgotten'}")


def _of_code(app: App) -> list[LimitEntry]:
    """The limits of the configuration, and of the modules of `require`, if these can be imported."""
    try:
        app.import_jobs()
    except ConfigError as error:
        click.echo(f"pyworkers: {str(error).splitlines()[0]}; the limits of its code are not known here", err=True)
    return [LimitEntry(one.name, one) for one in known_limits(app.registry.declared_limits, app.config)]


def _entry(app: App, name: str) -> LimitEntry:
    """A limit that a process has declared, or that code or configuration have."""
    declared = app.inspector.limits()
    entries = declared if any(entry.name == name for entry in declared) else [*declared, *_of_code(app)]
    return _named(name, entries, f"; {UNKNOWN}")


def _declared(app: App, name: str) -> LimitEntry:
    declared = app.inspector.limits()
    if name in {one.name for one in known_limits({}, app.config)} - {entry.name for entry in declared}:
        fail(f"no process has declared limit {name}, so there is nothing to remove; the configuration has it", FAILED)
    return _named(name, declared)


def _named(name: str, entries: Sequence[LimitEntry], hint: str = "") -> LimitEntry:
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        known = ", ".join(sorted({entry.name for entry in entries})) or "none"
        fail(f"no limit {name} is known; known limits: {known}{hint}", FAILED)
    return found


def _concurrent(told: str | None) -> int | None:
    if told is None:
        return None
    if told == _ANY:
        return -1
    if not told.isdecimal() or int(told) > MOST:
        raise ArgumentError(f"--concurrent must be a number of jobs or {_ANY}, is {told!r}")
    return int(told)


def _rate(entry: LimitEntry, told: str | None, burst: int | None) -> Rate | None:
    if told is None and burst is None:
        return None
    if told == _ANY:
        if burst is not None:
            raise ArgumentError("--burst: a rate of any has none")
        return ANY_RATE
    if told is None and entry.rate is None:
        raise ArgumentError(f"--burst: limit {entry.name} has no rate; give --rate too")
    try:
        rate = entry.rate if told is None else rate_of(told, entry.rate.burst if entry.rate else 1)
    except ValueError as error:
        raise ArgumentError(f"--rate {error}") from None
    assert rate is not None
    return rate if burst is None else rate._replace(burst=burst)


def _of_settings(number: int | None, rate: Rate | None) -> str:
    told = [] if number is None else [f"concurrent {_ANY if number < 0 else number}"]
    told += [] if rate is None else [f"rate {_ANY if rate == ANY_RATE else rate}, burst {rate.burst}"]
    return f": {', '.join(told)}"


def _is_set(entry: LimitEntry) -> bool:
    return entry.set_concurrent is not None or entry.set_rate is not None


def _allowed(entry: LimitEntry) -> tuple[str, str, str]:
    concurrent = _ANY if entry.concurrent is None else str(entry.concurrent)
    return concurrent, str(entry.rate or "-"), str(entry.rate.burst) if entry.rate else "-"


def _told(entry: LimitEntry, inspector: Inspector) -> dict[str, Any]:
    slots = [*itertools.islice(inspector.slots(entry.name), MOST_COUNTED)]
    rate = entry.rate
    return {
        "name": entry.name,
        "concurrent": entry.concurrent,
        "rate": str(rate) if rate else None,
        "burst": rate.burst if rate else None,
        "set": _is_set(entry),
        "keys": len(slots),
        "places": sum(len(one.holders) for one in slots),
        "waiting": sum(one.waiting for one in slots),
    }
