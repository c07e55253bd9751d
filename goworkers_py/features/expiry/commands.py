"""The flag of `pyworkers enqueue`."""

from __future__ import annotations

import click

EXPIRES_IN = click.Option(
    ["--expires-in"], type=float, metavar="SECONDS", help="drop the job if it is not begun in time"
)
