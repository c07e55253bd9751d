"""`inprogress`, `recover`: who holds which jobs, and taking back those of the dead."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click

import goworkers_py
from goworkers_py.admin.entries import Entry, counted
from goworkers_py.admin.in_progress import InProgress, InProgressJob
from goworkers_py.admin.job_sets import Changed
from goworkers_py.brokers.contracts import Found, Recovered
from goworkers_py.cli.base import FAILED, connected, fail
from goworkers_py.cli.listing import JOB, list_entries
from goworkers_py.cli.selection import as_json, confirm, limit, tell, yes
from goworkers_py.cli.tables import when
from goworkers_py.config.options import Config
from goworkers_py.observe.escaping import one_line
from goworkers_py.policy.poison import PoisonPolicy, RecoveryDecision
from goworkers_py.wire.message import Timestamps, describe


def _of_entry(text: Callable[[Entry], str]) -> Callable[[InProgressJob], str]:
    return lambda held: text(held.entry)


# Live processes reconnect within some seconds after an outage, and then beat at once.
SIGN_OF_LIFE_S = 15.0

_COLUMNS: dict[str, Callable[[InProgressJob], str]] = {
    "process": lambda held: held.owner.identity,
    "alive": lambda held: "yes" if held.owner.alive else "no",
    "began": lambda held: when(held.running_since),
    "queue": lambda held: held.queue,
    **{name: _of_entry(text) for name, text in JOB.items()},
}


@click.command()
@limit
@as_json
@connected
def inprogress(config: Config, limit: int, as_json: bool) -> None:
    """Jobs that processes have fetched and not finished."""
    list_entries(_COLUMNS, _in_progress().jobs(), limit, as_json, "jobs in progress")


@click.command()
@click.option(
    "--go-workers", "go_process", metavar="PROCESS", help="what that process of go-workers left, when it has ended"
)
@yes
@as_json
@connected
def recover(config: Config, go_process: str | None, yes: bool, as_json: bool) -> None:
    """Gives the jobs of dead processes back to their queues now, as live processes do by themselves before long.

    A job that has killed its processes too often goes to the dead set. The application is not imported, so its on_death
    handlers are not called for it; live processes do that.
    """
    if go_process is not None:
        _take_over(go_process, yes, as_json)
        return
    _await_the_silent()
    policy = PoisonPolicy(config.poison_limit, config.poison_window, Timestamps(config.timestamps))
    clock = goworkers_py.app.clock

    def judge(found: Found) -> RecoveryDecision:
        return policy.judge(found.raw, found.queue, found.owner, found.begun, found.alone, now=clock.wall())

    count = 0
    for job in goworkers_py.app.broker.recover("", judge, proof=""):
        click.echo(one_line(_line(job)), err=as_json)
        count += 1
    tell(Changed(count), "recovered", as_json)


def _await_the_silent() -> None:
    """After an outage every process is silent; those that live are heard of again before long."""
    silent = [owner for owner in _in_progress().owners() if not (owner.alive or owner.dead_for_sure)]
    if silent:
        click.echo(
            f"pyworkers: not heard of for a minute: {', '.join(owner.identity for owner in silent)}; "
            f"waiting {SIGN_OF_LIFE_S:.0f} s for a sign of life",
            err=True,
        )
        threading.Event().wait(SIGN_OF_LIFE_S)


def _line(job: Recovered) -> str:
    what = f"to the dead set: {job.decision.error}" if job.decision.error else "back to its queue"
    return f"{describe(job.raw, job.queue)} of {job.owner}: {what}"


def _take_over(process: str, yes: bool, as_json: bool) -> None:
    """go-workers does this itself when a process of the same name starts again."""
    jobs = sum(left.size for left in _in_progress().leftovers() if left.process == process)
    if not jobs:
        fail(
            f"no jobs are left in progress by a process {process} of go-workers; pyworkers doctor looks for some",
            FAILED,
        )
    if _in_progress().lives(process):
        fail(f"process {process} of go-workers lives: its jobs would run twice", FAILED)
    confirm(f"move {counted(jobs)}, to run twice if process {process} of go-workers has not ended", yes)
    tell(Changed(sum(_in_progress().take_over(process))), "recovered", as_json)


def _in_progress() -> InProgress:
    return InProgress(*goworkers_py.app.place)
