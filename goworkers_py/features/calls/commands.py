"""`processes quiet`, `processes stop` and the like: commands that are given to processes, which answer. `reports`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click
import simplejson

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.cli.base import FAILED, Function, connected, fail, named_partition
from goworkers_py.cli.noting import noted
from goworkers_py.cli.processes import of_named_partition
from goworkers_py.cli.selection import as_json, confirm, limit, yes
from goworkers_py.cli.tables import clock_time
from goworkers_py.core.escaping import one_json_line, one_line
from goworkers_py.features.calls import call as names
from goworkers_py.features.calls.admin import SIGNALS, fits, why_not_asked
from goworkers_py.features.calls.call import Answer, Report, Target

LOOK_EVERY_S = 0.5
MOST = 5_000  # reports: the broker keeps about so many


def targeted(command: Function) -> Function:
    """Adds the options that choose processes, and calls the command with a `Caller` that gives a command to them."""

    def run(
        app: App, identity: str | None, everyone: bool, tagged: str, of_queue: str, within: float, said: str,
        as_json: bool, **arguments: Any,
    ) -> None:  # fmt: skip
        some, partition = identity or tagged or of_queue, named_partition(app)
        if not (some or everyone or partition) or (everyone and some):
            raise click.UsageError(
                "give the identity of a process, as `processes list` shows it, or --tagged, --of-queue, --partition "
                "or --all"
            )
        target = Target([identity] if identity else [], tagged, of_queue, partition)
        chosen = [process for process in of_named_partition(app) if fits(replace(target, partition=""), process)]
        if identity is not None and not chosen:
            of = f" of partition {partition}" if partition else ""
            fail(f"there is no process {identity}{of}; `pyworkers processes list` shows all", FAILED)
        command(Caller(app, target, chosen, within, said, as_json), **arguments)

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
        click.option("--all", "everyone", is_flag=True, help="all processes, of --partition if that is given"),
        click.argument("identity", required=False),
    ):  # fmt: skip
        run = option(run)
    return connected(run)


class Caller:
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

    def give(self, name: str, *arguments: Any) -> None:
        """Prints the answers. The command fails when a process did not obey, or did not answer, or when none obeyed. A
        process that lacks the pool or the queue of the command, or stands by, is no failure while another one obeys."""
        if not self._chosen and replace(self._target, partition="") == Target([]):
            click.echo(f"0 processes asked to {name}")
            return
        if not self._chosen:
            fail("there is no such process; `pyworkers processes list` shows all", FAILED)
        obeyed = lacking = 0
        with noted(self._app.inspector, self._named(name)) as change:
            for answer in self._give(name, arguments):
                self._print(answer)
                change.add(int(answer.ok))
                obeyed += answer.ok
                lacking += not answer.here
        if lacking == len(self._chosen):
            why = (
                "all of them stand by"
                if all(process.standby for process in self._chosen)
                else "none has this pool or queue"
            )
            fail(f"no process has obeyed: {why}", FAILED)
        sys.exit(0 if obeyed + lacking == len(self._chosen) else FAILED)

    def _named(self, name: str) -> str:
        """Without the arguments of a command of the program: they may be anything."""
        whom = ", ".join(process.identity for process in self._chosen)
        return f"{name}: {whom}"

    def _give(self, name: str, arguments: Sequence[Any]) -> Iterator[Answer]:
        yield from self._ask_by_signal(name, [process for process in self._chosen if not process.commands])
        yield from self._answers(name, arguments)

    def _answers(self, name: str, arguments: Sequence[Any]) -> list[Answer]:
        """Also of the processes that did not answer: then it is an error."""
        speaking = [process for process in self._chosen if process.commands]
        if not speaking:
            return []
        # Only the processes that were shown and confirmed. A release that does not say its partition does not obey a
        # command to one.
        partition = self._target.partition if all(process.partition for process in speaking) else ""
        target = Target([process.identity for process in speaking], partition=partition)
        done = self._app.inspector.call(name, *arguments, target=target, timeout_s=self._within_s, by=self._said)
        error = f"no answer within {self._within_s:g} s"
        return [*done.answers, *(Answer(identity, error=error) for identity in done.silent)]

    def _ask_by_signal(self, name: str, others: Sequence[Process]) -> Iterator[Answer]:
        able = [process for process in others if not why_not_asked(process, name)]
        asked = self._app.inspector.ask(able, SIGNALS[name]) if able else []
        for process in others:
            if process in asked:
                yield Answer(process.identity, "asked; this program does not answer")
            else:
                yield Answer(process.identity, error=why_not_asked(process, name), here=not process.standby)

    def _print(self, answer: Answer) -> None:
        if self._json:
            click.echo(one_json_line(simplejson.dumps(answer.as_dict(), ensure_ascii=False)))
            return
        if answer.here and not answer.ok:
            click.echo(one_line(f"pyworkers: {answer.identity}: {answer.error}"), err=True)
            return
        value = answer.value if answer.here else answer.error
        text = value if isinstance(value, str) else simplejson.dumps(value, ensure_ascii=False)
        lines = [one_line(line) for line in text.split("\n")]
        click.echo("\n".join([f"{answer.identity}: {lines[0]}", *lines[1:]]))


# --- the commands of the group `processes`


@click.command()
@yes
@targeted
def quiet(caller: Caller, yes: bool) -> None:
    """Has processes fetch no new jobs, until `resume`."""
    caller.may("quiet", yes)
    caller.give(names.QUIET)


@click.command()
@targeted
def resume(caller: Caller) -> None:
    """Has quiet processes fetch jobs again."""
    caller.give(names.RESUME)


@click.command()
@yes
@targeted
def stop(caller: Caller, yes: bool) -> None:
    """Has processes stop, as TERM does."""
    caller.may("stop", yes)
    caller.give(names.STOP)


@click.command()
@yes
@targeted
def reload(caller: Caller, yes: bool) -> None:
    """Has processes replaced by new ones with new code.

    For `processes` of 2 or more; one retires when its successor is ready."""
    caller.may("reload", yes)
    caller.give(names.RELOAD)


@click.command()
@targeted
def dump(caller: Caller) -> None:
    """Shows the stack of every thread, and the job that it runs."""
    caller.give(names.DUMP)


@click.command("log-level")
@click.argument("level")
@targeted
def log_level(caller: Caller, level: str) -> None:
    """Sets the log level: debug, info, warning or error.

    `configured` sets it back."""
    caller.give(names.LOG_LEVEL, level)


@click.command()
@click.argument("threads", type=click.IntRange(1))
@click.option("--pool", default="", help="this pool, or this queue with threads of its own; all if left out")
@targeted
def concurrency(caller: Caller, threads: int, pool: str) -> None:
    """Gives each pool so many threads, until its process restarts.

    Running jobs go on to their end."""
    caller.give(names.CONCURRENCY, threads, pool)


@click.command("pause-queue")
@click.argument("queue_name", metavar="QUEUE")
@targeted
def pause_queue(caller: Caller, queue_name: str) -> None:
    """Has these processes begin no job of a queue.

    The others go on; `queue pause` is for the whole fleet."""
    caller.give(names.PAUSE_QUEUE, queue_name)


@click.command("resume-queue")
@click.argument("queue_name", metavar="QUEUE")
@targeted
def resume_queue(caller: Caller, queue_name: str) -> None:
    """Ends `pause-queue`."""
    caller.give(names.RESUME_QUEUE, queue_name)


@click.command("call")
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


# --- reports


@click.command()
@click.option("--follow", is_flag=True, help="go on with new reports, until Ctrl-C")
@click.option("--name", default="", help="only reports of this name")
@limit
@as_json
@connected
def reports(app: App, follow: bool, name: str, limit: int, as_json: bool) -> None:
    """Shows what programs tell with workers.report(), newest last."""
    page = app.inspector.reports(limit=MOST)
    shown = [report for report in page if name in ("", report.name)]
    for report in shown[-limit:] if limit else shown:
        _print(report, as_json)
    pause = threading.Event()  # never set: Ctrl-C ends the command
    position = page[-1].position if page else ""
    while follow:
        pause.wait(LOOK_EVERY_S)
        for report in app.inspector.reports(after=position, limit=MOST):
            position = report.position
            if name in ("", report.name):
                _print(report, as_json)


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        click.echo(one_json_line(simplejson.dumps(report.as_dict(), ensure_ascii=False)))
    else:
        body = simplejson.dumps(report.body, ensure_ascii=False)
        click.echo(one_line(f"{clock_time(report.at)}  {report.identity}  {report.name}  {body}"))
