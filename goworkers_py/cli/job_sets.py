"""`retries`, `scheduled`, `dead`: the sets, each with the same commands as far as they fit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import click

import goworkers_py
from goworkers_py.admin.entries import Entry, Filter, counted
from goworkers_py.admin.job_sets import Changed, JobSet, SetName
from goworkers_py.admin.summary import Summary
from goworkers_py.cli.base import FAILED, Listing, connected, fail
from goworkers_py.cli.listing import DEAD, KINDS, RETRIES, SCHEDULED, Columns, list_entries, show_entry
from goworkers_py.cli.selection import Wish, as_json, confirm, dry_run, filtered, limit, may_clear, progress, tell, yes
from goworkers_py.config.options import Config
from goworkers_py.wire.message import Timestamps

COLUMNS: dict[SetName, Columns] = {
    SetName.RETRIES: RETRIES,
    SetName.SCHEDULED: SCHEDULED,
    SetName.DEAD: DEAD,
}
_ABOUT = {
    SetName.RETRIES: "Jobs that failed and will be tried again.",
    SetName.SCHEDULED: "Jobs that are to run later.",
    SetName.DEAD: "Jobs that failed for good.",
}

NONE = {SetName.RETRIES: "retries", SetName.SCHEDULED: "scheduled jobs", SetName.DEAD: "dead jobs"}

Change = Callable[[JobSet, Sequence[Entry], Timestamps], Changed]


def open_set(name: SetName, config: Config) -> JobSet:
    return JobSet(*goworkers_py.app.place, name, (config.dead_max_jobs, config.dead_timeout))


def entries_of(name: SetName, config: Config) -> Iterator[Entry]:
    """In the order of people's interest: what is due first, what died last."""
    for page in open_set(name, config).pages(newest_first=name is SetName.DEAD):
        yield from page


def make_group(name: SetName) -> click.Group:
    @click.group(name.value, cls=Listing, help=_ABOUT[name])
    def group() -> None: ...

    @group.command("list")
    @filtered
    @limit
    @as_json
    @connected
    def list_(config: Config, wanted: Filter, limit: int, as_json: bool) -> None:
        """Lists them: what is due first comes first, and of the dead what died last."""
        list_entries(
            COLUMNS[name], filter(wanted.fits, entries_of(name, config)), limit, as_json, f"{NONE[name]} {wanted}"
        )

    @group.command()
    @click.argument("jid", required=False)
    @click.option("--match", default="", metavar="TEXT", help="those with this text in the payload, readable or not")
    @as_json
    @connected
    def show(config: Config, jid: str | None, match: str, as_json: bool) -> None:
        """Shows one in full, with its error and backtrace."""
        _show(name, config, jid, match, as_json)

    @group.command()
    @yes
    @connected
    def clear(config: Config, yes: bool) -> None:
        """Deletes all of them."""
        jobs = open_set(name, config)
        if may_clear(name.value, jobs.size(), yes):
            tell(Changed(jobs.clear()), "deleted")

    if name is not SetName.SCHEDULED:
        _add_summary(group, name)
    _add(group, name, "retry", "retried", "Puts jobs into their queues, to run now.", JobSet.retry)
    _add(group, name, "delete", "deleted", "Deletes jobs.", lambda jobs, chosen, _: jobs.delete(chosen))
    if name is not SetName.DEAD:
        _add(group, name, "kill", "killed", "Moves jobs to the dead set.", lambda jobs, chosen, _: jobs.kill(chosen))
    return group


def _show(name: SetName, config: Config, jid: str | None, match: str, as_json: bool) -> None:
    if (jid is None) != bool(match):
        raise click.UsageError("say which: its jid, or --match and a part of what is written there")
    shown = False
    for entry in filter(Filter(jids=[jid] if jid is not None else [], match=match).fits, entries_of(name, config)):
        show_entry(entry, as_json)
        shown = True
    if not shown:
        fail(f"no job with {f'{match!r} in it' if jid is None else f'jid {jid}'} in {name.value}", FAILED)


def _add_summary(group: click.Group, name: SetName) -> None:
    @group.command()
    @limit
    @as_json
    @connected
    def summary(config: Config, limit: int, as_json: bool) -> None:
        """Counts them by class and error."""
        jobs, counts = open_set(name, config), Summary()
        with progress(jobs.size()) as advance:
            for page in jobs.pages():
                counts.add(page)
                advance(len(page))
        list_entries(KINDS, counts.kinds(), limit, as_json, NONE[name])


def _add(group: click.Group, name: SetName, verb: str, done: str, about: str, change: Change) -> None:
    @group.command(verb, help=f"{about} Say which: by --jid, by a filter, or --all.")
    @filtered
    @click.option("--all", "everything", is_flag=True, help="all of them")
    @dry_run
    @yes
    @as_json
    @connected
    def command(config: Config, wanted: Filter, everything: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
        if wanted.empty != everything:
            raise click.UsageError(f"say which jobs to {verb}: by --jid, by a filter, or --all")
        jobs, wish = open_set(name, config), Wish(wanted)
        size = jobs.size()
        if everything and size and verb != "retry" and not dry_run:
            confirm(f"{verb} all of {counted(size)} in {name.value}", yes)

        def how(chosen: Sequence[Entry]) -> Changed:
            return Changed(len(chosen)) if dry_run else change(jobs, chosen, Timestamps(config.timestamps))

        total = Changed()
        with progress(size) as advance:
            for looked_at, changed in jobs.change(how, wish.fits, size):
                total.add(changed)
                advance(looked_at)
        tell(total, f"would be {done}" if dry_run else done, as_json)
        wish.report_missing(name.value)


retries, scheduled, dead = map(make_group, (SetName.RETRIES, SetName.SCHEDULED, SetName.DEAD))
