"""The command `pyworkers`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from goworkers_py.cli.base import RootGroup, commands_of_features
from goworkers_py.cli.hide_password import hide_password
from goworkers_py.core.version import __version__
from goworkers_py.runtime.interpreter import collect_garbage_less_often
from goworkers_py.system import early_signals

# The module of each command of the engine; the features have more. It is imported when the command is called: `run`
# must not wait for imports that only other commands need.
COMMANDS = {
    "run": "run",
    "start": "daemon",
    "stop": "daemon",
    "restart": "daemon",
    "status": "daemon",
    "reload": "daemon",
    "enqueue": "enqueue",
    "stats": "stats",
    "brokers": "brokers",
    "queues": "queues",
    "queue": "queues",
    "jobs": "queues",
    "job": "job",
    "retries": "job_sets",
    "scheduled": "job_sets",
    "parked": "job_sets",
    "outbox": "job_sets",
    "dead": "job_sets",
    "failures": "history",
    "history": "history",
    "processes": "processes",
    "replay": "replay",
    "inprogress": "recover",
    "recover": "recover",
    "top": "top",
    "health": "health",
    "doctor": "doctor",
    "mark": "mark",
    "version": "run",
    "completion": "completion",
    "config": "config",
    "web": "web",
}


# The backspace keeps the lines as they are.
_MORE = """\b
Where something is wrong, begin with `pyworkers doctor`.
Documentation: https://github.com/goworkers-py/goworkers-py/blob/main/docs/index.md"""


class _Main(RootGroup):
    def main(self, args: Any = None, *others: Any, **extra: Any) -> Any:
        if args is None:  # called from the command line, not by another program
            hide_password()
            if not early_signals.is_working_command():  # that has begun with more
                collect_garbage_less_often()  # imports make many objects, and leave no garbage
        return super().main(args, *others, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *(name for name in commands_of_features() if " " not in name)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            feature = commands_of_features().get(name)
            return None if feature is None else feature.command(name)
        command: click.Command = getattr(import_module(f"goworkers_py.cli.{COMMANDS[name]}"), name)
        return command


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_MORE)
@click.version_option(__version__, prog_name="pyworkers")
def main() -> None:
    """Runs the jobs that Rails, Go and Python push to Redis in Sidekiq's format."""
