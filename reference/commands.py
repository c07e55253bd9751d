"""docs/commands.md: every command with its options, from click; the exit codes and the signals."""

from __future__ import annotations

import re
import signal
import textwrap
from collections.abc import Iterator

import click

from goworkers_py.cli import main
from goworkers_py.cli.base import FAILED, TEMPORARY, USAGE
from goworkers_py.config.options import Config, options_of
from goworkers_py.core.command import Command
from goworkers_py.system.signals import commands_of_signals
from reference.markdown import GENERATED, Missing, code, prose, table

_HEAD = f"""\
{GENERATED}

# Commands

Every command of `pyworkers`, with its options, exit codes and signals. [Operations](operations.md) shows how they are \
used. `-h` after a command prints the same.

- Each command takes `-c FILE` and those options of the section `[pyworkers]` that it needs as flags, such as \
`--broker`: see [options](options.md).
- A command that reads takes `--json`, but for `top`. One that changes much asks first: `--yes` answers, and \
`--dry-run` only shows.
- `pyworkers completion SHELL` prints a script that completes commands and options in bash, zsh or fish.
"""

_EXIT_CODES = {
    0: "fine",
    FAILED: "failed; or the answer is no, where the command says so",
    USAGE: "wrong usage or configuration",
    TEMPORARY: "no server just now, or a full one: try again; `run` waits for the server instead",
}

_ABOUT_SIGNALS = """\
Signals for `pyworkers run`. No process can handle SIGKILL: another one recovers its jobs, see \
[reliability](reliability.md).
"""

# By what a daemon does then. `_signals` fails if a signal has a command that is not here.
_EFFECTS = {
    Command.STOP_OR_HURRY: "stop: fetch no new jobs, let running jobs finish for `timeout` seconds; a second one stops "
    "at once",
    Command.INTERRUPT: "the same, from Ctrl-C",
    Command.QUIET: "quiet: fetch no new jobs; running jobs go on",
    Command.DUMP: "log the stack of every thread and the job that it runs",
    Command.REPLACE: "replace the children of `processes` by new ones, one after the other: new code without a gap",
    Command.REOPEN: "open `logfile` anew",
}


def page() -> str:
    # Whether HUP counts depends on the log files of this process.
    signals = {**commands_of_signals(), signal.SIGHUP: Command.REOPEN}
    parts = [
        _HEAD,
        "## Exit codes\n",
        table(["exit code", "means"], [[str(number), about] for number, about in _EXIT_CODES.items()]) + "\n",
        "## Signals\n",
        _ABOUT_SIGNALS,
        table(["signal", "effect"], [[signal.Signals(one).name, _EFFECTS[to]] for one, to in signals.items()]) + "\n",
    ]
    # Its settings are needed: click keeps in each command the names of the help option of the first context.
    parts += [*_group(main, click.Context(main, info_name="pyworkers", **main.context_settings))]
    return "\n".join(parts)


def _group(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, parent=context, info_name=name)
        depth = "#" * (len(own.command_path.split()))
        yield f"{depth} {own.command_path.partition(' ')[2]}\n"
        yield _about(command)
        if isinstance(command, click.Group):
            yield from _group(command, own)
        else:
            pieces = " ".join(command.collect_usage_pieces(own))
            yield f"```text\n{own.command_path} {pieces}\n```\n"
            rows = [_row(option) for option in command.params if isinstance(option, click.Option) and _is_own(option)]
            if rows:
                yield table(["option", "what it is"], rows) + "\n"


def _about(command: click.Command) -> str:
    """The help that click keeps: `\\b` before a paragraph says that its lines are kept as they are."""
    if not command.help:
        raise Missing(f"the command {command.name} has no docstring")
    paragraphs = re.split(r"\n\s*\n", command.help.strip())
    return "\n\n".join(_paragraph(one) for one in paragraphs) + "\n"


def _paragraph(text: str) -> str:
    if "\b" in text:
        return f"```text\n{textwrap.dedent(text.partition(chr(8))[2].strip(chr(10)))}\n```"
    return prose(" ".join(text.split())).replace("<", "\\<").replace("*", "\\*")


def _is_own(option: click.Option) -> bool:
    """Not one of the configuration, of which nearly every command has many."""
    of_config = (option.metavar == "VALUE" and option.name in options_of(Config)) or "-c" in option.opts
    return not option.hidden and not of_config


def _row(option: click.Option) -> list[str]:
    if not option.help:
        raise Missing(f"the option {option.opts[0]} has no help")
    names = ", ".join(map(code, option.opts))
    value = "" if option.is_flag else option.metavar or ""
    return [f"{names} {value}".strip(), prose(option.help).replace("<", "\\<")]
