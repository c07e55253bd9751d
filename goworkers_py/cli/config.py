"""`config`: checks a configuration, and stores configurations centrally."""

from __future__ import annotations

import difflib
from pathlib import Path

import click
import simplejson

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.cli.base import (
    FAILED,
    CommandGroup,
    configured,
    connected,
    fail,
    from_flag,
    no_jobs_flag,
    queue_flags,
    worked_flags,
)
from goworkers_py.cli.listing import report_none
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, confirm, dry_run, yes
from goworkers_py.cli.tables import TextTable, clock_time
from goworkers_py.config.ini_file import text_of
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.escaping import one_json_line
from goworkers_py.features import BY_NAME
from goworkers_py.features.configuration.admin import check as check_text
from goworkers_py.features.configuration.stored_config import StoredConfig
from goworkers_py.features.groups.aggregates import Aggregates
from goworkers_py.runtime.plan import Plan

named = click.option("--name", required=True, metavar="NAME", help="name of the central configuration")
version_argument = click.argument("version", type=click.IntRange(min=1), required=False)


@click.group(cls=CommandGroup)
def config() -> None:
    """Checks configurations, and stores them centrally."""


@config.command()
@queue_flags
@worked_flags
@from_flag
@no_jobs_flag
@configured
def check(app: App) -> None:
    """Checks the configuration and the modules that it names. Does not connect. Exit code 1 when registered jobs name a
    queue that no process with this configuration fetches from."""
    plans = app.runner.checked_plans()
    _check_central(app)
    for plan in plans:
        of = f"partition {plan.config.partition}, " if plan.config.partition else ""
        for pool in plan.pools:
            title = str(pool) if len(pool.queues) > 1 else f"queue {pool.queues[0]}"
            click.echo(f"{of}{title}: {pool.concurrency} threads")
    names = app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    for feature in BY_NAME:
        for line in feature.summary(plans):
            click.echo(line)
    for warning in Aggregates(app.registry).lacking():
        click.echo(f"warning: {warning}")
    for plan in plans:
        _refuse_unworked(app, plan)
    click.echo("the configuration is fine")


def _check_central(app: App) -> None:
    if app.central is not None:
        if app.central.fault:
            raise ConfigError(app.central.fault)
        if app.central.ignored:
            click.echo(f"warning: {app.central.ignored}")


def _refuse_unworked(app: App, plan: Plan) -> None:
    if unworked := app.runner.unworked(plan):
        queues = ", ".join(f"{queue} ({', '.join(classes)})" for queue, classes in unworked.items())
        partition = plan.config.partition
        advice = f"name them in [partition:{partition}] queues" if partition else "add [queue:NAME] or -q"
        fail(f"jobs are registered for queues that are not configured: {queues}; {advice}", FAILED)


# --- central configurations


@config.command()
@click.argument("file", type=click.Path())
@named
@dry_run
@connected
def push(app: App, file: str, name: str, dry_run: bool) -> None:
    """Checks FILE and stores it as the newest version. Running processes take it. It may hold queues, threads, weights,
    limits, `log_level` and `poll_interval`; other options belong in a local file."""
    stored, text = app.inspector.configurations, text_of(Path(file))
    if dry_run:
        check_text(name, text, file)
        before = next((config for config in stored.newest() if config.name == name), None)
        _print_diff(before.text if before else "", text, str(before or "nothing"), file)
        return
    known = [config.version for config in stored.newest() if config.name == name]
    with noted(app.inspector, f"configuration {name}") as change:
        now = stored.push(name, text, file)
        change.count, change.what = int(now.version not in known), f"configuration {now}"
    click.echo(f"{now} is stored" if change.count else f"{now} has this text already")


@config.command()
@version_argument
@named
@connected
def rollback(app: App, name: str, version: int | None) -> None:
    """Goes back to VERSION: stores its text again, as the newest one. Without VERSION it goes back by one."""
    with noted(app.inspector, f"configuration {name}") as change:
        now = app.inspector.configurations.rollback(name, version)
        change.count, change.what = 1, f"configuration {now}, with the text of version {now.of}"
    click.echo(f"{now} is stored, with the text of version {now.of}")


@config.command("list")
@click.option("--name", default="", metavar="NAME", help="all versions of this one")
@as_json
@connected
def list_(app: App, name: str, as_json: bool) -> None:
    """Lists central configurations, or all versions of one. The oldest version is the first."""
    stored = app.inspector.configurations
    found = stored.versions(name) if name else stored.newest()
    if as_json:
        for config in found:
            click.echo(one_json_line(simplejson.dumps(config.as_dict(), ensure_ascii=False)))
        return
    TextTable("name", "version>", "since", "stored by", "text of").add([_row(config) for config in found])
    if not found:
        report_none("central configurations are stored")


def _row(config: StoredConfig) -> list[str]:
    return [
        config.name,
        str(config.version),
        clock_time(config.at),
        config.by,
        f"version {config.of}" if config.of else "",
    ]


@config.command()
@version_argument
@named
@as_json
@connected
def show(app: App, name: str, version: int | None, as_json: bool) -> None:
    """Prints the text of VERSION, or of the newest version."""
    found = app.inspector.configurations.version(name, version)
    if as_json:
        click.echo(one_json_line(simplejson.dumps(found.as_dict(), ensure_ascii=False)))
    else:
        click.echo(found.text, nl=not found.text.endswith("\n"))


@config.command()
@click.argument("old", type=click.IntRange(min=1), required=False)
@click.argument("new", type=click.IntRange(min=1), required=False)
@named
@connected
def diff(app: App, name: str, old: int | None, new: int | None) -> None:
    """Shows what differs between two versions. Without OLD and NEW these are the version before and the newest."""
    stored = app.inspector.configurations
    first = stored.version(name, old) if old else stored.before_newest(name)
    second = stored.version(name, new)
    _print_diff(first.text, second.text, str(first), str(second))


def _print_diff(old: str, new: str, of_old: str, of_new: str) -> None:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), of_old, of_new, lineterm="")
    click.echo("\n".join(lines) or "no difference")


@config.command()
@named
@yes
@connected
def delete(app: App, name: str, yes: bool) -> None:
    """Deletes all versions. Processes that run go on as they are."""
    stored = app.inspector.configurations
    found = stored.versions(name)
    confirm(f"delete {name} with its {counted(len(found), 'version', 'versions')}", yes)
    with noted(app.inspector, f"configuration {name}") as change:
        change.count = stored.delete(name)
    click.echo(f"{name} is deleted")
