"""`processes` lists the processes of the fleet; its other commands are given to processes, which answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import click
import simplejson

from goworkers_py.admin.filter import counted
from goworkers_py.admin.fleet_calls import fits
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.cli.base import FAILED, Function, ListGroup, connected, fail
from goworkers_py.cli.listing import show_all
from goworkers_py.cli.selection import as_json, confirm, yes
from goworkers_py.cli.tables import Table, duration
from goworkers_py.config.options import Config
from goworkers_py.core import call as names
from goworkers_py.core.call import Answer, Target
from goworkers_py.core.command import Command
from goworkers_py.core.escaping import one_json_line, one_line

# Other programs, and pyworkers before 0.4.0, know these; they obey after their next beat, and do not answer.
SIGNALS = {names.QUIET: Command.QUIET, names.STOP: Command.STOP, names.DUMP: Command.DUMP}


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


# --- commands to processes


def targeted(command: Function) -> Function:
    """Adds the options that choose processes, and calls the command with a function that gives a command to them."""

    def run(
        app: App, identity: str | None, everyone: bool, tagged: str, of_queue: str, within: float, said: str,
        as_json: bool, **arguments: Any,
    ) -> None:  # fmt: skip
        some = identity or tagged or of_queue
        if not (some or everyone or app.config.partition) or (everyone and some):
            raise click.UsageError(
                "give the identity of a process, as `processes list` shows it, or --tagged, --of-queue, --partition "
                "or --all"
            )
        target = Target([identity] if identity else [], tagged, of_queue)
        chosen = [one for one in app.inspector.processes() if fits(target, one) and _works_for(app.config, one)]
        if identity is not None and not chosen:
            fail(f"there is no process {identity}; `pyworkers processes list` shows all", FAILED)
        command(_Caller(app, target, chosen, within, said, as_json), **arguments)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        as_json,
        click.option("--as", "said", default="", metavar="TEXT", help="why, for the logs of the processes"),
        click.option(
            "--within", type=click.FloatRange(0.1, names.LONGEST_LIFE_S), default=5.0, metavar="SECONDS",
            help="wait so long for the answers (5); a process that reads the command later does not obey it",
        ),
        click.option("--of-queue", "of_queue", default="", metavar="QUEUE", help="processes that work this queue"),
        click.option("--tagged", default="", metavar="TAG", help="processes with this tag"),
        click.option("--all", "everyone", is_flag=True, help="all processes of the fleet"),
        click.argument("identity", required=False),
    ):  # fmt: skip
        run = option(run)
    return connected(run)


def _works_for(config: Config, process: Process) -> bool:
    """Partitions may share a broker: the chosen one has the processes that work one of its queues."""
    queues = {queue.name for queue in config.queues} | {queue for pool in config.pools for queue in pool.queues}
    return not config.partition or not queues.isdisjoint(process.queues)


class _Caller:
    def __init__(self, app: App, target: Target, chosen: Sequence[Process], within_s: float, said: str, json: bool
                 ) -> None:  # fmt: skip
        self._app = app
        self._target = target
        self._chosen = chosen
        self._within_s = within_s
        self._said = said
        self._json = json

    def may(self, name: str, yes: bool) -> None:
        if not self._target.identities and self._chosen:
            confirm(f"{name} all of {counted(len(self._chosen), 'process', 'processes')}", yes)

    def give(self, name: str, *arguments: Any, one_is_enough: bool = False) -> None:
        """Prints the answers. The command fails when a process did not obey, or did not answer; with `one_is_enough`
        when none obeyed, or one did not answer."""
        if not self._chosen and self._target == Target([]):
            click.echo(f"0 processes asked to {name}")
            return
        speaking = [one.identity for one in self._chosen if one.commands]
        others = [one for one in self._chosen if not one.commands]
        asked = self._ask_by_signal(name, others)
        failed = not self._chosen or len(asked) < len(others)
        if speaking:
            target = Target(speaking)  # those that were shown and confirmed, and no others
            done = self._app.inspector.call(name, *arguments, target=target, timeout_s=self._within_s, by=self._said)
            obeyed = [answer.ok for answer in done.answers]
            failed = failed or bool(done.silent) or not (any(obeyed) if one_is_enough else all(obeyed))
            for answer in done.answers:
                self._print(answer)
            for identity in done.silent:
                self._print(Answer(identity, error=f"no answer within {self._within_s:g} s"))
        if not self._chosen:
            fail("there is no such process; `pyworkers processes list` shows all", FAILED)
        sys.exit(FAILED if failed else 0)

    def _ask_by_signal(self, name: str, others: Sequence[Process]) -> list[Process]:
        able = [one for one in others if name in SIGNALS and not one.embedded]
        asked = self._app.inspector.ask(able, SIGNALS[name]) if able else []
        for one in others:
            if one in asked:
                self._print(Answer(one.identity, "asked; this program does not answer"))
            elif one.embedded and name in SIGNALS:
                self._print(Answer(one.identity, error=f"part of another program; only that program can {name} it"))
            else:
                self._print(Answer(one.identity, error=f"{one.version or 'this program'} does not know {name}"))
        return asked

    def _print(self, answer: Answer) -> None:
        if self._json:
            click.echo(one_json_line(simplejson.dumps(answer.as_dict(), ensure_ascii=False)))
            return
        if not answer.ok:
            click.echo(one_line(f"pyworkers: {answer.identity}: {answer.error}"), err=True)
            return
        told = answer.value if isinstance(answer.value, str) else simplejson.dumps(answer.value, ensure_ascii=False)
        lines = [one_line(line) for line in told.split("\n")]
        click.echo("\n".join([f"{answer.identity}: {lines[0]}", *lines[1:]]))


@processes.command()
@yes
@targeted
def quiet(caller: _Caller, yes: bool) -> None:
    """Has processes fetch no new jobs, until `resume`."""
    caller.may("quiet", yes)
    caller.give(names.QUIET)


@processes.command()
@targeted
def resume(caller: _Caller) -> None:
    """Has quiet processes fetch jobs again."""
    caller.give(names.RESUME)


@processes.command()
@yes
@targeted
def stop(caller: _Caller, yes: bool) -> None:
    """Has processes stop, as TERM does."""
    caller.may("stop", yes)
    caller.give(names.STOP)


@processes.command()
@yes
@targeted
def reload(caller: _Caller, yes: bool) -> None:
    """Has processes replaced by new ones with new code.

    For `processes` of 2 or more; one retires when its successor is ready."""
    caller.may("reload", yes)
    caller.give(names.RELOAD)


@processes.command()
@targeted
def dump(caller: _Caller) -> None:
    """Shows the stack of every thread, and the job that it runs."""
    caller.give(names.DUMP)


@processes.command("log-level")
@click.argument("level")
@targeted
def log_level(caller: _Caller, level: str) -> None:
    """Sets the log level: debug, info, warning or error.

    `configured` sets it back."""
    caller.give(names.LOG_LEVEL, level)


@processes.command()
@click.argument("threads", type=click.IntRange(1))
@click.option("--pool", default="", help="this pool, or this queue with threads of its own; all if left out")
@targeted
def concurrency(caller: _Caller, threads: int, pool: str) -> None:
    """Gives each pool so many threads, until its process restarts.

    Running jobs go on to their end."""
    caller.give(names.CONCURRENCY, threads, pool, one_is_enough=bool(pool))  # others have no such pool


@processes.command("pause-queue")
@click.argument("queue_name", metavar="QUEUE")
@targeted
def pause_queue(caller: _Caller, queue_name: str) -> None:
    """Has these processes begin no job of a queue.

    The others go on; `queue pause` is for the whole fleet."""
    caller.give(names.PAUSE_QUEUE, queue_name)


@processes.command("resume-queue")
@click.argument("queue_name", metavar="QUEUE")
@targeted
def resume_queue(caller: _Caller, queue_name: str) -> None:
    """Ends `pause-queue`."""
    caller.give(names.RESUME_QUEUE, queue_name)


@processes.command("call")
@click.argument("name")
@click.option("--arg", "arguments", multiple=True, metavar="VALUE", help="JSON such as 42, or a text; may be repeated")
@targeted
def call_(caller: _Caller, name: str, arguments: tuple[str, ...]) -> None:
    """Calls a command of the program, of @workers.command.

    Prints what each process returns."""
    caller.give(name, *map(_json_or_text, arguments))


def _json_or_text(told: str) -> Any:
    try:
        return simplejson.loads(told)
    except ValueError:
        return told
