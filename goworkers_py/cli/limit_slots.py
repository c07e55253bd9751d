"""Prints the keys of a limit: who has their places, and who waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from goworkers_py.cli.tables import Table, arguments, cut, when
from goworkers_py.core.limit import SlotEntry, SlotHolder
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

LONGEST_JOB = 60
Jobs = Mapping[str, Message]


def as_fields(one: SlotEntry, jobs: Jobs) -> dict[str, Any]:
    following = _message(one.next)
    return {
        "key": one.slot.key,
        "waiting": one.waiting,
        "holders": [{**holder._asdict(), **_fields(jobs.get(holder.jid))} for holder in one.holders],
        "next": None if following is None else {"jid": following.jid, **_fields(following)},
    }


def show_slots(slots: Sequence[SlotEntry], jobs: Jobs) -> None:
    table = Table("key", "waiting>", "has a place", "since", "its process", "its arguments", "next job")
    table.add([row for one in slots for row in _rows(one, jobs)])
    if any(one.slot.key for one in slots):
        about = "a key is the digest of the value that `by` has returned; the arguments of its jobs tell which one"
        click.echo(f"pyworkers: {about}", err=True)


def _rows(one: SlotEntry, jobs: Jobs) -> list[tuple[str, ...]]:
    head = one.slot.key or "-", str(one.waiting)
    holders = [
        (holder.jid, when(holder.since), holder.owner or "none: it waits", _held(holder, jobs))
        for holder in one.holders
    ]
    return [(*head, *holder, _shown(_message(one.next))) for holder in holders or [("-", "-", "-", "-")]]


def _held(holder: SlotHolder, jobs: Jobs) -> str:
    return "a block of code" if holder.owner and not holder.queue else _shown(jobs.get(holder.jid))


def _shown(message: Message | None) -> str:
    return "-" if message is None else cut(f"{message.job_class} {arguments(message)}", LONGEST_JOB)


def _fields(message: Message | None) -> dict[str, Any]:
    return {} if message is None else {"class": message.job_class, "args": message.args}


def _message(payload: bytes) -> Message | None:
    return StoredJob(payload).message if payload else None
