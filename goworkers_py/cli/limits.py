"""`limits list`, `show`, `set`, `unset`, `forget`: how many jobs run at once, and how many begin in a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import click
import simplejson

from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail
from goworkers_py.cli.selection import as_json, dry_run, limit
from goworkers_py.cli.tables import Table, arguments, cut, when
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.limit import ANY_RATE, MOST, LimitEntry, Rate, SlotEntry, rate_of
from goworkers_py.wire.stored_job import StoredJob

# Of a limit with very many keys, so many are counted.
MOST_COUNTED = 100_000
LONGEST_JOB = 60
_ANY = "any"


@click.group(cls=CommandGroup)
def limits() -> None:
    """Shows limits and who waits for them, or overrides them."""


@limits.command("list")
@as_json
@connected
def list_(app: App, as_json: bool) -> None:
    """Lists limits. Tells what they allow, how many jobs have places and how many wait."""
    table = Table("limit", "concurrent", "rate", "burst", "set by hand", "keys>", "places>", "waiting>")
    rows: list[tuple[str, ...]] = []
    for entry in app.inspector.limits():
        told = _told(entry, app.inspector)
        if as_json:
            click.echo(simplejson.dumps(told))
        else:
            by_hand = "yes" if told["set"] else "-"
            numbers = told["keys"], told["places"], told["waiting"]
            rows.append((entry.name, *_allowed(entry), by_hand, *map(str, numbers)))
    if not rows and not as_json:
        click.echo("no limits")
        return
    table.add(rows)


@limits.command()
@click.argument("name")
@limit
@as_json
@connected
def show(app: App, name: str, limit: int, as_json: bool) -> None:
    """Shows a limit, who has its places, and how many jobs wait, by key. Exit code 1 when it is not known."""
    entry = _entry(app.inspector, name)
    slots = itertools.islice(app.inspector.slots(name), limit or None)
    if as_json:
        told = {**_told(entry, app.inspector), "slots": [_slot(one) for one in slots]}
        click.echo(simplejson.dumps(told))
        return
    concurrent, rate, burst = _allowed(entry)
    click.echo(
        f"{name}: concurrent {concurrent}, rate {rate}, burst {burst}{', set by hand' if _is_set(entry) else ''}"
    )
    table = Table("key", "waiting>", "job", "since", "held by", "next job")
    table.add(_rows(slots))


@limits.command("set")
@click.argument("name")
@click.option("--concurrent", metavar="N", help="jobs that run at once: a number, 0 lets no job begin, or any")
@click.option("--rate", metavar="RATE", help="jobs that begin in a time, such as 100/minute, or any")
@click.option("--burst", type=click.IntRange(1, MOST), help="jobs of the rate that begin at once after a pause")
@dry_run
@connected
def set_(app: App, name: str, concurrent: str | None, rate: str | None, burst: int | None, dry_run: bool) -> None:
    """Overrides a limit in the whole fleet until `limits unset`."""
    entry = _entry(app.inspector, name)
    number, new_rate = _concurrent(concurrent), _rate(entry, rate, burst)
    if number is None and new_rate is None:
        raise ArgumentError("limits set: give --concurrent, --rate or --burst")
    if not dry_run:
        app.inspector.set_limit(name, number, new_rate)
    click.echo(f"{name}: {'would be set' if dry_run else 'set'}")


@limits.command()
@click.argument("name")
@dry_run
@connected
def unset(app: App, name: str, dry_run: bool) -> None:
    """Ends what `limits set` has set. Exit code 1 when nothing was set."""
    entry = _entry(app.inspector, name)
    there = _is_set(entry) if dry_run else app.inspector.unset_limit(name)
    click.echo(f"{name}: {('would be unset' if dry_run else 'unset') if there else 'nothing is set'}")
    if not there:
        raise SystemExit(FAILED)


@limits.command()
@click.argument("name")
@dry_run
@connected
def forget(app: App, name: str, dry_run: bool) -> None:
    """Removes a limit that no code declares any more.

    What `limits set` has set is removed too. Exit code 1 while jobs wait for it or have places in it. A program
    whose code still declares it brings it back.
    """
    _entry(app.inspector, name)
    if next(app.inspector.slots(name), None) is not None:
        fail(f"{name}: jobs wait for it or have places in it; `pyworkers limits show {name}` shows them", FAILED)
    if not dry_run:
        app.inspector.forget_limit(name)
    click.echo(f"{name}: {'would be forgotten' if dry_run else 'forgotten'}")


def _entry(inspector: Inspector, name: str) -> LimitEntry:
    entries = inspector.limits()
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        known = ", ".join(entry.name for entry in entries) or "none"
        fail(f"no program has declared a limit {name}; known limits: {known}", FAILED)
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


def _slot(one: SlotEntry) -> dict[str, Any]:
    holders = [holder._asdict() for holder in one.holders]
    message = StoredJob(one.next).message if one.next else None
    following = {"jid": message.jid, "class": message.job_class, "args": message.args} if message else None
    return {"key": one.slot.key, "waiting": one.waiting, "holders": holders, "next": following}


def _rows(slots: Iterable[SlotEntry]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in slots:
        head = one.slot.key or "-", str(one.waiting)
        holders = [(holder.jid, when(holder.since), holder.owner or "nobody: it waits") for holder in one.holders]
        rows += [(*head, *holder, _next(one)) for holder in holders or [("-", "-", "-")]]
    return rows


def _next(one: SlotEntry) -> str:
    """A key is shown as a digest, so the arguments of a job tell which it is."""
    message = StoredJob(one.next).message if one.next else None
    return "-" if message is None else cut(f"{message.job_class} {arguments(message)}", LONGEST_JOB)
