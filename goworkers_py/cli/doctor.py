"""`doctor`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

import click
import simplejson

from goworkers_py.admin.doctor import PROBLEM, Doctor, Finding
from goworkers_py.api.app import App
from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.cli.base import FAILED, with_jobs
from goworkers_py.cli.selection import as_json
from goworkers_py.cli.tables import printable
from goworkers_py.config.options import Config
from goworkers_py.config.user_code import import_from_here, import_module
from goworkers_py.core.errors import ConfigError


@click.command()
@click.option("--skip", multiple=True, metavar="CHECK", help="leave out the findings of this check; may be repeated")
@click.option("--acl", is_flag=True, help="print the access rules that running and pushing need, without connecting")
@click.option("--producer", is_flag=True, help="with --acl: the rules of a program that pushes jobs and runs none")
@as_json
@with_jobs
def doctor(app: App, skip: tuple[str, ...], acl: bool, producer: bool, as_json: bool) -> None:
    """Looks for problems: one finding a line, with what to do. Exit code 1 when a finding is a problem, not a note."""
    if producer and not acl:
        raise click.UsageError("--producer needs --acl")
    if acl:
        click.echo("\n".join(kind_of_broker(app.config).access_rules(app.config, producer)))
        return
    findings = [finding for finding in _findings(app) if finding.check not in skip]
    for finding in findings:
        if as_json:
            click.echo(simplejson.dumps(dataclasses.asdict(finding)))
        else:
            kind = "problem" if finding.problem else "note"
            click.echo(printable(f"{kind} ({finding.check}): {finding.what}; {finding.todo}"))
    if not (findings or as_json):
        click.echo("no findings")
    sys.exit(FAILED if any(finding.problem for finding in findings) else 0)


def _findings(app: App) -> Iterator[Finding]:
    broken = list(_broken_modules(app.config))
    work = None
    if not broken:
        try:
            work = app.our_work()
        except ConfigError as error:
            broken = [_cannot_start(error)]
    yield from broken
    yield from Doctor(app.inspector, work).findings()


def _broken_modules(config: Config) -> Iterator[Finding]:
    """Imports each module by itself, so that one error does not hide the others."""
    import_from_here()
    for module in config.require:
        try:
            import_module(module, "require")
        except ConfigError as error:
            yield _cannot_start(error)


def _cannot_start(error: ConfigError) -> Finding:
    return Finding(
        "modules", PROBLEM, str(error).splitlines()[0], "until this is fixed, no process of this configuration starts"
    )
