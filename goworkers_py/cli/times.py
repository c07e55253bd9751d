"""Times on the command line."""

from __future__ import annotations

import click

from goworkers_py.config.spoken_times import HOW as HOW
from goworkers_py.config.spoken_times import LONGEST_SPAN_S as LONGEST_SPAN_S
from goworkers_py.config.spoken_times import spoken_span, spoken_time
from goworkers_py.core.errors import ArgumentError


def time_of(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The callback of an option for a time. Returns epoch seconds."""
    try:
        return None if value is None else spoken_time(value)
    except ArgumentError as error:
        raise click.BadParameter(str(error)) from None


def span_of(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The callback of an option for a length of time. Returns seconds."""
    try:
        return None if value is None else spoken_span(value)
    except ArgumentError as error:
        raise click.BadParameter(str(error)) from None
