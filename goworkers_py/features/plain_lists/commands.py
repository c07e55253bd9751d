"""`pyworkers recover --plain`: takes back the bodies of other consumers of a plain list."""

from __future__ import annotations

import click

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, fail
from goworkers_py.cli.recovery_flag import RecoveryFlag, tell_recovered
from goworkers_py.cli.selection import confirm
from goworkers_py.features.parts import CommandLine
from goworkers_py.features.plain_lists.contract import PlainLists


def _take_back(app: App, name: str, yes: bool, as_json: bool) -> None:
    """The consumers of another program have no leases: only people know that they have ended."""
    queue = next((queue for queue in app.config.queues if queue.name == name), None)
    if queue is None or not queue.bare_list or not queue.in_progress:
        fail(
            f"queue {name} has no lists of other consumers: set format = plain, list and in_progress = demo.doing{{n}} "
            f"in [queue:{name}], and name the file with -c", FAILED,
        )  # fmt: skip
    lists = app.broker.part(PlainLists)
    found = {} if lists is None else lists.leftovers(queue.in_progress)
    if lists is None or not found:
        fail(f"no list {queue.in_progress} holds a body", FAILED)
    names = ", ".join(f"{key} ({size})" for key, size in found.items())
    confirm(
        f"take {counted(sum(found.values()))} of {names} back into {queue.bare_list}, which run twice if a consumer of "
        "these lists has not ended", yes,
    )  # fmt: skip
    moved = (number for key in found for number in lists.take_back(key, queue.bare_list))
    tell_recovered(app.inspector, f"queue {name}", moved, as_json)


PLAIN = RecoveryFlag(
    click.Option(
        ["--plain", "plain_queue"],
        metavar="QUEUE",
        help="take back the bodies of other consumers of this plain list instead, after they have ended",
    ),
    _take_back,
)


COMMAND_LINE = CommandLine(flags_of_recovery=(PLAIN,))
