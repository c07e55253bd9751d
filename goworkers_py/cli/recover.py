"""`inprogress` lists the jobs in progress with their owners; `recover` recovers the jobs of dead owners."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Changed
from goworkers_py.brokers.contracts.fleet import InProgressJob
from goworkers_py.brokers.contracts.recoverable import Recovered
from goworkers_py.cli.base import FAILED, connected, fail
from goworkers_py.cli.listing import JOB, list_rows
from goworkers_py.cli.noting import noted
from goworkers_py.cli.recovery_flag import tell_recovered
from goworkers_py.cli.selection import as_json, confirm, limit, tell, yes
from goworkers_py.cli.tables import when
from goworkers_py.core.escaping import one_line
from goworkers_py.features import BY_NAME
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.runtime.recovering.recoverer import judge_by, recovering
from goworkers_py.wire.message import describe_job
from goworkers_py.wire.stored_job import StoredJob


def _of_job(text: Callable[[StoredJob], str]) -> Callable[[InProgressJob], str]:
    return lambda held: text(held.job)


_COLUMNS: dict[str, Callable[[InProgressJob], str]] = {
    "process": lambda held: held.owner.identity,
    "alive": lambda held: "yes" if held.owner.alive else "no",
    "began": lambda held: when(held.running_since),
    "queue": lambda held: held.queue,
    **{name: _of_job(text) for name, text in JOB.items()},
}


@click.command()
@limit
@as_json
@connected
def inprogress(app: App, limit: int, as_json: bool) -> None:
    """Lists the jobs that processes have fetched and not finished."""
    list_rows(_COLUMNS, app.inspector.in_progress(), limit, as_json, "jobs in progress")


@click.command()
@click.option(
    "--go-workers",
    "go_process",
    metavar="PROCESS",
    help="recover the jobs of this go-workers process instead, after it has ended",
)
@yes
@as_json
@connected
def recover(app: App, go_process: str | None, yes: bool, as_json: bool, **others: str | None) -> None:
    """Puts the jobs of dead processes back into their queues now. Live processes do so by themselves before long.

    A job that has killed its processes too often goes to the dead set. The application is not imported, so its on_death
    handlers are not called for it; live processes do that.
    """
    if go_process is not None:
        _take_over(app.inspector, go_process, yes, as_json)
        return
    for other in _OF_FEATURES:
        if (value := others[other.flag.name or ""]) is not None:
            other.recover(app, value, yes, as_json)
            return
    app.broker.require(Capability.LEASES)
    _wait_for_beats(app.inspector, app.timing.await_beat_s)
    wall, count = app.clock.wall, 0
    judge = judge_by(PoisonPolicy.of(app.config), recovering(app.registry, app.config, wall), wall)
    with noted(app.inspector, "jobs of dead processes") as change:
        for job in app.broker.recoverable.recover("", judge, proof=""):
            click.echo(one_line(_line(job)), err=as_json)
            change.add(1)
            count += 1
    tell(Changed(count), "recovered", as_json)


_OF_FEATURES = [flag for feature in BY_NAME for flag in feature.command_line().flags_of_recovery]
recover.params[1:1] = [other.flag for other in _OF_FEATURES]


def _wait_for_beats(inspector: Inspector, seconds: float) -> None:
    """After an outage the leases of all processes may have expired: gives the live ones time to beat again."""
    expired = [owner for owner in inspector.owners() if not (owner.alive or owner.dead_for_sure)]
    if expired:
        click.echo(
            f"pyworkers: lease expired: {', '.join(owner.identity for owner in expired)}; "
            f"waiting {seconds:.0f} s for a beat, in case the process lives",
            err=True,
        )
        threading.Event().wait(seconds)


def _line(job: Recovered) -> str:
    what = f"to the dead set: {job.decision.error}" if job.decision.error else "back to its queue"
    return f"{describe_job(job.payload, job.queue)} of {job.owner}: {what}"


def _take_over(inspector: Inspector, process: str, yes: bool, as_json: bool) -> None:
    """go-workers recovers these jobs itself when a process of the same name starts again."""
    neighbours = inspector.neighbours
    jobs = sum(left.size for left in neighbours.leftovers() if left.process == process)
    if not jobs:
        fail(
            f"process {process} of go-workers has no jobs in progress; `pyworkers doctor` lists those that have some",
            FAILED,
        )
    if neighbours.lives(process):
        fail(f"process {process} of go-workers is alive: its jobs would run twice; stop it first", FAILED)
    confirm(f"recover {counted(jobs)}, which run twice if process {process} of go-workers has not ended", yes)
    tell_recovered(inspector, f"process {process} of go-workers", neighbours.take_over(process), as_json)
