"""`limits list`, `show`, `set`, `unset`, `forget`: how many jobs run at once, and how many begin in a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import simplejson

from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import PARKED, RETRIES, waiting_in
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail, with_jobs
from goworkers_py.cli.listing import report_none
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, dry_run, limit
from goworkers_py.cli.tables import TextTable, arguments, cut, when
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.features.limits.configured import known_limits
from goworkers_py.features.limits.limit import (
    ANY_RATE,
    MOST,
    LimitEntry,
    Rate,
    SlotEntry,
    SlotHolder,
    rate_of,
    slot_of_line,
)
from goworkers_py.features.limits.limiting import declared_limits
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

# Of a limit with very many keys, so many are counted.
MOST_COUNTED = 100_000
# Jobs of each place that are looked at, to find those that have places in a limit.
MOST_LOOKED_AT = 1_000
LONGEST_JOB = 60
# A terminal cuts lines at its width: the arguments must not be behind a long digest.
LONGEST_KEY = 9
Jobs = Mapping[str, Message]
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
        fields = {**_as_fields(entry, app.inspector), "declared": name in declared}
        if as_json:
            click.echo(simplejson.dumps(fields))
        else:
            numbers = fields["keys"], fields["places"], fields["waiting"]
            rows.append((name, *_allowed(entry), "yes" if fields["set"] else "-", *map(str, numbers)))
    TextTable("limit", "concurrent", "rate", "burst", "set by hand", "keys>", "places>", "waiting>").add(rows)
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
    jobs = _jobs_with_places(app.inspector, slots)
    if as_json:
        fields = {**_as_fields(entry, app.inspector), "slots": [_slot_as_fields(slot, jobs) for slot in slots]}
        click.echo(simplejson.dumps(fields))
        return
    concurrent, rate, burst = _allowed(entry)
    click.echo(
        f"{name}: concurrent {concurrent}, rate {rate}, burst {burst}{', set by hand' if _is_set(entry) else ''}"
    )
    _show_slots(slots, jobs)


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
    return [LimitEntry(known.name, known) for known in known_limits(declared_limits(app.registry), app.config)]


def _entry(app: App, name: str) -> LimitEntry:
    """A limit that a process has declared, or that code or configuration have."""
    declared = app.inspector.limits()
    entries = declared if any(entry.name == name for entry in declared) else [*declared, *_of_code(app)]
    return _named(name, entries, f"; {UNKNOWN}")


def _declared(app: App, name: str) -> LimitEntry:
    declared = app.inspector.limits()
    if name in {known.name for known in known_limits({}, app.config)} - {entry.name for entry in declared}:
        fail(f"no process has declared limit {name}, so there is nothing to remove; the configuration has it", FAILED)
    return _named(name, declared)


def _named(name: str, entries: Sequence[LimitEntry], hint: str = "") -> LimitEntry:
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        known = ", ".join(sorted({entry.name for entry in entries})) or "none"
        fail(f"no limit {name} is known; known limits: {known}{hint}", FAILED)
    return found


def _concurrent(text: str | None) -> int | None:
    if text is None:
        return None
    if text == _ANY:
        return -1
    if not text.isdecimal() or int(text) > MOST:
        raise ArgumentError(f"--concurrent must be a number of jobs or {_ANY}, is {text!r}")
    return int(text)


def _rate(entry: LimitEntry, text: str | None, burst: int | None) -> Rate | None:
    if text is None and burst is None:
        return None
    if text == _ANY:
        if burst is not None:
            raise ArgumentError("--burst: a rate of any has none")
        return ANY_RATE
    if text is None and entry.rate is None:
        raise ArgumentError(f"--burst: limit {entry.name} has no rate; give --rate too")
    try:
        rate = entry.rate if text is None else rate_of(text, entry.rate.burst if entry.rate else 1)
    except ValueError as error:
        raise ArgumentError(f"--rate {error}") from None
    assert rate is not None
    return rate if burst is None else rate._replace(burst=burst)


def _of_settings(number: int | None, rate: Rate | None) -> str:
    changes = [] if number is None else [f"concurrent {_ANY if number < 0 else number}"]
    changes += [] if rate is None else [f"rate {_ANY if rate == ANY_RATE else rate}, burst {rate.burst}"]
    return f": {', '.join(changes)}"


def _is_set(entry: LimitEntry) -> bool:
    return entry.set_concurrent is not None or entry.set_rate is not None


def _allowed(entry: LimitEntry) -> tuple[str, str, str]:
    concurrent = _ANY if entry.concurrent is None else str(entry.concurrent)
    return concurrent, str(entry.rate or "-"), str(entry.rate.burst) if entry.rate else "-"


def _as_fields(entry: LimitEntry, inspector: Inspector) -> dict[str, Any]:
    slots = [*itertools.islice(inspector.slots(entry.name), MOST_COUNTED)]
    rate = entry.rate
    return {
        "name": entry.name,
        "concurrent": entry.concurrent,
        "rate": str(rate) if rate else None,
        "burst": rate.burst if rate else None,
        "set": _is_set(entry),
        "keys": len(slots),
        "places": sum(len(slot.holders) for slot in slots),
        "waiting": sum(slot.waiting for slot in slots),
    }


# --- the keys of a limit: who has their places, and who waits


def _slot_as_fields(slot: SlotEntry, jobs: Jobs) -> dict[str, Any]:
    following = _message(slot.next)
    return {
        "key": slot.slot.key,
        "waiting": slot.waiting,
        "holders": [{**holder._asdict(), **_fields(jobs.get(holder.jid))} for holder in slot.holders],
        "next": None if following is None else {"jid": following.jid, **_fields(following)},
    }


def _show_slots(slots: Sequence[SlotEntry], jobs: Jobs) -> None:
    table = TextTable("key", "waiting>", "has a place", "since", "its arguments", "next job", "its process")
    table.add([row for slot in slots for row in _slot_rows(slot, jobs)])
    if not slots:
        report_none("jobs have places in it, and none wait for it")
    if any(slot.slot.key for slot in slots):
        hint = "a key is the digest of the value that `by` has returned; the arguments of its jobs tell which one"
        click.echo(f"pyworkers: {hint}", err=True)


def _slot_rows(slot: SlotEntry, jobs: Jobs) -> list[tuple[str, ...]]:
    key, waiting, following = cut(slot.slot.key, LONGEST_KEY) or "-", str(slot.waiting), _shown(_message(slot.next))
    holders = [
        (holder.jid, when(holder.since), _held(holder, jobs), following, holder.owner or "none: it waits")
        for holder in slot.holders
    ]
    return [(key, waiting, *holder) for holder in holders or [("-", "-", "-", following, "-")]]


def _held(holder: SlotHolder, jobs: Jobs) -> str:
    return "a block of code" if holder.owner and not holder.queue else _shown(jobs.get(holder.jid))


def _shown(message: Message | None) -> str:
    return "-" if message is None else cut(f"{message.job_class} {arguments(message)}", LONGEST_JOB)


def _fields(message: Message | None) -> dict[str, Any]:
    return {} if message is None else {"class": message.job_class, "args": message.args}


def _message(payload: bytes) -> Message | None:
    return StoredJob(payload).message if payload else None


def _jobs_with_places(inspector: Inspector, slots: Sequence[SlotEntry]) -> dict[str, Message]:
    """The jobs that have places, by jid: a key is a digest, and the arguments of its jobs tell which it is. A job that
    is far from the front of its place is not found, and a block of code is no job."""
    holders = [holder for slot in slots for holder in slot.holders]
    wanted, found = {holder.jid for holder in holders}, dict[str, Message]()
    for job in _near(inspector, holders):
        if wanted <= found.keys():
            break
        if job.jid in wanted and job.message is not None:
            found.setdefault(job.jid, job.message)
    return found


def _near(inspector: Inspector, holders: Sequence[SlotHolder]) -> Iterator[StoredJob]:
    """The jobs of the places where jobs with places are likely to be."""
    yield from (held.job for held in itertools.islice(inspector.in_progress(), MOST_LOOKED_AT))
    queues = {holder.queue for holder in holders if holder.queue and not holder.owner}
    lines = {queue for queue in queues if slot_of_line(queue) is not None}
    for queue in sorted(queues - lines):  # let go, so at the front of its queue
        yield from inspector.first(waiting_in(queue), MOST_LOOKED_AT)
    yield from inspector.first(RETRIES, MOST_LOOKED_AT)
    if lines:
        yield from inspector.first(PARKED, MOST_LOOKED_AT)
