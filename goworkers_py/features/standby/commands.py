"""`leader show` and `leader step-down`: the elections of processes with `standby`."""

from __future__ import annotations

import click
import simplejson

from goworkers_py.admin.asker import asker
from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.cli.base import FAILED, CommandGroup, connected, fail
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, confirm, yes
from goworkers_py.cli.tables import TextTable, duration
from goworkers_py.config.options import Config
from goworkers_py.config.partitions import of_partition
from goworkers_py.core.clock import Clock
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Leader, Standing


@click.group(cls=CommandGroup)
def leader() -> None:
    """Shows the leaders of standby processes; asks one to step down."""


class FoundLeader(NamedTuple):
    config: Config
    standing: Standing

    @property
    def as_dict(self) -> dict[str, object]:
        leader = self.standing.leader
        return {
            "election": self.config.partition_name,
            "leader": leader.identity if leader else None,
            "epoch": self.standing.epoch,
            "since": leader.since if leader else None,
            "lease_left": leader.left_s if leader else None,
            "prefers": leader.prefers if leader else None,
            "asked_to_step_down_by": (leader.asked or None) if leader else None,
        }


@leader.command()
@as_json
@connected
def show(app: App, as_json: bool) -> None:
    """Shows who leads, since when, and in which epoch."""
    found = _elections(app)
    if as_json:
        for election in found:
            click.echo(simplejson.dumps(election.as_dict))
        return
    table = TextTable("election", "leader", "epoch>", "leads for>", "lease ends in>", "asked to step down by")
    table.add([_row(election, app.clock) for election in found])


def _row(found: FoundLeader, clock: Clock) -> list[str]:
    leader = found.standing.leader
    if leader is None:
        return [found.config.partition_name, "none", str(found.standing.epoch or "-"), "-", "-", ""]
    times = duration(max(0.0, clock.wall() - leader.since)), duration(leader.left_s)
    return [found.config.partition_name, leader.identity, str(leader.epoch), *times, leader.asked]


@leader.command("step-down")
@yes
@connected
def step_down(app: App, yes: bool) -> None:
    """Asks the leader to end its jobs and to hand over. It leads again only if nobody else does."""
    found = [election for election in _elections(app) if election.standing.leader is not None]
    if not found:
        fail("there is no leader; `pyworkers leader show` shows the elections", FAILED)
    if len(found) > 1:
        confirm(
            f"ask the leaders of {', '.join(election.config.partition_name for election in found)} to step down", yes
        )
    for config, standing in found:
        assert standing.leader is not None
        answer = "asked to step down" if _ask(config, standing.leader) else "leads no more"
        click.echo(f"{config.partition_name}: {standing.leader.identity} {answer}")


def _ask(config: Config, leader: Leader) -> bool:
    broker = open_broker(config)
    try:
        with noted(Inspector(lambda: broker), f"{leader.identity}, leader of {config.partition_name}") as change:
            asked = broker.require_part(Leadership).ask_to_step_down(config.partition_name, leader.epoch, asker())
            change.count = int(asked)
        return asked
    finally:
        broker.close()


def _elections(app: App) -> list[FoundLeader]:
    """Of the partition that was named, else of all."""
    config = app.config
    others = [] if config.partition else [of_partition(config, partition.name) for partition in config.partitions]
    found = [election for election in map(_look, (config, *others)) if election is not None]
    # One that nobody has ever stood in is shown only where there are no others.
    return [election for election in found if election.config.standby or election.standing.epoch] or found


def _look(config: Config) -> FoundLeader | None:
    """None for a broker that elects no leader."""
    broker = open_broker(config)
    try:
        leadership = broker.part(Leadership)
        return None if leadership is None else FoundLeader(config, leadership.look(config.partition_name))
    finally:
        broker.close()
