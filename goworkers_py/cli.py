"""The command `pyworkers`."""

from __future__ import annotations

import click

import goworkers_py
from goworkers_py.commands import (
    daemon,
    doctor,
    enqueue,
    health,
    mark,
    processes,
    queues,
    recover,
    sets,
    stats,
    top,
    work,
)
from goworkers_py.commands.base import Group


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(goworkers_py.__version__, prog_name="pyworkers")
def main() -> None:
    """Runs the jobs that Rails, Go and Python put into Redis in Sidekiq's format."""


COMMANDS = (
    work.run, daemon.start, daemon.stop, daemon.restart, daemon.status, daemon.reload,
    enqueue.enqueue, stats.stats, queues.queues, queues.queue, queues.jobs, *sets.GROUPS,
    processes.processes, recover.inprogress, recover.recover, top.top, health.health, doctor.doctor, mark.mark,
    work.version, work.config,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="pyworkers")
