"""Jobs in a table or as JSON, from wherever they lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import click

from goworkers_py.admin.entries import PAGE, Entry
from goworkers_py.admin.summary import Kind
from goworkers_py.cli.tables import Table, as_text, clock_time, cut, printable, when
from goworkers_py.wire.failure import unpack_backtrace
from goworkers_py.wire.message import epoch

LONGEST_ERROR = 60


class Listed(Protocol):
    @property
    def as_json(self) -> str: ...


T = TypeVar("T", bound=Listed)
# A column: its header and its text. The arguments stand last, where they can be cut.
Columns = Mapping[str, Callable[[Entry], str]]


def _field(entry: Entry, name: str) -> str:
    value = entry.message.get(name) if entry.message else None
    return "-" if value is None else value if isinstance(value, str) else as_text(value)


def _class(entry: Entry) -> str:
    if entry.message is None:
        return "(unreadable)"
    if entry.original is not None:
        return str(entry.message.get("display_class") or "(unreadable)")
    return entry.message.job_class or "-"


def _arguments(entry: Entry) -> str:
    if entry.message is None or entry.original is not None:
        return entry.escaped
    return as_text(entry.message.args)


def _error(entry: Entry) -> str:
    told = _field(entry, "error_class"), _field(entry, "error_message")
    return cut(": ".join(text for text in told if text != "-") or "-", LONGEST_ERROR)


def _waiting_since(entry: Entry) -> str:
    message = entry.message
    return when((message.enqueued_at or message.created_at) if message else None)


JOB: Columns = {"class": _class, "jid": lambda entry: entry.jid, "arguments": _arguments}
_OF_QUEUE: Columns = {"queue": lambda entry: _field(entry, "queue")}

IN_QUEUE: Columns = {"enqueued": _waiting_since, **JOB}
SCHEDULED: Columns = {"due": lambda entry: when(entry.at), **_OF_QUEUE, **JOB}
RETRIES: Columns = {
    "due": lambda entry: when(entry.at), "count>": lambda entry: _field(entry, "retry_count"), **_OF_QUEUE,
    "error": _error, **JOB,
}  # fmt: skip
DEAD: Columns = {"died": lambda entry: when(entry.at), **_OF_QUEUE, "error": _error, **JOB}


KINDS: Mapping[str, Callable[[Kind], str]] = {
    "count>": lambda kind: str(kind.count),
    "class": lambda kind: kind.job_class,
    "oldest": lambda kind: when(kind.oldest),
    "newest": lambda kind: when(kind.newest),
    "error": lambda kind: cut(": ".join(filter(None, (kind.error_class, kind.error_message))) or "-", LONGEST_ERROR),
}


def list_entries(
    columns: Mapping[str, Callable[[T], str]], entries: Iterable[T], limit: int, as_json: bool, what: str
) -> None:
    """Prints up to `limit` of them (0: all), and on stderr when there are more, or none: `what` says of what."""
    table, shown, rest = Table(*columns), 0, iter(entries)
    while chunk := list(itertools.islice(rest, min(PAGE, limit - shown) if limit else PAGE)):
        shown += len(chunk)
        if as_json:
            for entry in chunk:
                click.echo(entry.as_json)
        else:
            table.add([[text(entry) for text in columns.values()] for entry in chunk])
        if shown == limit:
            break
    if not shown:
        tell_of_none(what, as_json)
    if limit and shown == limit and next(rest, None) is not None:
        click.echo(f"pyworkers: these are the first {limit}; --limit 0 shows all", err=True)


def tell_of_none(what: str, as_json: bool) -> None:
    """On stderr, so that a program which reads the list reads nothing."""
    if not as_json:
        click.echo(f"pyworkers: no {what.strip()}", err=True)


def show_entry(entry: Entry, as_json: bool) -> None:
    """One job in full."""
    message = entry.message
    if as_json:
        click.echo(entry.as_json)
        return
    if message is None:
        told = {"at": clock_time(entry.at), "jid": entry.jid, "(unreadable)": entry.escaped}
        click.echo("".join(f"{name:<14} {text}\n" for name, text in told.items()))
        return
    times = {"at": entry.at} | {name: epoch(message.get(name)) for name in _TIMES if name in message}
    names = [*_FIRST, *sorted(set(message) - {*_FIRST, *times, "error_backtrace"})]
    lines = [(name, clock_time(at)) for name, at in times.items() if at is not None]
    lines += [(name, _field(entry, name)) for name in names if name in message]
    if entry.original is not None:
        lines.append(("(original)", entry.escaped))
    for name, text in lines:
        click.echo(f"{printable(name):<14} {printable(text)}")
    for line in unpack_backtrace(message.get("error_backtrace")):
        click.echo(f"    {printable(line)}")
    click.echo()


_FIRST = ("class", "wrapped", "jid", "queue", "args", "error_class", "error_message", "retry", "retry_count")
_TIMES = ("created_at", "enqueued_at", "failed_at", "retried_at")
