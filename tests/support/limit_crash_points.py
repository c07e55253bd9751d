"""Pushes of strictly limited jobs, or daemons that run two jobs under one limit, which kill themselves at the n-th
step, see `crash_points`.

    python limit_crash_points.py push|run ADDRESS STRIDE

Step n has a limit `limit-n` and a queue `limited-n` of its own. With `push`, a step is a line of a push whose job has
to wait, because another one was pushed before. With `run`, it is a line of a worker or of the settler: the first of two
jobs of another program takes the place and waits until the second one is in the line; its end lets the second one go.
Prints `n killed` for each step, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from functools import partial

import redis
from crash_points import Killer, await_settled, live_until_one_survives

from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.config.options import QueueConfig


def limited_job(app: App, step: int, address: str) -> Job[[str], None]:
    limit = app.limit(f"limit-{step}", concurrent=1)

    @app.job("Limited", queue=f"limited-{step}", limits=[limit])
    def limited(text: str) -> None:
        with redis.Redis.from_url(address) as client:
            client.rpush(f"ran-{step}", text)
            began = client.llen(f"ran-{step}") == 1
            while began and not client.llen(f"pyworkers:line:limit:limit-{step}"):
                time.sleep(0.002)

    return limited


def push(address: str, step: int) -> None:
    app = App()
    app.configure(broker=address)
    job, killer = limited_job(app, step, address), Killer(step)
    job.enqueue("first")
    killer.begin()
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    job.enqueue("second")


def run(address: str, step: int) -> None:
    app, killer, queue = App(), Killer(step), f"limited-{step}"
    app.configure(broker=address)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(queue, concurrency=2),)))
    limited_job(app, step, address)
    app.enqueue(queue, "Limited", ["first"])
    app.enqueue(queue, "Limited", ["second"])
    killer.begin()
    threading.settrace(killer)
    app.start()
    with redis.Redis.from_url(address) as client:  # the second job waits in a line first, which is no queue
        await_settled(address, queue, has_run=lambda: client.llen(f"ran-{step}") >= 2)


def main(what: str, address: str, stride: str) -> None:
    live_until_one_survives(partial({"push": push, "run": run}[what], address), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
