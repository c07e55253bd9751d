"""Prints jobs of any place, as a table or as JSON."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import click
import simplejson

from goworkers_py.admin.job_status import JobStatus
from goworkers_py.admin.summary import PlaceKind
from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.cli.tables import TextTable, arguments, as_text, clock_time, cut, printable, when
from goworkers_py.wire.failure import unpack_backtrace
from goworkers_py.wire.message import epoch
from goworkers_py.wire.stored_job import StoredJob

LONGEST_ERROR = 60


class Listed(Protocol):
    @property
    def as_json(self) -> str: ...


T = TypeVar("T", bound=Listed)
# Each column: its header, and the function that makes its text. A terminal cuts lines at their end: the class and the
# jid, by which commands name a job, come before an error, and the arguments come last.
Columns = Mapping[str, Callable[[StoredJob], str]]


def _field(job: StoredJob, name: str) -> str:
    value = job.message.get(name) if job.message else None
    return "-" if value is None else value if isinstance(value, str) else as_text(value)


def _class(job: StoredJob) -> str:
    if job.message is None:
        return "(unreadable)"
    if job.original is not None:
        return str(job.message.get("display_class") or "(unreadable)")
    return job.message.job_class or "-"


def _arguments(job: StoredJob) -> str:
    if job.message is None or job.original is not None:
        return job.escaped
    return arguments(job.message)


def _error(job: StoredJob) -> str:
    fields = _field(job, "error_class"), _field(job, "error_message")
    return cut(": ".join(text for text in fields if text != "-") or "-", LONGEST_ERROR)


def _waiting_since(job: StoredJob) -> str:
    message = job.message
    return when((message.enqueued_at or message.created_at) if message else None)


_NAMES: Columns = {"class": _class, "jid": lambda job: job.jid}
JOB: Columns = {**_NAMES, "arguments": _arguments}
_FAILED: Columns = {**_NAMES, "error": _error, "arguments": _arguments}
_OF_QUEUE: Columns = {"queue": lambda job: _field(job, "queue")}

IN_QUEUE: Columns = {"enqueued": _waiting_since, **JOB}
SCHEDULED: Columns = {"due": lambda job: when(job.at), **_OF_QUEUE, **JOB}
PARKED: Columns = {
    "parked": lambda job: when(job.at), "line": lambda job: job.line, "queue": lambda job: job.queue, **JOB,
}  # fmt: skip
OUTBOX: Columns = {
    "posted": lambda job: when(job.at), "to": lambda job: job.line, "queue": lambda job: job.queue, **JOB,
}  # fmt: skip
RETRIES: Columns = {
    "due": lambda job: when(job.at), "count>": lambda job: _field(job, "retry_count"), **_OF_QUEUE, **_FAILED,
}  # fmt: skip
DEAD: Columns = {"died": lambda job: when(job.at), **_OF_QUEUE, **_FAILED}


# Of tracked jobs that have ended.
ENDED: Mapping[str, Callable[[JobStatus], str]] = {
    "ended": lambda job: when(job.since), "queue": lambda job: job.queue or "-",
    "class": lambda job: job.job_class or "-", "jid": lambda job: job.jid,
    "result": lambda job: "kept" if job.has_result else "-",
    "reason": lambda job: (job.timeline[-1].reason if job.timeline else "") or "-",
}  # fmt: skip

KINDS: Mapping[str, Callable[[PlaceKind], str]] = {
    "count>": lambda kind: str(kind.count),
    "class": lambda kind: kind.job_class,
    "oldest": lambda kind: when(kind.oldest),
    "newest": lambda kind: when(kind.newest),
    "error": lambda kind: cut(": ".join(filter(None, (kind.error_class, kind.error_message))) or "-", LONGEST_ERROR),
}


def list_rows(
    columns: Mapping[str, Callable[[T], str]], rows: Iterable[T], limit: int, as_json: bool, what: str
) -> None:
    """Prints up to `limit` rows (0: all). Says on stderr when there are more, or when there are none of `what`."""
    table, shown, rest = TextTable(*columns), 0, iter(rows)
    while chunk := list(itertools.islice(rest, min(PAGE, limit - shown) if limit else PAGE)):
        shown += len(chunk)
        if as_json:
            for row in chunk:
                click.echo(row.as_json)
        else:
            table.add([[text(row) for text in columns.values()] for row in chunk])
        if shown == limit:
            break
    if not shown and not as_json:
        report_none(what)
    if limit and shown == limit and next(rest, None) is not None:
        click.echo(f"pyworkers: these are the first {limit}; --limit 0 shows all", err=True)


def show_all(
    found: Sequence[Any],
    as_json: bool,
    show: Callable[[Any], None],
    what: str,
    fields: Callable[[Any], dict[str, Any]] = dataclasses.asdict,
) -> None:
    """Prints dataclasses, as JSON or by `show`."""
    if as_json:
        for record in found:
            click.echo(simplejson.dumps(fields(record)))
    elif found:
        show(found)
    else:
        report_none(what)


def report_none(what: str) -> None:
    """Prints to stderr, so that a program which reads the list reads nothing."""
    click.echo(f"pyworkers: no {what.strip()}", err=True)


def show_job(job: StoredJob, as_json: bool) -> None:
    """Prints one job in full."""
    message = job.message
    if as_json:
        click.echo(job.as_json)
        return
    if message is None:
        fields = {"at": clock_time(job.at), "jid": job.jid, "(unreadable)": job.escaped}
        click.echo("".join(f"{name:<14} {text}\n" for name, text in fields.items()))
        return
    times = {"at": job.at} | {name: epoch(message.get(name)) for name in _TIMES if name in message}
    names = [*_FIRST, *sorted(set(message) - {*_FIRST, *times, "error_backtrace"})]
    lines = [(name, clock_time(at)) for name, at in times.items() if at is not None]
    lines += [(name, _field(job, name)) for name in names if name in message]
    if job.original is not None:
        lines.append(("(original)", job.escaped))
    for name, text in lines:
        click.echo(f"{printable(name):<14} {printable(text)}")
    for line in unpack_backtrace(message.get("error_backtrace")):
        click.echo(f"    {printable(line)}")
    click.echo()


_FIRST = ("class", "wrapped", "jid", "queue", "args", "kwargs", "error_class", "error_message", "retry", "retry_count")
_TIMES = ("created_at", "enqueued_at", "failed_at", "retried_at")
