"""`processes` lists the processes of the fleet. Features have more commands of this group."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.cli.base import ListGroup, connected, named_partition
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json
from goworkers_py.cli.tables import TextTable, duration


@click.group(cls=ListGroup)
def processes() -> None:
    """The processes of the fleet: pyworkers, Sidekiq and go-workers."""


@processes.command("list")
@as_json
@connected
def list_(app: App, as_json: bool) -> None:
    """Lists the processes with their threads, state and queues. With --partition: its processes."""
    show_all(of_named_partition(app), as_json, _show, "processes")


def of_named_partition(app: App) -> list[Process]:
    """The processes of the fleet: of --partition, where that is given. Some processes do not say which partition they
    work, those of other programs and of older releases: they are chosen by their queues."""
    found = app.inspector.processes()
    if not (partition := named_partition(app)):
        return found
    pools = (pool.queues for pool in app.config.pools)
    queues = {queue.name for queue in app.config.queues}.union(*pools)
    return [
        process
        for process in found
        if process.partition == partition or (not process.partition and not queues.isdisjoint(process.queues))
    ]


def _show(found: Sequence[Process]) -> None:
    table = TextTable(
        "process", "busy>", "threads>", "state", "up>", "last beat>", "memory>", "cpu>", "version", "partition",
        "queues"
    )  # fmt: skip
    table.add([_row(process) for process in found])


def _row(process: Process) -> list[str]:
    now = time.time()
    return [
        process.identity,
        str(process.busy),
        str(process.concurrency),
        process.state,
        duration(max(0, now - process.started_at)),
        f"{duration(max(0, now - process.beat))} ago",
        f"{process.rss_kb // 1024} MB",
        "-" if process.cpu_share is None else f"{process.cpu_share:.0%}",
        process.version or "-",
        process.partition or "-",
        ", ".join(process.queues),
    ]
