"""`replay`."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, fail, with_jobs
from goworkers_py.cli.selection import confirm, yes
from goworkers_py.cli.tables import printable
from goworkers_py.core.errors import JobControl, UnreadablePayload
from goworkers_py.features import FEATURES
from goworkers_py.policy.poison import FIELD
from goworkers_py.testing.enqueued_job import JobRun, call_text
from goworkers_py.testing.replay import as_test
from goworkers_py.testing.sandbox import Sandbox, must_raise
from goworkers_py.wire import payload
from goworkers_py.wire.failure import error_class, error_text, own_traceback
from goworkers_py.wire.stored_job import StoredJob

# Fields that would keep the job from running here: its time has passed, or it is suspected of having killed processes.
_OF_ITS_TIME = ("at", "deadline", FIELD, *(field for feature in FEATURES for field in feature.fields_until_begun))


@click.command()
@click.argument("jid")
@click.option("--pytest", "writes", is_flag=True, help="print the job as a test, with its arguments and its error")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="write the test to a file"
)
@click.option("--force", is_flag=True, help="with -o: overwrite the file")
@yes
@with_jobs
def replay(app: App, jid: str, writes: bool, output: Path | None, force: bool, yes: bool) -> None:
    """Runs a job here and now, and changes nothing in the broker. Or writes it as a test, with --pytest.

    The job stays where it is. Its code runs as in a worker, and does all that it does. Jobs that it pushes are listed
    instead. Exit code 1 unless it ends well.
    """
    if not writes and (output is not None or force):
        raise click.UsageError("-o and --force are for --pytest")
    if force and output is None:
        raise click.UsageError("--force is for -o")
    job = _found(app, jid)
    app.import_jobs()
    if not writes:
        _run(app, job, yes)
        return
    text = as_test(job, app.registry, app.config.require)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        fail(f"{output} is there already; --force overwrites it", FAILED)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}", FAILED)
    click.echo(f"wrote {output}; run it with: python -m pytest {output}")


def _found(app: App, jid: str) -> StoredJob:
    """One that has failed, where there are copies."""
    found = [job for _, job in app.inspector.find(jid)]
    failed = [job for job in found if job.message is not None and job.message.get("error_class")]
    if not found:
        fail(_why_not_found(app, jid), FAILED)
    return (failed or found)[0]


def _why_not_found(app: App, jid: str) -> str:
    state = app.inspector.status(jid).state
    if state == "unknown":
        return f"no job with jid {jid} is kept anywhere"
    kept = "its group holds it, and it has not run yet" if state == "grouped" else "its arguments are not kept any more"
    return f"job {jid} is {state}: {kept}"


def _run(app: App, job: StoredJob, yes: bool) -> None:
    message = job.message
    if message is None or job.original is not None:
        raise UnreadablePayload(f"job {job.jid} cannot be read as a job, so no code runs it")
    app.registry.find(message)
    call = call_text(message.job_class, message.args, message.kwargs)
    confirm(f"run the code of job {printable(job.jid)} here", yes)
    raw = payload.splice(message.raw, {}, drop=_OF_ITS_TIME)
    logging.getLogger("goworkers_py").addHandler(logging.NullHandler())  # its lines speak of a retry
    with Sandbox(app).open() as sandbox:
        run = sandbox.run_payload(raw, job.queue or str(message.get("queue") or "default"))
        pushed = [str(new_job) for new_job in sandbox.jobs() if new_job.jid != message.jid]
    _tell(call, run, pushed)


def _tell(call: str, run: JobRun, pushed: list[str]) -> None:
    error = run.error
    if error is not None and must_raise(error, raise_errors=False):
        raise error
    if error is None:
        click.echo(printable(f"{run.outcome}: {call}"))
    else:
        has_failed = not isinstance(error, JobControl)
        lines = traceback.format_exception(type(error), error, own_traceback(error)) if has_failed else []
        click.echo("".join(lines), nl=False, err=True)
        click.echo(printable(f"{'failed' if has_failed else run.outcome}: {error_class(error)}: {error_text(error)}"))
    for new_job in pushed:
        click.echo(printable(f"would have pushed: {new_job}"))
    sys.exit(0 if run.outcome == "done" else FAILED)
