"""Starts the demo: `make run`, or `python -m examples.demo` where goworkers-py is installed with its extra `web`."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shlex
import socket
import sys
from contextlib import closing, suppress
from pathlib import Path

import click

import goworkers_py as workers
from goworkers_py.cli.base import configured, source_flags
from goworkers_py.config.options import Config
from goworkers_py.features.configuration.start import CentralSource

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "conf/demo.ini"
CENTRAL = "shop"  # the central configuration

OPENED = """
  The demo shop is open, and its jobs keep coming.

    Pages    {address}
             Open this address: its token is your login.{elsewhere}
    Server   a Redis of its own, which keeps its data in {data}
    Log      {log}

  Look at Overview first, then at Failures, Limits, Batches and Chains. Click a job: its page tells what became of it.
  The code of the jobs is in examples/demo/jobs.py. To see them in another terminal:
    {python} -m goworkers_py.cli top -c {config}

  Ctrl-C ends the demo. The data stays, and the next start goes on with it. `make clean` deletes it.
"""
STOPPING = """
  Stopping: running jobs get {timeout:g} seconds. Unfinished jobs run at the next start. Ctrl-C again does not wait."""
STOPPED = """  Stopped. The data is in {data}: `make run` goes on with it, `make clean` deletes it.
"""


def main() -> int:
    os.chdir(ROOT)
    ignore_environment()
    home = workers.App()  # while it uses the embedded server, that server runs
    home.configure(CONFIG)
    data = ROOT / home.config.data_dir
    data.mkdir(mode=0o700, exist_ok=True)
    try:
        store_configuration(home.inspector)
        code: int = run.main(["-c", CONFIG, "--config-from", CENTRAL], standalone_mode=False)
    finally:
        home.use(home.config)  # closes its connections
    say(STOPPED.format(data=data))
    return code


def store_configuration(inspector: workers.Inspector) -> None:
    """Two versions, as `pyworkers config push` stores them. On the page of the configuration, a click goes back to the
    first one."""
    if not inspector.configurations.newest():
        for threads in (2, 3):
            inspector.configurations.push(CENTRAL, f"[queue:orders]\nconcurrency = {threads}\n")
        inspector.note_action("the demo", "config push", f"configuration {CENTRAL}", 2)


@click.command()
@source_flags
@configured
def run(app: workers.App) -> int:
    """Runs the jobs as `pyworkers run -c conf/demo.ini --config-from shop` does, and says where the pages are."""
    config = app.config
    source = config.origin
    assert isinstance(source, CentralSource)
    token = os.environ["PYWORKERS_WEB_TOKEN"] = secrets.token_urlsafe()
    wanted, port = config.web.port, free_port(config.web.port)

    def at_port(read: Config) -> Config:
        return dataclasses.replace(read, web=dataclasses.replace(read.web, port=port))

    here = dataclasses.replace(source, read=lambda over: at_port(source.read(over)))
    app.use(dataclasses.replace(at_port(config), origin=here), by_command=True)
    opened = OPENED.format(
        address=f"http://127.0.0.1:{port}/?token={token}",
        elsewhere="" if port == wanted else f"\n             Port {wanted} is in use, so this is another one.",
        data=ROOT / config.data_dir,
        log=ROOT / config.logfile,
        python=shlex.quote(os.path.relpath(sys.executable)),
        config=CONFIG,
    )
    workers.during_drain(lambda: say(STOPPING.format(timeout=config.timeout)))
    try:
        return app.run(ready=lambda: say(opened))
    except workers.ConfigError as error:
        if "cannot listen" not in str(error):
            raise
        # Another program took the port in the meantime, such as a demo that was started at the same moment.
        os.execv(sys.executable, [sys.executable, "-m", "examples.demo"])


def ignore_environment() -> None:
    """The demo pushes thousands of jobs. If PYWORKERS_BROKER names a server, it is somebody's own."""
    for name in [name for name in os.environ if name.startswith("PYWORKERS_")]:
        del os.environ[name]


def free_port(wanted: int) -> int:
    """`wanted`, or any other one if a program listens there."""
    for port in (wanted, 0):
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port is free on 127.0.0.1")


def say(text: str) -> None:
    with suppress(OSError):  # the terminal was closed
        print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (workers.WorkersError, OSError) as error:
        sys.exit(f"demo: {error}")
