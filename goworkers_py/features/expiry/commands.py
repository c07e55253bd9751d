"""The flag of `pyworkers enqueue`."""

from __future__ import annotations

import click

from goworkers_py.features.parts import CommandLine

EXPIRES_IN = click.Option(
    ["--expires-in"], type=float, metavar="SECONDS", help="drop the job if it is not begun in time"
)


COMMAND_LINE = CommandLine(flags_of_push=(EXPIRES_IN,))
