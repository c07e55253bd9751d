"""Shared by the commands that list and change jobs: filters, limits, confirmation, a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import simplejson

from goworkers_py.admin.audit import scope_of
from goworkers_py.admin.filter import Filter, Refined, counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.jobs import Steps
from goworkers_py.brokers.contracts.admin import PAGE, Changed, Place
from goworkers_py.cli.base import FAILED, Function, fail
from goworkers_py.cli.noting import noted
from goworkers_py.cli.times import HOW, time_of
from goworkers_py.core.escaping import one_line
from goworkers_py.wire.stored_job import StoredJob

MOST_PROBLEMS = 20

as_json = click.option("--json", "as_json", is_flag=True, help="print one JSON object a line, for programs")
dry_run = click.option("--dry-run", is_flag=True, help="only show what would be done")
yes = click.option("--yes", is_flag=True, help="do not ask for confirmation")
limit = click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=50, help="show at most this many (50); 0: all"
)

Advance = Callable[[int], Any]


def filtered(command: Function) -> Function:
    """Adds the filter options, and calls the command with a Filter as `wanted`."""

    def run(*args: Any, **given: Any) -> Any:
        wanted = Filter(**{field: given.pop(f"only_{field}") for field, _, _, _ in _FILTERS})
        return command(*args, wanted=wanted, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for field, flag, value, about in reversed(_FILTERS):
        # Without the prefix, two of the names would be those of options of the configuration.
        how: dict[str, Any] = {"multiple": True} if field == "jids" else {"default": ""}
        how = {"callback": time_of} if value == "TIME" else how
        run = click.option(flag, f"only_{field}", metavar=value, help=about, **how)(run)
    return run


# The field of the filter, the flag, what it takes, and its help.
_FILTERS = (
    ("job_class", "--class", "CLASS", "jobs of this class"),
    ("jids", "--jid", "JID", "the job with this jid; may be repeated"),
    ("error", "--error", "TEXT", "jobs with this text in the error's class or message"),
    ("match", "--match", "TEXT", "jobs with this text in the payload, as written"),
    ("tag", "--tagged", "TAG", "jobs with this tag"),
    ("argument", "--arg", "VALUE", "jobs with this argument: a text, or JSON such as 42"),
    ("queue", "--of-queue", "QUEUE", "jobs of this queue"),
    ("since", "--since", "TIME", f"jobs due, dead or enqueued at this time or later: {HOW}"),
    ("until", "--until", "TIME", "jobs due, dead or enqueued at this time or earlier"),
)


class TrackingFilter(Refined):
    """A filter that tracks which of its jids it has not met yet."""

    def __init__(self, wanted: Filter) -> None:
        super().__init__(wanted, self._meet)
        self._missing = dict.fromkeys(wanted.jids)

    def _meet(self, job: StoredJob) -> bool:
        self._missing.pop(job.jid, None)
        return True

    def report_missing(self, place: str) -> None:
        """Fails if the filter named a jid that was not met."""
        if self._missing:
            fail(f"no such job in {place}: jid {', '.join(self._missing)}", FAILED)


def tell(changed: Changed, done: str, as_json: bool = False) -> None:
    """Prints the result on stdout, and the problems on stderr. With problems, the command fails."""
    if as_json:
        click.echo(simplejson.dumps({done.replace(" ", "_"): changed.done, "problems": changed.problems}))
    else:
        click.echo(f"{counted(changed.done)} {done}")
        for problem in changed.problems[:MOST_PROBLEMS]:
            click.echo(one_line(f"pyworkers: {problem}"), err=True)
    if len(changed.problems) > MOST_PROBLEMS:
        fail(f"{len(changed.problems)} problems in all", FAILED)
    if changed.problems:
        sys.exit(FAILED)


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless the user agrees."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"to {question}, add --yes")
    if not click.confirm(f"{question}?", err=True):
        fail("nothing was done", FAILED)


def may_clear(place: str, jobs: int, yes: bool) -> bool:
    """Asks for confirmation. Says so and returns False if there is nothing to delete."""
    if jobs or yes:
        confirm(f"delete all of {counted(jobs)} in {place}", yes)
        return True
    click.echo(f"{place} is empty: there is nothing to delete")
    return False


@contextmanager
def progress(length: int) -> Iterator[Advance]:
    """Shows a bar, if stderr is a terminal and there are many jobs."""
    if length < 10 * PAGE or not sys.stderr.isatty():
        yield lambda steps: None
    else:
        with click.progressbar(length=length, file=sys.stderr) as bar:
            yield bar.update


def carry_out(inspector: Inspector, what: str, steps: Steps, length: int, dry_run: bool) -> Changed:
    """Runs the steps of a change, and notes it. `length` is the number of jobs, for the bar."""
    total = Changed()
    with noted(inspector, what, dry_run) as change, progress(length) as advance:
        change.count = 0
        for looked_at, changed in steps:
            total.add(changed)
            change.add(changed.done)
            advance(looked_at)
    return total


def change_each(
    inspector: Inspector,
    kind: str,
    names: Sequence[str],
    done: str,
    change: Callable[[str], bool],
    could: Callable[[str], bool] | None,
    why_not: str,
) -> None:
    """Changes things by their names, and prints a line for each. With `could`, for a dry run, it only asks that.
    Exit code 1 when one of them could not be changed."""
    missing = False
    with noted(inspector, f"{kind} {', '.join(names)}", dry_run=could is not None) as noting:
        for name in names:
            there = change(name) if could is None else could(name)
            noting.add(int(there))
            missing = missing or not there
            success = done if could is None else f"would be {done}"
            click.echo(f"{name}: {success if there else why_not}")
    if missing:
        raise SystemExit(FAILED)


def cleared(inspector: Inspector, place: Place, name: str) -> Changed:
    with noted(inspector, name) as change:
        change.count = inspector.clear(place)
    return Changed(change.count)


def chosen(place: str, wanted: Filter) -> str:
    """The jobs of a filter, for the audit."""
    return f"{place}, {scope_of(wanted) or 'all'}"
