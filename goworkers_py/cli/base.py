"""Shared by all commands: configuration from file, environment and flags; errors as one line and an exit code.

A command gets an App: the object of click's context if there is one, else the default App, on which the user's modules
register their jobs. Exit codes: 0 fine, 1 failed, 2 usage or configuration, 75 no server just now, or a full broker
(try again).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import simplejson

import goworkers_py
from goworkers_py.api.app import App
from goworkers_py.config.ini_file import ConfigText, text_of
from goworkers_py.config.loader import WriteOver, flag, load, variable
from goworkers_py.config.options import Config, help_of, names_of, options_by_any_name, options_of
from goworkers_py.config.parsers import words
from goworkers_py.config.partitions import ALL, MAIN, of_partition, place_of_broker, working
from goworkers_py.core.errors import (
    ArgumentError,
    BrokerFull,
    BrokerUnavailable,
    BrokerUnreachable,
    ConfigError,
    WorkersError,
)
from goworkers_py.core.escaping import one_line
from goworkers_py.core.values import NamedTuple
from goworkers_py.features import FEATURES
from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from goworkers_py.admin.inspector import Inspector

FAILED, USAGE, TEMPORARY = 1, 2, 75

Function = Callable[..., Any]


@cache
def commands_of_features() -> dict[str, Feature]:
    """By their names: `limits`, or `processes stop` for one of a group of the engine."""
    return {name: feature for feature in FEATURES for name in feature.commands}


class CommandGroup(click.Group):
    """A group whose usage errors name the command that was called, also when click leaves the command out. Features may
    have more commands of it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        of_features = [name.split() for name in commands_of_features()]
        return sorted({*super().list_commands(ctx), *(name[1] for name in of_features if name[:-1] == [self.name])})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        feature = commands_of_features().get(f"{self.name} {name}")
        return super().get_command(ctx, name) if feature is None else feature.command(f"{self.name} {name}")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name) if name else None
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


class RootGroup(CommandGroup):
    """Prints an error that the user can fix as one line, and exits with the right code."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _one_line_for_usage():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _one_line_for_usage():
                return super().invoke(ctx)
        except BrokerFull as error:
            fail(f"the broker is full: {error}", TEMPORARY)
        except BrokerUnavailable as error:
            if isinstance(error, BrokerUnreachable):
                app = ctx.find_object(App) or goworkers_py.app
                error = error.with_advice(*place_of_broker(app.config))
            fail(f"no server: {error}", TEMPORARY)
        except (ConfigError, ArgumentError) as error:
            fail(str(error), USAGE)
        except WorkersError as error:
            fail(str(error), FAILED)


class ListGroup(CommandGroup):
    """A group whose command `list` may be left out: `pyworkers dead` is `pyworkers dead list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        left_out = args[0].startswith("-") and args[0] not in ctx.help_option_names if args else True
        # While a shell completes the first word (resilient parsing), `args` is empty and `list` must not be added.
        if left_out and (args or not ctx.resilient_parsing):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the commands of the group, or the options of `list` if the word begins with a hyphen."""
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
        if isinstance(error, click.NoSuchOption) and error.ctx and error.possibilities:
            shown = {
                name
                for parameter in error.ctx.command.params
                if not getattr(parameter, "hidden", False)
                for name in parameter.opts
            }
            error.possibilities = [name for name in error.possibilities if name in shown]  # type: ignore[misc]
        command = error.ctx.command_path if error.ctx else "pyworkers"
        fail(f"{error.format_message().rstrip('.')}; see '{command} --help'", USAGE)


def fail(message: str, code: int) -> NoReturn:
    # The message may quote the server and several lines of the user's code: each line is escaped by itself.
    click.echo("\n".join(map(one_line, f"pyworkers: {message}".split("\n"))), err=True)
    sys.exit(code)


# `configured` reads it.
_queue_flags = click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[=THREADS]",
    help="fetch jobs from this queue; may be repeated",
)


_worked_flags = click.option(
    "--partition",
    "worked",
    multiple=True,
    metavar="NAME",
    help="work only this partition, or `main`; may be repeated",
)


def source_flags(command: Function) -> Function:
    """For a command that runs jobs, or checks which ones would run. `configured` reads these flags."""
    for source in (feature.source for feature in FEATURES if feature.source is not None):
        option = click.option(
            flag(source.name), metavar=source.metavar, envvar=variable(source.name), help=source.about
        )
        command = option(command)
    return command


class LocalSettings(NamedTuple):
    """The configuration of a process before another source is asked, see `Feature.source`."""

    file: ConfigText | None
    flags: Mapping[str, str]
    read: Callable[[WriteOver | None], Config]  # with what is to be written over the file
    use: Callable[[Config], Inspector]  # takes a configuration for now: the inspector of its broker


def _allow_no_jobs(context: click.Context, option: click.Parameter, value: bool) -> None:
    _app().allow_no_jobs = value


# For a command that runs jobs, or checks which ones would run.
no_jobs_flag = click.option(
    "--allow-no-jobs",
    is_flag=True,
    expose_value=False,
    callback=_allow_no_jobs,
    help="start although no job is registered: without -q, no queue is worked; with it, the jobs of a queue without a "
    "handler fail",
)


def configured(command: Function, in_help: Container[str] = options_of(Config)) -> Function:
    """Adds `-c` and a flag for each row of the option table, and calls the command with the configured App. The
    command's help shows only the flags in `in_help`."""

    def run(config_file: str | None, **arguments: Any) -> Any:
        given = {name: arguments.pop(name) for name in options_by_any_name(Config)}
        flags = {name: _joined(value) for name, value in given.items() if value not in (None, ())}
        # Once: a process that takes a new configuration later reads it over the file of its start.
        local = ConfigText(text_of(config_file), config_file) if config_file else None
        read = partial(_read, flags, arguments.pop("queues", ()), arguments.pop("worked", ()), local)
        config = _from_source(arguments, LocalSettings(local, flags, read, _use))
        if (partition := arguments.pop("partition", None)) == ALL:
            return _on_each(config, lambda part_config: called(part_config, **arguments))
        config = of_partition(config, _own_name(partition))
        if config.directory and config.needs_a_parent and config_file and not Path(config_file).is_absolute():
            raise ConfigError("directory: with `processes`, -c must give the full path of the configuration file")
        return called(config, **arguments)

    def called(config: Config, **arguments: Any) -> Any:
        app = _app()
        app.use(config, by_command=True)
        return command(app, **arguments)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for row in reversed(options_of(Config).values()):
        several, short = row.metadata["parse"] is words, row.metadata["flag"]
        about = help_of(row, flag) + ("; may be repeated" if several else "")
        # An alias is a hidden flag of its own, so that giving both names is refused. The main flag's help names it.
        for name in names_of(row):
            flags, hidden = [flag(name), *([short] if short and name == row.name else [])], name not in in_help
            run = click.option(*flags, name, metavar="VALUE", help=about, hidden=hidden, multiple=several)(run)
    return click.option("-c", "--config", "config_file", envvar="PYWORKERS_CONFIG", help="configuration file")(run)


def configured_daemon(command: Function) -> Function:
    """`configured`, for a command that runs jobs, or checks which ones would run."""
    return _queue_flags(_worked_flags(source_flags(no_jobs_flag(configured(command)))))


def _app() -> App:
    return click.get_current_context().find_object(App) or goworkers_py.app


def _read(
    flags: Mapping[str, str],
    queues: Sequence[str],
    worked: Sequence[str],
    local: ConfigText | None,
    over: WriteOver | None,
) -> Config:
    config = load(local, flags=flags, queues=queues, over=over)
    return working(config, map(_own_name, worked)) if worked else config


def _from_source(arguments: dict[str, Any], local: LocalSettings) -> Config:
    """The configuration of another source that a flag among these names, or else of here."""
    found: Config | None = None
    for feature in FEATURES:
        if feature.source is not None and (name := arguments.pop(feature.source.name, None)):
            found = feature.configured_from(name, local)
    return found or local.read(None)


def _use(config: Config) -> Inspector:
    app = _app()
    app.use(config, by_command=True)
    return app.inspector


def _on_each(config: Config, call: Callable[[Config], Any]) -> NoReturn:
    """Calls the command for each partition, with a heading on stderr, and exits with the worst code."""
    worst = 0
    for name in ("", *(partition.name for partition in config.partitions)):
        if config.partitions:
            click.echo(f"partition {name or MAIN}:", err=True)
        try:
            call(of_partition(config, name))
        except BrokerUnavailable as error:
            click.echo(f"pyworkers: no server: {one_line(str(error))}", err=True)
            worst = TEMPORARY
        except SystemExit as ended:
            worst = max(worst, ended.code if isinstance(ended.code, int) else FAILED)
    sys.exit(worst)


def _own_name(partition: str | None) -> str:
    """People call it `main`; its name is empty."""
    return "" if partition in (None, MAIN) else str(partition)


def named_partition(app: App) -> str:
    """The name of the partition by --partition, as people call it; empty where the option was left out."""
    named = click.get_current_context().params.get("partition") is not None
    return app.config.partition_name if named else ""


def _joined(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def connected(command: Function) -> Function:
    """`configured`, for a command that only connects to the broker: its help shows the flags of the connection."""
    return _of_partition(configured(command, {"broker", "broker_password_file", "store", "data_dir", "namespace"}))


def with_jobs(command: Function, *more_in_help: str) -> Function:
    """`connected`, for a command that also imports the jobs."""
    shown = {"broker", "broker_password_file", "store", "data_dir", "namespace", "require", "timestamps"}
    return _of_partition(configured(command, shown.union(more_in_help)))


# One that reads may be asked for all of them.
_of_partition = click.option(
    "--partition", metavar="NAME", help="look at the broker of this partition of -c, or `all` one after the other"
)


def json_of(text: str, kind: type, wanted: str) -> Any:
    try:
        value = simplejson.loads(text, allow_nan=True)  # the push refuses NaN, and names its place
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{wanted}: {error}") from None
    if not isinstance(value, kind):
        raise click.UsageError(f"{wanted}, is {text!r}")
    return value
