"""`enqueue`."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource

from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.cli.base import FAILED, fail, json_of, with_jobs
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.job_options import NOTHING_SAID
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import BrokerError, ConfigError
from goworkers_py.core.levels import Priority, level_of
from goworkers_py.features import BY_NAME, FEATURES
from goworkers_py.policy.registry import JobSpec
from goworkers_py.wire.process_record import OURS


@click.command()
@click.option("-q", "--queue", help="the queue; without it the one in the job's code (see -r), else default")
@click.option("--in", "delay", type=float, metavar="SECONDS", help="run after so many seconds")
@click.option("--at", type=float, metavar="EPOCH", help="run at this time, in epoch seconds")
@click.option("--retry", metavar="N", help="number of retries, or true or false; for go-workers2 see --retry-max")
@click.option(
    "--retry-max", type=click.IntRange(0), metavar="N", help="number of retries for go-workers2, beside --retry true"
)
@click.option("--kwargs", "named", metavar="JSON-OBJECT", default="{}", help="the keyword arguments")
@click.option(
    "--priority",
    type=click.Choice(["high", "normal", "low"]),
    help="before the other jobs of the queue, or after them; without it as in the job's code (see -r)",
)
@click.argument("job_class", metavar="CLASS")
@click.argument("arguments", metavar="[JSON-ARRAY]", default="[]")
@with_jobs
def enqueue(
    app: App,
    queue: str | None,
    delay: float | None,
    at: float | None,
    retry: str | None,
    retry_max: int | None,
    named: str,
    priority: Priority | None,
    job_class: str,
    arguments: str,
    **of_features: Any,
) -> None:
    """Pushes a job and prints its jid."""
    if delay is not None and at is not None:
        raise click.UsageError("use either --in or --at, not both")
    if queue == "":
        raise click.UsageError("--queue is empty")
    due = time.time() + delay if delay is not None else at
    args = json_of(arguments, list, "the arguments must be a JSON array, such as '[1, \"a\"]'")
    kwargs = json_of(named, dict, "--kwargs must be a JSON object, such as '{\"pdf\": true}'")
    app.import_jobs()
    spec = app.registry.job(job_class)
    if spec is None and not _handled(app, queue or "default"):
        hint = did_you_mean(job_class, app.registry.names())
        if _is_on_command_line("require"):
            raise click.UsageError(f"the modules of -r register no job {job_class!r}{hint}")
        if hint:  # the class may be one of Ruby's or Go's, so it is pushed
            click.echo(f"pyworkers: no job {job_class!r} is registered here{hint} It is pushed all the same", err=True)
    retries = _retry(retry)
    options = EnqueueOptions(at=due, retry=retries, retry_max=retry_max, priority=priority, **of_features)
    inspector = app.inspector
    if spec is None:
        jid = app.enqueue_with_options(queue or "default", job_class, args, options, kwargs)
    else:
        # --partition goes before the job's code.
        partition = "" if app.config.partition else (spec.options.get("partition") or "")
        inspector = app.partition(partition).inspector
        jid = Job(app.clients, spec, options, queue or "", partition).enqueue(*args, **kwargs)
    if jid is None:
        fail(f"not pushed: {_why_not_pushed(spec)}", FAILED)
    click.echo(jid)
    pushed_to = queue or (spec.queue if spec else "default")
    # The job is pushed: an error in the look at the workers must not look like a failed push.
    with suppress(BrokerError, ConfigError):
        said = options.over(spec.options if spec else NOTHING_SAID).said
        _warn_of_workers(inspector, level_of(pushed_to, said.get("priority")), said.get("retry"))


_first_argument = next(at for at, parameter in enumerate(enqueue.params) if isinstance(parameter, click.Argument))
enqueue.params[_first_argument:_first_argument] = [
    flag for feature in BY_NAME for flag in feature.command_line().flags_of_push
]


def _why_not_pushed(spec: JobSpec | None) -> str:
    asked = [feature.pushes().why_not_pushed(spec.name, spec.options) for feature in FEATURES] if spec else []
    of_features = [found for found in asked if found is not None]
    reasons = [*(reason for reason, _ in of_features), "a client link stopped the push"]
    return "; ".join([", or ".join(reasons), *(hint for _, hint in of_features)])


def _is_on_command_line(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _handled(app: App, queue: str) -> bool:
    """Whether the queue has a handler: one function that runs every job, whatever its class."""
    of_config = {queue_config.name for queue_config in app.config.queues if queue_config.handler}
    return queue in of_config or app.registry.handled(queue)


def _warn_of_workers(inspector: Inspector, queue: str, retry: object) -> None:
    """Warns if no live process fetches from the queue, or if go-workers2 would misread `retry`. Reads the whole fleet,
    which may be large, only if no pyworkers process fetches from the queue or `retry` is a number."""
    ours_fetch = any(owner.alive and queue in owner.queues for owner in inspector.owners())
    is_number = retry is not None and not isinstance(retry, bool)
    if ours_fetch and not is_number:
        return
    # pyworkers processes are left out here: `owners` knows at once when one of them has died, this list does not.
    others = [
        process for process in inspector.processes() if not process.version.startswith(OURS) and queue in process.queues
    ]
    if not ours_fetch and not others:
        click.echo(
            f"pyworkers: no live process is known to fetch from queue {queue}, so the job waits there (go-workers does "
            f"not say from which queues it fetches); to run it: pyworkers run -q {queue} -r MODULE",
            err=True,
        )
    if is_number and (processes := [process.identity for process in others if process.language == "Go"]):
        click.echo(
            f"pyworkers: go-workers2 ({processes[0]}) fetches from queue {queue} and does not retry a job whose "
            f"`retry` is a number; use --retry true --retry-max {retry}",
            err=True,
        )


def _retry(text: str | None) -> bool | int | None:
    if text is None:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.isdecimal():
        return int(text)
    raise click.UsageError(f"--retry must be a number, true or false, is {text!r}")
