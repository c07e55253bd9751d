"""The options that choose processes of the fleet, and a caller that gives a command to these and prints the answers."""

from __future__ import annotations

import sys
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
from goworkers_py.cli.selection import as_json, confirm
from goworkers_py.core.escaping import one_json_line, one_line
from goworkers_py.features.commands import call as names
from goworkers_py.features.commands.admin import SIGNALS, fits, why_not_asked
from goworkers_py.features.commands.call import Answer, Target


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
        chosen = reached(app, target)
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


def reached(app: App, target: Target) -> list[Process]:
    """The processes of the fleet that fit. A process that does not say its partition is chosen by its queues."""
    pools = (pool.queues for pool in app.config.pools)
    queues = {queue.name for queue in app.config.queues}.union(*pools) if target.partition else ()
    return [process for process in app.inspector.processes() if fits(target, process, queues)]


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
