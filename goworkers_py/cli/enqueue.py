"""`enqueue`."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource

import goworkers_py
from goworkers_py.admin.owners import all_owners
from goworkers_py.admin.processes import Processes
from goworkers_py.api.job import Job
from goworkers_py.cli.base import FAILED, fail, with_jobs
from goworkers_py.config.job_options import NOTHING_SAID, EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import BrokerError
from goworkers_py.wire.process_record import OURS


@click.command()
@click.option("-q", "--queue", help="default: the queue of the job that -r registers, else default")
@click.option("--in", "delay", type=float, metavar="SECONDS", help="run that much later")
@click.option("--at", type=float, metavar="EPOCH", help="run at that time, in epoch seconds")
@click.option("--retry", metavar="N", help="how many retries, or true or false; for go-workers2 see --retry-max")
@click.option("--retry-max", type=click.IntRange(0), metavar="N", help="how many beside --retry true, for go-workers2")
@click.argument("job_class", metavar="CLASS")
@click.argument("arguments", metavar="[JSON-ARRAY]", default="[]")
@with_jobs
def enqueue(
    config: Config,
    queue: str | None,
    delay: float | None,
    at: float | None,
    retry: str | None,
    retry_max: int | None,
    job_class: str,
    arguments: str,
) -> None:
    """Pushes a job and prints its jid."""
    if delay is not None and at is not None:
        raise click.UsageError("--in and --at exclude each other")
    if queue == "":
        raise click.UsageError("--queue is empty")
    due = time.time() + delay if delay is not None else at
    args = _json_array(arguments)
    app = goworkers_py.app
    app.import_jobs()
    spec = app.registry.job(job_class)
    if spec is None and _named_on_the_command_line("require") and not _handled(config, queue or "default"):
        hint = did_you_mean(job_class, app.registry.names())
        raise click.UsageError(f"no job is registered as {job_class!r} by the modules that -r names{hint}")
    options = EnqueueOptions(at=due, retry=_retry(retry), retry_max=retry_max)
    if spec is None:
        jid = app.enqueue_with_options(queue or "default", job_class, args, options)
    else:
        jid = Job(lambda: app.client, app.clock, spec, options, queue or "").enqueue(*args)
    if jid is None:
        fail("a client link stopped the push", FAILED)
    click.echo(jid)
    pushed_to = queue or (spec.queue if spec else "default")
    # The job has been pushed: nothing that goes wrong from here on is an error.
    with suppress(BrokerError):
        _warn_of_workers(pushed_to, options.over(spec.options if spec else NOTHING_SAID).said.get("retry"))


def _named_on_the_command_line(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _handled(config: Config, queue: str) -> bool:
    """Whether one function runs every job of the queue, whatever its class."""
    of_config = {one.name for one in config.queues if one.handler}
    return queue in of_config or goworkers_py.app.registry.handled(queue)


def _warn_of_workers(queue: str, retry: object) -> None:
    """Reads the whole fleet only where none of our own processes works the queue, or where `retry` is a number."""
    place = goworkers_py.app.place
    ours_work = any(owner.alive and queue in owner.queues for owner in all_owners(*place))
    takes_no_number = retry is not None and not isinstance(retry, bool)
    if ours_work and not takes_no_number:
        return
    fleet = Processes(*place)
    # Of ours the owners tell at once when one has died.
    others = [one for one in fleet.all() if not one.version.startswith(OURS) and queue in one.queues]
    if not ours_work and not others:
        click.echo(
            f"pyworkers: no live process works queue {queue}: the job waits there (processes of go-workers do not "
            f"tell); to work it: pyworkers run -q {queue} -r MODULE",
            err=True,
        )
    if takes_no_number and (processes := fleet.of_go(others)):
        click.echo(
            f"pyworkers: queue {queue} is worked by go-workers2 ({processes[0]}), which takes a number of retries "
            f"for none; for it: --retry true --retry-max {retry}",
            err=True,
        )


def _retry(text: str | None) -> bool | int | None:
    if text is None:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.isdecimal():
        return int(text)
    raise click.UsageError(f"--retry must be a count, true or false, is {text!r}")


def _json_array(text: str) -> list[Any]:
    try:
        args = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"the arguments must be a JSON array, such as '[1, \"a\"]': {error}") from None
    if not isinstance(args, list):
        raise click.UsageError(f"the arguments must be a JSON array, this is {text!r}")
    return args
