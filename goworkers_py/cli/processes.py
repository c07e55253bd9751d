"""`processes` lists the processes of the fleet; `processes quiet|stop|dump` asks them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.cli.base import FAILED, ListGroup, connected, fail
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json, confirm, yes
from goworkers_py.cli.tables import Table, duration
from goworkers_py.core.command import Command


@click.group(cls=ListGroup)
def processes() -> None:
    """The processes of the fleet: pyworkers, Sidekiq and go-workers."""


@processes.command("list")
@as_json
@connected
def list_(app: App, as_json: bool) -> None:
    """Lists the processes with their threads, state and queues."""
    show_all(app.inspector.processes(), as_json, _show, "processes")


def _show(found: Sequence[Process]) -> None:
    table = Table("process", "busy>", "threads>", "state", "up>", "last beat>", "memory>", "version", "queues")
    table.add([_row(one) for one in found])


def _row(one: Process) -> list[str]:
    now = time.time()
    return [
        one.identity,
        str(one.busy),
        str(one.concurrency),
        "quiet" if one.quiet else one.standby or "working",
        duration(max(0, now - one.started_at)),
        f"{duration(max(0, now - one.beat))} ago",
        f"{one.rss_kb // 1024} MB",
        one.version or "-",
        ", ".join(one.queues),
    ]


def _add(what: Command, about: str, asks: bool) -> None:
    name = what.value

    @processes.command(name, help=f"{about} Each process obeys within ten seconds.")
    @click.argument("identity", required=False)
    @click.option("--all", "everyone", is_flag=True, help="all processes of the fleet, in any language")
    @yes
    @connected
    def command(app: App, identity: str | None, everyone: bool, yes: bool) -> None:
        if (identity is None) != everyone:
            raise click.UsageError("give the identity of a process, as `processes list` shows it, or --all")
        chosen = [one for one in app.inspector.processes() if everyone or one.identity == identity]
        if identity is not None and not chosen:
            fail(f"there is no process {identity}; `pyworkers processes list` shows all", FAILED)
        if identity is not None and chosen[0].embedded:
            fail(f"{identity} is part of another program; only that program can {name} it", FAILED)
        if everyone and asks and chosen:
            confirm(f"{name} all of {counted(len(chosen), 'process', 'processes')}", yes)
        asked = app.inspector.ask(chosen, what)
        click.echo(f"{counted(len(asked), 'process', 'processes')} asked to {name}")


_add(Command.QUIET, "Asks processes to fetch no new jobs. Only a restart ends this.", asks=True)
_add(Command.STOP, "Asks processes to stop, as TERM does.", asks=True)
_add(Command.DUMP, "Asks processes to log the stack of every thread.", asks=False)
