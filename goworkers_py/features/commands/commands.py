"""`reports`."""

from __future__ import annotations

import threading

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.cli.base import connected
from goworkers_py.cli.selection import as_json, limit
from goworkers_py.cli.tables import clock_time
from goworkers_py.core.escaping import one_json_line, one_line
from goworkers_py.features.commands.call import Report

LOOK_EVERY_S = 0.5
MOST = 5_000  # the broker keeps about so many


@click.command()
@click.option("--follow", is_flag=True, help="go on with new reports, until Ctrl-C")
@click.option("--name", default="", help="only reports of this name")
@limit
@as_json
@connected
def reports(app: App, follow: bool, name: str, limit: int, as_json: bool) -> None:
    """Shows what programs tell with workers.report(), newest last."""
    page = app.inspector.reports(limit=MOST)
    shown = [report for report in page if name in ("", report.name)]
    for report in shown[-limit:] if limit else shown:
        _print(report, as_json)
    pause = threading.Event()  # never set: Ctrl-C ends the command
    position = page[-1].position if page else ""
    while follow:
        pause.wait(LOOK_EVERY_S)
        for report in app.inspector.reports(after=position, limit=MOST):
            position = report.position
            if name in ("", report.name):
                _print(report, as_json)


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        click.echo(one_json_line(simplejson.dumps(report.as_dict(), ensure_ascii=False)))
    else:
        body = simplejson.dumps(report.body, ensure_ascii=False)
        click.echo(one_line(f"{clock_time(report.at)}  {report.identity}  {report.name}  {body}"))
