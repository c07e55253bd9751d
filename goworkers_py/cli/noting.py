"""Adds what a command changes to the audit list, which the pages show."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from goworkers_py.admin.asker import asker
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.broker import Capability
from goworkers_py.core.errors import ArgumentError, WorkersError
from goworkers_py.core.escaping import one_line

# A command that is killed leaves as much unnoted at most.
STEP_S = 2.0


class NotedChange:
    """`count` is set by a command that changes all in one step, `add` is called by one that makes many."""

    def __init__(self, inspector: Inspector, what: str, dry_run: bool) -> None:
        self.what = what
        self.count: int | None = None
        self._inspector = inspector
        self._is_noted = not dry_run and inspector.has(Capability.ADMIN)
        self._name = secrets.token_hex(6)
        self._next = time.monotonic() + STEP_S

    def add(self, count: int) -> None:
        self.count = (self.count or 0) + count
        if time.monotonic() >= self._next:
            self.note("not finished")
            self.count, self._next = 0, time.monotonic() + STEP_S

    def note(self, ending: str = "") -> None:
        """Never fails, because the change is made already: a list that cannot be written makes it no failure."""
        if not self._is_noted:
            return
        what = f"{self.what}: {ending}" if ending else self.what
        count = None if self.count is None else int(self.count)  # it may be a boolean
        try:
            self._inspector.note_action(asker(), _command(), what, count, change=self._name)
        except WorkersError as error:
            warning = f"pyworkers: warning: this change could not be added to the audit list: {error}"
            click.echo(one_line(warning), err=True)


@contextmanager
def noted(inspector: Inspector, what: str, dry_run: bool = False) -> Iterator[NotedChange]:
    """Around the calls that change something. Notes it also where they fail, or somebody ends the command. `what` names
    the things and not what is done to them, which the name of the command says; it holds no value from a job."""
    change = NotedChange(inspector, what, dry_run)
    try:
        yield change
    except BaseException as error:
        ending = "refused" if isinstance(error, ArgumentError) else "failed"
        change.note(f"{ending}, perhaps in the middle")
        raise
    change.note()


def _command() -> str:
    """`queue delete`, without the name of the program."""
    context, words = click.get_current_context(), list[str]()
    while context.parent is not None:
        words.insert(0, context.info_name or "")
        context = context.parent
    return " ".join(words)
