"""What every command shares: configuration by file, environment and flags; errors as one line and an exit code.

Exit codes: 0 fine, 1 failed, 2 usage or configuration, 75 no server just now (try again).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

import goworkers_py
from goworkers_py.config.loader import load
from goworkers_py.config.options import Config, options_of
from goworkers_py.config.parsers import words
from goworkers_py.core.errors import ArgumentError, BrokerUnavailable, ConfigError, WorkersError
from goworkers_py.observe.escaping import one_line

FAILED, USAGE, TEMPORARY = 1, 2, 75

Command = Callable[..., Any]


class Words(click.Group):
    """A group that knows which of its commands was called in a wrong way, also where click does not say."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name) if name else None
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


class Group(Words):
    """Turns what the user can mend into one line and the right exit code."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _one_line_for_usage():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _one_line_for_usage():
                return super().invoke(ctx)
        except BrokerUnavailable as error:
            fail(f"no server: {error}", TEMPORARY)
        except (ConfigError, ArgumentError) as error:
            fail(str(error), USAGE)
        except WorkersError as error:
            fail(str(error), FAILED)


class Listing(Words):
    """A group whose first word may be left out: it lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A shell that completes asks for what may follow: no word is put in.
        left_out = args[0].startswith("-") and args[0] not in ctx.help_option_names if args else True
        if left_out and (args or not ctx.resilient_parsing):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Its commands, or the options of `list`."""
        command = self.get_command(ctx, "list") if incomplete.startswith("-") else None
        if command is None:
            return super().shell_complete(ctx, incomplete)
        return command.shell_complete(click.Context(command, ctx, "list", resilient_parsing=True), incomplete)


@contextmanager
def _one_line_for_usage() -> Iterator[None]:
    try:
        yield
    except getattr(click.exceptions, "NoArgsIsHelpError", ()):  # since click 8.2: prints the whole help
        raise
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pyworkers"
        fail(f"{error.format_message().rstrip('.')}; see '{command} --help'", USAGE)


def fail(message: str, code: int) -> NoReturn:
    # It may have a server's words in it, and some lines of the user's code.
    click.echo("\n".join(map(one_line, f"pyworkers: {message}".split("\n"))), err=True)
    sys.exit(code)


def configured(command: Command, told_of: Container[str] = options_of(Config)) -> Command:
    """Adds `-c` and a flag for each row of the option table; the command is given the configuration, and the app has
    it. Its help tells of the flags named in `told_of`."""

    def run(config_file: str | None, **arguments: Any) -> Any:
        given = {name: arguments.pop(name) for name in options_of(Config)}
        flags = {name: _joined(value) for name, value in given.items() if value not in (None, ())}
        config = load(config_file, flags=flags, queues=arguments.pop("queues", ()))
        if config.directory and config.needs_a_parent and config_file and not Path(config_file).is_absolute():
            raise ConfigError("directory: with `processes` the configuration file must be named by its full path")
        goworkers_py.app.use(config, by_command=True)
        return command(config, **arguments)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for name, row in reversed(options_of(Config).items()):
        names = [f"--{name.replace('_', '-')}", *([row.metadata["flag"]] if row.metadata["flag"] else [])]
        several, hidden = row.metadata["parse"] is words, name not in told_of
        about = row.metadata["help"] + ("; may be repeated" if several else "")
        run = click.option(*names, name, metavar="VALUE", help=about, hidden=hidden, multiple=several)(run)
    return click.option("-c", "--config", "config_file", envvar="PYWORKERS_CONFIG", help="configuration file")(run)


def _joined(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def connected(command: Command) -> Command:
    """`configured`, for a command that needs to know little more than where the server is."""
    return configured(command, {"redis", "redis_password_file", "data_dir", "namespace"})


def with_jobs(command: Command) -> Command:
    """`connected`, for a command that imports the jobs too."""
    return configured(command, {"redis", "redis_password_file", "data_dir", "namespace", "require", "timestamps"})
