"""What commands that list and change jobs share: filters, limits, asking before much is lost, a progress bar."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from goworkers_py.admin.entries import PAGE, Entry, Filter, counted
from goworkers_py.admin.job_sets import Changed
from goworkers_py.cli.base import FAILED, Command, fail
from goworkers_py.observe.escaping import one_line

MOST_PROBLEMS = 20

as_json = click.option("--json", "as_json", is_flag=True, help="for programs: one JSON object a line")
dry_run = click.option("--dry-run", is_flag=True, help="only shows what would be done")
yes = click.option("--yes", is_flag=True, help="does not ask")
limit = click.option("-n", "--limit", type=click.IntRange(min=0), default=50, help="show at most so many (50); 0: all")

Advance = Callable[[int], Any]


def filtered(command: Command) -> Command:
    """Adds the filters; the command is given a Filter as `wanted`."""

    def run(*args: Any, job_class: str, jids: tuple[str, ...], error: str, match: str, **others: Any) -> Any:
        return command(*args, wanted=Filter(job_class, jids, error, match), **others)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--match", default="", metavar="TEXT", help="with this text anywhere in the payload, as written"),
        click.option("--error", default="", metavar="TEXT", help="with this text in the error's class or message"),
        click.option("--jid", "jids", multiple=True, help="the job with this jid; may be repeated"),
        click.option("--class", "job_class", default="", metavar="CLASS", help="jobs of this class"),
    ):
        run = option(run)
    return run


class Wish:
    """A filter that remembers which of its jids it has met."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted
        self._missing = dict.fromkeys(wanted.jids)

    def fits(self, entry: Entry) -> bool:
        fits = self._wanted.fits(entry)
        if fits and self._missing:
            self._missing.pop(entry.jid, None)
        return fits

    def report_missing(self, place: str) -> None:
        """Ends the command where a job that was named is not there."""
        if self._missing:
            fail(f"no such job in {place}: jid {', '.join(self._missing)}", FAILED)


def tell(changed: Changed, done: str, as_json: bool = False) -> None:
    """The result on stdout; what could not be done on stderr, and then the command has failed."""
    if as_json:
        click.echo(json.dumps({done.replace(" ", "_"): changed.done, "problems": changed.problems}))
    else:
        click.echo(f"{counted(changed.done)} {done}")
        for problem in changed.problems[:MOST_PROBLEMS]:
            click.echo(one_line(f"pyworkers: {problem}"), err=True)
    if len(changed.problems) > MOST_PROBLEMS:
        fail(f"{len(changed.problems)} problems in all", FAILED)
    if changed.problems:
        sys.exit(FAILED)


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless somebody agrees."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"to {question}, say --yes")
    if not click.confirm(f"{question}?", err=True):
        fail("nothing was done", FAILED)


def may_clear(place: str, jobs: int, yes: bool) -> bool:
    """False, and told, where there is nothing to delete."""
    if jobs or yes:
        confirm(f"delete all of {counted(jobs)} in {place}", yes)
        return True
    click.echo(f"{place} is empty: there is nothing to delete")
    return False


@contextmanager
def progress(length: int) -> Iterator[Advance]:
    """A bar on a terminal for what takes more than a moment."""
    if length < 10 * PAGE or not sys.stderr.isatty():
        yield lambda steps: None
    else:
        with click.progressbar(length=length, file=sys.stderr) as bar:
            yield bar.update
