"""`doctor`."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator

import click

import goworkers_py
from goworkers_py.admin.doctor import PROBLEM, Doctor, Finding, OurWork
from goworkers_py.brokers.redis import access
from goworkers_py.cli.base import FAILED, with_jobs
from goworkers_py.cli.selection import as_json
from goworkers_py.cli.tables import printable
from goworkers_py.config.options import Config
from goworkers_py.config.user_code import import_from_here, import_module
from goworkers_py.core.errors import ConfigError, UnknownJob
from goworkers_py.wire.message import Message


@click.command()
@click.option("--skip", multiple=True, metavar="CHECK", help="passes over findings of this check; may be repeated")
@click.option("--acl", is_flag=True, help="prints the access rules that running and pushing need; asks no server")
@as_json
@with_jobs
def doctor(config: Config, skip: tuple[str, ...], acl: bool, as_json: bool) -> None:
    """Looks for what should be mended: a finding a line, with what to do. Exit code 1 when one is a problem."""
    if acl:
        click.echo("\n".join(access.lines(config)))
        return
    findings = [one for one in _findings(config) if one.check not in skip]
    for one in findings:
        if as_json:
            click.echo(json.dumps(dataclasses.asdict(one)))
        else:
            kind = "problem" if one.problem else "note"
            click.echo(printable(f"{kind} ({one.check}): {one.what}; {one.todo}"))
    if not (findings or as_json):
        click.echo("nothing to mend")
    sys.exit(FAILED if any(one.problem for one in findings) else 0)


def _findings(config: Config) -> Iterator[Finding]:
    broken = list(_broken_modules(config))
    work = None
    if not broken:
        try:
            work = _our_work()
        except ConfigError as error:
            broken = [_cannot_start(error)]
    yield from broken
    yield from Doctor(*goworkers_py.app.place, work).findings()


def _broken_modules(config: Config) -> Iterator[Finding]:
    """Each by itself, so that one does not hide the others."""
    import_from_here()
    for module in config.require:
        try:
            import_module(module, "require")
        except ConfigError as error:
            yield _cannot_start(error)


def _our_work() -> OurWork:
    launcher, registry = goworkers_py.app.launcher(), goworkers_py.app.registry

    def knows(message: Message) -> bool:
        try:
            registry.find(message)
        except UnknownJob:
            return False
        return True

    return OurWork({manager.queue for manager in launcher.managers}, knows)


def _cannot_start(error: ConfigError) -> Finding:
    return Finding("modules", PROBLEM, str(error).splitlines()[0], "until then no process of this configuration starts")
