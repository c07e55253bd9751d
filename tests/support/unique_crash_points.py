"""Pushes of unique jobs, or daemons that run one, which kill themselves at the n-th step, see `crash_points`.

    python unique_crash_points.py push|run ADDRESS STRIDE

The job of step n has the argument n, so it has a lock of its own, and is in queue `unique-n`. With `push`, a step is a
line of the push. With `run`, it is a line of the run and its end: the job has got its newest arguments from a second
push before. Prints `n killed` for each step, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from functools import partial

from crash_points import Killer, await_settled, live_until_one_survives

from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.config.options import QueueConfig


def unique_job(app: App, step: int) -> Job[[int, str], None]:
    @app.job(
        "Unique",
        queue=f"unique-{step}",
        unique_for=3600,
        unique_by=lambda number, text: number,
        on_conflict="replace",
    )
    def unique(number: int, text: str) -> None:
        app.broker.store  # noqa: B018  # the run itself is traced as well
        app.enqueue(f"ran-{step}", "Ran", [text])

    return unique


def push(address: str, step: int) -> None:
    app = App()
    app.configure(broker=address)
    job, killer = unique_job(app, step), Killer(step)
    killer.begin()
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    job.enqueue(step, "only")


def run(address: str, step: int) -> None:
    app, killer, queue = App(), Killer(step), f"unique-{step}"
    app.configure(broker=address)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(queue, concurrency=1),)))
    job = unique_job(app, step)
    job.enqueue(step, "old")
    job.enqueue(step, "newest")
    killer.begin()
    threading.settrace(killer)
    app.start()
    await_settled(address, queue)


def main(what: str, address: str, stride: str) -> None:
    live_until_one_survives(partial({"push": push, "run": run}[what], address), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
