"""Programs that open a batch, and daemons that end one or run a chain, which kill themselves at the n-th step, see
`crash_points`.

    python batch_crash_points.py open|end|chain ADDRESS STRIDE

The batch of step n is named `batch-n` and its jobs are in queue `batch-n`; its callback goes to queue `ended-n`. With
`open`, a step is a line of the program from the opening to the end of the block. With `end`, it is a line of the runs
of its three jobs, of which one dies, and of their settlement. With `chain`, it is a line of the runs of the links of a
chain in queue `batch-n`, of which the last one pushes a job into queue `ended-n`. Prints `n killed` for each step,
until one survives, which prints `n survived`.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from functools import partial

from crash_points import LONGEST_LIFE_S, Killer, await_settled, live_until_one_survives

from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import KillJob
from goworkers_py.features.chains.chain import PREVIOUS
from goworkers_py.wire.message import current_message


def jobs_of(app: App, step: int) -> tuple[Job[[int], None], Job[[str], None]]:
    @app.job("Member", queue=f"batch-{step}")
    def member(number: int) -> None:
        if number == 1:
            raise KillJob("the second one dies")

    @app.job("Ended", queue=f"ended-{step}")
    def ended(bid: str) -> None: ...

    return member, ended


def fill(app: App, step: int) -> None:
    member, ended = jobs_of(app, step)
    with app.batch(f"batch-{step}", on_complete=ended, on_death=ended):
        for number in range(3):
            member.enqueue(number)


def open_one(address: str, step: int) -> None:
    app, killer = App(), Killer(step)
    app.configure(broker=address)
    killer.begin()
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    fill(app, step)


def end(address: str, step: int) -> None:
    app, killer, queue = App(), Killer(step), f"batch-{step}"
    app.configure(broker=address)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(queue, concurrency=1),)))
    fill(app, step)
    killer.begin()
    threading.settrace(killer)
    app.start()
    await_settled(address, queue)


def link_jobs(app: App, step: int) -> tuple[Job[[int], int], Job[[list[int]], None]]:
    @app.job("Link", queue=f"batch-{step}")
    def link(number: int) -> int:
        return number + 1

    @app.job("Last", queue=f"batch-{step}", atomic=True)
    def last(numbers: list[int]) -> None:
        message = current_message()  # one App may have these jobs of several steps
        assert message is not None
        app.enqueue(message.queue.replace("batch", "ended"), "Ended", [numbers])

    return link, last


def chain(address: str, step: int) -> None:
    app, killer, queue = App(), Killer(step), f"batch-{step}"
    app.configure(broker=address)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(queue, concurrency=1),)))
    link, last = link_jobs(app, step)
    parts = app.parallel(link.s(PREVIOUS), link.s(10))
    cid = app.chain(link.s(0), parts, last.s(PREVIOUS)).enqueue()
    killer.begin()
    threading.settrace(killer)
    app.start()
    deadline = time.monotonic() + LONGEST_LIFE_S
    while (status := app.chains.status(cid)) is None or status.state != "ended":
        if time.monotonic() > deadline:
            raise TimeoutError(f"step {step}: the chain has not ended")
        time.sleep(0.005)


def main(what: str, address: str, stride: str) -> None:
    live_until_one_survives(partial({"open": open_one, "end": end, "chain": chain}[what], address), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
