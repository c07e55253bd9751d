"""`processes` lists the processes of the fleet; its other commands are given to processes, which answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.cli.base import ListGroup, connected, named_partition
from goworkers_py.cli.calling import Caller, reached, targeted
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json, yes
from goworkers_py.cli.tables import TextTable, duration
from goworkers_py.features.commands import call as names
from goworkers_py.features.commands.call import Target


@click.group(cls=ListGroup)
def processes() -> None:
    """The processes of the fleet: pyworkers, Sidekiq and go-workers."""


@processes.command("list")
@as_json
@connected
def list_(app: App, as_json: bool) -> None:
    """Lists the processes with their threads, state and queues. With --partition: its processes."""
    show_all(reached(app, Target(partition=named_partition(app))), as_json, _show, "processes")


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


# --- commands to processes


@processes.command()
@yes
@targeted
def quiet(caller: Caller, yes: bool) -> None:
    """Has processes fetch no new jobs, until `resume`."""
    caller.may("quiet", yes)
    caller.give(names.QUIET)


@processes.command()
@targeted
def resume(caller: Caller) -> None:
    """Has quiet processes fetch jobs again."""
    caller.give(names.RESUME)


@processes.command()
@yes
@targeted
def stop(caller: Caller, yes: bool) -> None:
    """Has processes stop, as TERM does."""
    caller.may("stop", yes)
    caller.give(names.STOP)


@processes.command()
@yes
@targeted
def reload(caller: Caller, yes: bool) -> None:
    """Has processes replaced by new ones with new code.

    For `processes` of 2 or more; one retires when its successor is ready."""
    caller.may("reload", yes)
    caller.give(names.RELOAD)


@processes.command()
@targeted
def dump(caller: Caller) -> None:
    """Shows the stack of every thread, and the job that it runs."""
    caller.give(names.DUMP)


@processes.command("log-level")
@click.argument("level")
@targeted
def log_level(caller: Caller, level: str) -> None:
    """Sets the log level: debug, info, warning or error.

    `configured` sets it back."""
    caller.give(names.LOG_LEVEL, level)


@processes.command()
@click.argument("threads", type=click.IntRange(1))
@click.option("--pool", default="", help="this pool, or this queue with threads of its own; all if left out")
@targeted
def concurrency(caller: Caller, threads: int, pool: str) -> None:
    """Gives each pool so many threads, until its process restarts.

    Running jobs go on to their end."""
    caller.give(names.CONCURRENCY, threads, pool)


@processes.command("pause-queue")
@click.argument("queue_name", metavar="QUEUE")
@targeted
def pause_queue(caller: Caller, queue_name: str) -> None:
    """Has these processes begin no job of a queue.

    The others go on; `queue pause` is for the whole fleet."""
    caller.give(names.PAUSE_QUEUE, queue_name)


@processes.command("resume-queue")
@click.argument("queue_name", metavar="QUEUE")
@targeted
def resume_queue(caller: Caller, queue_name: str) -> None:
    """Ends `pause-queue`."""
    caller.give(names.RESUME_QUEUE, queue_name)


@processes.command("call")
@click.argument("name")
@click.option("--arg", "arguments", multiple=True, metavar="VALUE", help="JSON such as 42, or a text; may be repeated")
@targeted
def call_(caller: Caller, name: str, arguments: tuple[str, ...]) -> None:
    """Calls a command of the program, of @workers.command.

    Prints what each process returns."""
    caller.give(name, *map(_json_or_text, arguments))


def _json_or_text(text: str) -> Any:
    try:
        return simplejson.loads(text)
    except (ValueError, RecursionError):
        return text
