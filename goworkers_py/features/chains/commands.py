"""`chains list`, `chains show`, `chains cancel`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from functools import partial

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json, change_each, dry_run, limit
from goworkers_py.cli.tables import TextTable, when
from goworkers_py.features.chains.chain import ChainStatus


@click.group(cls=CommandGroup)
def chains() -> None:
    """Shows chains of jobs, or cancels them."""


@chains.command("list")
@click.option("--stopped", is_flag=True, help="only chains that a failed link has stopped")
@limit
@as_json
@connected
def list_(app: App, stopped: bool, limit: int, as_json: bool) -> None:
    """Lists chains, the last changed first. Chains that have ended come last."""
    found = (chain for chain in app.inspector.chains.all() if not stopped or chain.state == "stopped")
    show_all([*itertools.islice(found, limit or None)], as_json, _show, "chains")


@chains.command()
@click.argument("cid")
@as_json
@connected
def show(app: App, cid: str, as_json: bool) -> None:
    """Shows how far a chain has got, and which job has stopped it. Exit code 1 when there is none."""
    status = app.inspector.chains.status(cid)
    if status is None:
        fail(f"there is no chain {cid}, or not any more", FAILED)
    if as_json:
        click.echo(simplejson.dumps(dataclasses.asdict(status)))
        return
    _show([status])
    for jid, job_class, queue in status.jobs:
        click.echo(f"link {status.link}, pushed {when(status.since or None)}: {job_class} in queue {queue}, jid {jid}")
    if status.error:
        click.echo(f"error: {status.error}")
    if status.why == "dead":
        click.echo(f"to go on: pyworkers dead retry --jid {status.jid}")


@chains.command()
@click.argument("cids", nargs=-1, required=True)
@dry_run
@connected
def cancel(app: App, cids: Sequence[str], dry_run: bool) -> None:
    """Cancels chains. The link that waits does not run, and one that runs is interrupted.

    Exit code 1 when one of them has ended or is not there.
    """
    could = partial(_is_open, app) if dry_run else None
    change_each(
        app.inspector, "chains", cids, "cancelled", app.inspector.chains.cancel, could, "has ended or is not there"
    )


def _is_open(app: App, cid: str) -> bool:
    status = app.inspector.chains.status(cid)
    return status is not None and status.ended_at is None


def _show(found: Sequence[ChainStatus]) -> None:
    table = TextTable("chain", "state", "link", "since", "stopped by", "job")
    table.add(
        [
            (chain.cid, chain.state, f"{chain.link} of {chain.links}", when(chain.at or None),
             f"{chain.job_class}: {chain.why}" if chain.why else "-", chain.jid or "-")
            for chain in found
        ]
    )  # fmt: skip
