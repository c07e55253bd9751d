"""`config push|rollback|list|show|diff|delete`: central configurations."""

from __future__ import annotations

import difflib
from pathlib import Path

import click
import simplejson

from goworkers_py.admin.filter import counted
from goworkers_py.api.app import App
from goworkers_py.cli.base import connected
from goworkers_py.cli.listing import report_none
from goworkers_py.cli.noting import noted
from goworkers_py.cli.selection import as_json, confirm, dry_run, yes
from goworkers_py.cli.tables import TextTable, clock_time
from goworkers_py.config.ini_file import text_of
from goworkers_py.core.escaping import one_json_line
from goworkers_py.features.configuration.admin import check as check_text
from goworkers_py.features.configuration.stored_config import StoredConfig

named = click.option("--name", required=True, metavar="NAME", help="name of the central configuration")
version_argument = click.argument("version", type=click.IntRange(min=1), required=False)


@click.command()
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


@click.command()
@version_argument
@named
@connected
def rollback(app: App, name: str, version: int | None) -> None:
    """Goes back to VERSION: stores its text again, as the newest one. Without VERSION it goes back by one."""
    with noted(app.inspector, f"configuration {name}") as change:
        now = app.inspector.configurations.rollback(name, version)
        change.count, change.what = 1, f"configuration {now}, with the text of version {now.of}"
    click.echo(f"{now} is stored, with the text of version {now.of}")


@click.command("list")
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


@click.command()
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


@click.command()
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


@click.command()
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
