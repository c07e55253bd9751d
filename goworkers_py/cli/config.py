"""`config`: checks a configuration. Features have more commands of this group."""

from __future__ import annotations

import os

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import (
    FAILED,
    CommandGroup,
    configured_daemon,
    fail,
)
from goworkers_py.config.loader import flag, variable
from goworkers_py.config.options import Config, names_of, options_of
from goworkers_py.config.parsers import without_password
from goworkers_py.config.partitions import has_own_broker, partition_variable
from goworkers_py.features import BY_NAME
from goworkers_py.runtime.plan import Plan


@click.group(cls=CommandGroup)
def config() -> None:
    """Checks configurations, and stores them centrally."""


@config.command()
@configured_daemon
def check(app: App) -> None:
    """Checks the configuration and the modules that it names. Does not connect. Exit code 1 when registered jobs name a
    queue that no process with this configuration fetches from."""
    plans = app.runner.checked_plans()
    summary = [line for feature in BY_NAME for line in feature.summary(plans)]
    for plan in plans:
        of = f"partition {plan.config.partition}, " if plan.config.partition else ""
        click.echo(f"{of}broker: {without_password(plan.config.broker)} ({_origin(plan.config)})")
        for pool in plan.pools:
            title = str(pool) if len(pool.queues) > 1 else f"queue {pool.queues[0]}"
            click.echo(f"{of}{title}: {pool.concurrency} threads")
    names = app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    for line in summary:
        click.echo(line)
    for feature in BY_NAME:
        for warning in feature.warnings(app.registry):
            click.echo(f"warning: {warning}")
    for plan in plans:
        _refuse_unworked(app, plan)
    click.echo("the configuration is fine")


def _origin(config: Config) -> str:
    """Names the source of `broker`, because an exported variable silently overrides the file."""
    of_partition = partition_variable(config.partition) if has_own_broker(config) else ""
    given, names = click.get_current_context().params, names_of(options_of(Config)["broker"])
    flags = [] if of_partition else [flag(name) for name in names if given.get(name)]
    variables = [name for name in (variable(f"{of_partition}{name}") for name in names) if name in os.environ]
    if found := [*flags, *variables]:
        return f"from {found[0]}"
    if of_partition or "broker" in config.spelled:
        return f"from {given['config_file']}"
    return "the default"


def _refuse_unworked(app: App, plan: Plan) -> None:
    if unworked := app.runner.unworked(plan):
        queues = ", ".join(f"{queue} ({', '.join(classes)})" for queue, classes in unworked.items())
        partition = plan.config.partition
        advice = f"name them in [partition:{partition}] queues" if partition else "add [queue:NAME] or -q"
        fail(f"jobs are registered for queues that are not configured: {queues}; {advice}", FAILED)
