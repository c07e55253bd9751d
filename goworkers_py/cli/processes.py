"""`processes`, `processes quiet|stop|dump`: the fleet."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence

import click

import goworkers_py
from goworkers_py.admin.entries import counted
from goworkers_py.admin.processes import DUMP, QUIET, STOP, Process, Processes
from goworkers_py.cli.base import FAILED, Listing, connected, fail
from goworkers_py.cli.listing import tell_of_none
from goworkers_py.cli.selection import as_json, confirm, yes
from goworkers_py.cli.tables import Table, duration
from goworkers_py.config.options import Config


@click.group(cls=Listing)
def processes() -> None:
    """The processes of the fleet: ours, Sidekiq's and go-workers'."""


@processes.command("list")
@as_json
@connected
def list_(config: Config, as_json: bool) -> None:
    """What runs where."""
    found = Processes(*goworkers_py.app.place).all()
    if as_json:
        for one in found:
            click.echo(json.dumps(dataclasses.asdict(one)))
    elif found:
        _show(found)
    else:
        tell_of_none("processes", as_json)


def _show(found: Sequence[Process]) -> None:
    table = Table("process", "busy>", "threads>", "state", "up>", "heard of>", "memory>", "version", "queues")
    table.add([_row(one) for one in found])


def _row(one: Process) -> list[str]:
    now = time.time()
    return [
        one.identity,
        str(one.busy),
        str(one.concurrency),
        "quiet" if one.quiet else "working",
        duration(max(0, now - one.started_at)),
        f"{duration(max(0, now - one.beat))} ago",
        f"{one.rss_kb // 1024} MB",
        one.version or "-",
        ", ".join(one.queues),
    ]


def _add(name: str, word: str, about: str, asks: bool) -> None:
    @processes.command(name, help=f"{about} Obeyed within ten seconds.")
    @click.argument("identity", required=False)
    @click.option("--all", "everyone", is_flag=True, help="all processes of the fleet, whatever they are written in")
    @yes
    @connected
    def command(config: Config, identity: str | None, everyone: bool, yes: bool) -> None:
        if (identity is None) != everyone:
            raise click.UsageError("say which process, as `processes list` names it, or --all")
        fleet = Processes(*goworkers_py.app.place)
        chosen = [one for one in fleet.all() if everyone or one.identity == identity]
        if identity is not None and not chosen:
            fail(f"there is no process {identity}; pyworkers processes list names them", FAILED)
        if identity is not None and chosen[0].embedded:
            fail(f"{identity} is a part of another program, which alone can {name} it", FAILED)
        if everyone and asks and chosen:
            confirm(f"{name} all of {counted(len(chosen), 'process', 'processes')}", yes)
        chosen = [one for one in chosen if not one.embedded]
        fleet.ask([one.identity for one in chosen], word)
        click.echo(f"{counted(len(chosen), 'process', 'processes')} asked to {name}")


_add("quiet", QUIET, "Asks to fetch no new jobs; there is no way back but a restart.", asks=True)
_add("stop", STOP, "Asks to stop, as TERM does.", asks=True)
_add("dump", DUMP, "Asks to write the stack of every thread into its log.", asks=False)
