"""The command `pyworkers`.

Exit codes: 0 fine, 1 failed, 2 usage or configuration, 75 no server just now (try again).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

import goworkers_py
from goworkers_py.client import EnqueueOptions
from goworkers_py.config import Config, has_password, load, options_of
from goworkers_py.errors import ArgumentError, BrokerUnavailable, ConfigError, WorkersError
from goworkers_py.inspect import Stats

FAILED, USAGE, TEMPORARY = 1, 2, 75

Command = Callable[..., Any]


class _Group(click.Group):
    """Turns what the user can mend into one line and the right exit code."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _one_line_for_usage():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _one_line_for_usage():
                return super().invoke(ctx)
        except BrokerUnavailable as error:
            _fail(f"no server: {error}", TEMPORARY)
        except (ConfigError, ArgumentError) as error:
            _fail(str(error), USAGE)
        except WorkersError as error:
            _fail(str(error), FAILED)


@contextmanager
def _one_line_for_usage() -> Iterator[None]:
    try:
        yield
    except getattr(click.exceptions, "NoArgsIsHelpError", ()):  # since click 8.2: prints the whole help
        raise
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pyworkers"
        _fail(f"{error.format_message().rstrip('.')}; see '{command} --help'", USAGE)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"pyworkers: {message}", err=True)
    sys.exit(code)


def configured(command: Command) -> Command:
    """Adds `-c` and a flag for each row of the option table; the command is given the configured app."""

    def run(config_file: str | None, **arguments: Any) -> Any:
        flags = {name: arguments.pop(name) for name in options_of(Config)}
        queues = arguments.pop("queues", ())
        config = load(
            config_file, flags={name: text for name, text in flags.items() if text is not None}, queues=queues
        )
        if has_password(flags["redis"] or ""):
            click.echo(
                "pyworkers: everybody on this machine can read the password in --redis (ps shows it): "
                "put it into the configuration file or PYWORKERS_REDIS",
                err=True,
            )
        goworkers_py.app.use(config, by_command=True)
        return command(config, **arguments)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for name, row in reversed(options_of(Config).items()):
        names = [f"--{name.replace('_', '-')}", *([row.metadata["flag"]] if row.metadata["flag"] else [])]
        run = click.option(*names, name, metavar="VALUE", help=row.metadata["help"])(run)
    return click.option("-c", "--config", "config_file", envvar="PYWORKERS_CONFIG", help="configuration file")(run)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(goworkers_py.__version__, prog_name="pyworkers")
def main() -> None:
    """Runs the jobs that Rails, Go and Python put into Redis in Sidekiq's format."""


@main.command()
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME[=THREADS]", help="a queue to work; may be repeated"
)
@configured
def run(config: Config) -> None:
    """Works until TERM or Ctrl-C; TSTP quiets, TTIN logs every thread's stack, USR2 replaces all of `processes`."""
    sys.exit(goworkers_py.run())


@main.command()
@click.option("-q", "--queue", help="default: the queue of the job that -r registers, else default")
@click.option("--in", "delay", type=float, metavar="SECONDS", help="run that much later")
@click.option("--at", type=float, metavar="EPOCH", help="run at that time, in epoch seconds")
@click.option("--retry", metavar="N", help="how many retries, or true or false")
@click.argument("job_class", metavar="CLASS")
@click.argument("arguments", metavar="[JSON-ARRAY]", default="[]")
@configured
def enqueue(
    config: Config,
    queue: str | None,
    delay: float | None,
    at: float | None,
    retry: str | None,
    job_class: str,
    arguments: str,
) -> None:
    """Pushes a job and prints its jid."""
    if delay is not None and at is not None:
        raise click.UsageError("--in and --at exclude each other")
    due = time.time() + delay if delay is not None else at
    args = _json_array(arguments)
    app = goworkers_py.app
    app.import_jobs()
    spec = app.registry.job(job_class)
    given = EnqueueOptions(at=due, retry=_retry(retry))
    options = given.with_defaults(spec) if spec else given
    jid = app.enqueue_with_options(queue or (spec.queue if spec else "default"), job_class, args, options)
    if jid is None:
        _fail("a client link stopped the push", FAILED)
    click.echo(jid)


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


@main.command()
@click.option("--json", "as_json", is_flag=True, help="for programs")
@configured
def stats(config: Config, as_json: bool) -> None:
    """What has been done, what waits and where."""
    figures = goworkers_py.app.inspector.stats()
    click.echo(json.dumps(figures.as_dict()) if as_json else _table(figures))


def _table(figures: Stats) -> str:
    rows = [(name, str(value)) for name, value in figures.as_dict().items() if name != "queues"]
    lines = [f"{name.replace('_', ' '):<12} {value:>12}" for name, value in rows]
    lines += ["", f"{'queue':<24} {'size':>10} {'latency':>10}"]
    lines += [f"{queue.name:<24} {queue.size:>10} {queue.latency_s:>8.1f} s" for queue in figures.queues]
    return "\n".join(lines if figures.queues else lines[:-2])


@main.command()
def version() -> None:
    """The versions of pyworkers and Python."""
    click.echo(f"pyworkers {goworkers_py.__version__} (Python {sys.version.split()[0]})")


@main.group()
def config() -> None:
    """The configuration."""


@config.command()
@click.option("-q", "--queue", "queues", multiple=True, metavar="NAME[=THREADS]", help="as for run")
@configured
def check(config: Config) -> None:
    """Reads the configuration and imports what it names, without connecting."""
    launcher = goworkers_py.app.launcher()
    for manager in launcher.managers:
        click.echo(f"queue {manager.queue}: {manager.concurrency} threads")
    names = goworkers_py.app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    click.echo("the configuration is fine")


if __name__ == "__main__":
    main(prog_name="pyworkers")
