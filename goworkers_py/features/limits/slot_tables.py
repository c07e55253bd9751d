"""Prints the keys of a limit: who has their places, and who waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from goworkers_py.cli.listing import report_none
from goworkers_py.cli.tables import Table, arguments, cut, when
from goworkers_py.features.limits.limit import SlotEntry, SlotHolder
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

LONGEST_JOB = 60
# A terminal cuts lines at its width: the arguments must not be behind a long digest.
LONGEST_KEY = 9
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
    table = Table("key", "waiting>", "has a place", "since", "its arguments", "next job", "its process")
    table.add([row for one in slots for row in _rows(one, jobs)])
    if not slots:
        report_none("jobs have places in it, and none wait for it")
    if any(one.slot.key for one in slots):
        about = "a key is the digest of the value that `by` has returned; the arguments of its jobs tell which one"
        click.echo(f"pyworkers: {about}", err=True)


def _rows(one: SlotEntry, jobs: Jobs) -> list[tuple[str, ...]]:
    key, waiting, following = cut(one.slot.key, LONGEST_KEY) or "-", str(one.waiting), _shown(_message(one.next))
    holders = [
        (holder.jid, when(holder.since), _held(holder, jobs), following, holder.owner or "none: it waits")
        for holder in one.holders
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
