"""Prints all that is known of one schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import click

from goworkers_py.cli.tables import as_text, clock_time, printable, when
from goworkers_py.features.periodic.admin import PeriodicJobStatus
from goworkers_py.features.periodic.schedule import HistoryEntry

_BY_A_FUNCTION = "made by a function, for each slot"


def as_fields(status: PeriodicJobStatus, slots: Sequence[float], history: Sequence[HistoryEntry]) -> dict[str, Any]:
    return {**dataclasses.asdict(status), "next_slots": [*slots], "history": [entry._asdict() for entry in history]}


def show_details(status: PeriodicJobStatus, slots: Sequence[float]) -> None:
    for name, text in _details(status):
        click.echo(f"{name:<14} {printable(text)}")
    for number, slot in enumerate(slots):
        click.echo(f"{'' if number else 'next':<14} {clock_time(slot)}")


def _details(status: PeriodicJobStatus) -> Iterator[tuple[str, str]]:
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
