"""`web`: the pages alone; `web grant` lets somebody use them."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import USAGE, CommandGroup, Function, fail, with_jobs
from goworkers_py.config.options import Config
from goworkers_py.config.user_code import import_from_here
from goworkers_py.core.errors import ConfigError
from goworkers_py.system.logs import everybody_reads, log_files, reopen_log_files, setup_logging
from goworkers_py.web.port import open_port

DEFAULT_PORT = 8080
STANDARD_OUTPUT = 1


class _Web(CommandGroup):
    """`pyworkers web` without a command serves the pages."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Web)
def web() -> None:
    """Serves the pages in which people see and steer the fleet."""


def _serving(command: Function) -> Function:
    return with_jobs(command, "log_level", "log_format", "logfile")


@web.command()
@click.option("--port", type=click.IntRange(0, 65_535), help=f"port; 0 chooses a free one [{DEFAULT_PORT}]")
@click.option("--host", help="address to listen on; another one than loopback needs access_file")
@click.option("--access-file", metavar="FILE", help="who may; `pyworkers web grant NAME` prints its lines")
@click.option("--read-only", is_flag=True, help="nobody can change anything")
@_serving
def serve(app: App, port: int | None, host: str | None, access_file: str | None, read_only: bool) -> None:
    """Serves the pages until TERM or INT. Its options override the section [web]."""
    web = app.config.web
    said = {"host": host, "access_file": access_file, "read_only": read_only or None}
    said["port"] = port if port is not None else web.port or DEFAULT_PORT  # type: ignore[assignment]
    web = dataclasses.replace(web, **{name: value for name, value in said.items() if value is not None})  # type: ignore[arg-type]
    app.use(dataclasses.replace(app.config, web=web), by_command=True)
    _log_as_run_does(app.config)
    try:
        import_from_here()
        app.import_jobs()
    except ConfigError as error:
        click.echo(f"pyworkers: the pages cannot tell which classes have code: {error}", err=True)
    with _noted_signals() as signals:
        pages = open_port(app, web)
        click.echo(f"pages: {pages.shown_address(everybody_reads(STANDARD_OUTPUT))}")
        sys.stdout.flush()
        while signals.get() == signal.SIGHUP:
            reopen_log_files()
        pages.stop()


def _log_as_run_does(config: Config) -> None:
    """Logins and changes leave lines, which people look for in one place."""
    setup_logging(config.log_level, config.log_format, config.logfile and str(Path(config.directory, config.logfile)))


@contextmanager
def _noted_signals() -> Iterator[SimpleQueue[int]]:
    """TERM, INT, and HUP where a log file may be moved away."""
    came = SimpleQueue[int]()
    numbers = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if log_files() else []))
    former = {signum: signal.signal(signum, lambda number, _: came.put(number)) for signum in numbers}
    try:
        yield came
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)


@web.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(["view", "push", "act"]), default="view", show_default=True, help="what NAME may do"
)
@click.option("--password", is_flag=True, help="ask for a password, instead of making a token")
def grant(name: str, role: str, password: bool) -> None:
    """Prints a line for the access file.

    \b
    pyworkers web grant shop --role push >> access       makes a token, shown once
    pyworkers web grant ada --password >> access         asks for a password
    """
    from goworkers_py.web.site.access_file import (  # needs no jinja2
        SHORTEST_PASSWORD,
        check_name,
        password_line,
        token_line,
    )

    try:
        check_name(name)
    except ValueError as error:
        fail(str(error), USAGE)
    if password:
        if sys.stdin.isatty():
            given = click.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        else:
            given = sys.stdin.readline().rstrip("\r\n")
        if len(given) < SHORTEST_PASSWORD:
            fail(
                f"a password needs at least {SHORTEST_PASSWORD} characters: take some words that nobody would guess, "
                "or let a password manager make one; without --password, this command makes a token",
                USAGE,
            )
        click.echo(password_line(name, role, given))
        return
    line, token = token_line(name, role)
    click.echo(line)
    click.echo(f"token of {name}, shown only now: {token}", err=True)
