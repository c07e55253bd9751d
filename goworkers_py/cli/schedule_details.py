"""Prints all that is known of one schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import click

from goworkers_py.admin.periodic_schedules import PeriodicJobStatus
from goworkers_py.cli.tables import as_text, clock_time, printable, when
from goworkers_py.core.periodic import HistoryEntry

_BY_A_FUNCTION = "made by a function, for each slot"


def as_fields(one: PeriodicJobStatus, slots: Sequence[float], history: Sequence[HistoryEntry]) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "next_slots": [*slots], "history": [entry._asdict() for entry in history]}


def show_details(one: PeriodicJobStatus, slots: Sequence[float]) -> None:
    for name, text in _told(one):
        click.echo(f"{name:<14} {printable(text)}")
    for number, slot in enumerate(slots):
        click.echo(f"{'' if number else 'next':<14} {clock_time(slot)}")


def _told(one: PeriodicJobStatus) -> Iterator[tuple[str, str]]:
    yield "name", one.name
    yield "source", f"{one.source}, generation {one.generation}" if one.generation else one.source
    yield "state", f"{one.state}, paused by hand" if one.paused and one.state != "paused" else one.state
    set_rule = one.rule_of_code not in ("", one.rule)
    yield "when", f"{one.rule}, set by hand; the code says {one.rule_of_code}" if set_rule else one.rule
    yield "class", one.job_class or "-"
    yield "queue", one.queue or "-"
    yield "arguments", _arguments(one)
    if one.catch_up:
        yield "catch up", one.catch_up
        yield "overlap", one.overlap
    if one.seen_at is not None:
        yield "last seen", f"{when(one.seen_at)}, in the code of a process"
        yield "fired", f"{one.fired} slots; {one.skipped} were skipped or missed"
    if one.asked:
        yield "asked for", f"{one.asked} by hand, not pushed yet"


def _arguments(one: PeriodicJobStatus) -> str:
    if one.args is None:
        return _BY_A_FUNCTION
    if not one.overridden or one.args == one.args_of_code:
        return as_text(one.args)
    of_code = _BY_A_FUNCTION if one.args_of_code is None else as_text(one.args_of_code)
    return f"{as_text(one.args)}, set by hand; in the code {of_code}"
