"""A flag of `pyworkers recover` that recovers something else than the jobs of dead processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import Changed
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import tell
from goworkers_py.core.values import NamedTuple


class RecoveryFlag(NamedTuple):
    flag: click.Option
    recover: Callable[[App, str, bool, bool], None]  # of the value of the flag, and those of --yes and --json


def tell_recovered(inspector: Inspector, what: str, moved: Iterable[int], as_json: bool) -> None:
    """Moves the jobs, and says how many."""
    total = 0
    with noted(inspector, what) as change:
        for number in moved:
            change.add(number)
            total += number
    tell(Changed(total), "recovered", as_json)
