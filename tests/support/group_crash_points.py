"""Daemons that flush and aggregate one group each, and kill themselves at the n-th step, see `crash_points`.

    python group_crash_points.py flush|join|aggregate|finish ADDRESS STRIDE [LAST]

The daemon of step n has a group of MEMBERS members, the numbers n.0, n.1, ..., and works on queue `grouped-n`. With
`flush`, a step is a line of the thread that flushes groups. With `aggregate`, it is a line of the worker or of the
settler. `join` is the same, and the members are pushed into the queue, as a program in another language does it. The
job that runs instead of the members writes its jid and its arguments into queue `ran`. Prints `n killed` for each step,
until one survives, which prints `n survived`. `finish` is a daemon that is not killed and ends what the others have
left: STRIDE is then that of the steps, and LAST the last one.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from types import FrameType
from typing import Any

from crash_points import Killer, await_settled, live_until_one_survives

from goworkers_py.admin.places import waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.wire import payload
from goworkers_py.wire.message import current_message

MEMBERS = 3
LONGEST_LIFE_S = 60.0


class FlushKiller(Killer):
    """Counts the lines of the thread that flushes groups."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.of_main(frame) if threading.current_thread().name == "group flusher" else None


def grouped(app: App, queues: list[str]) -> Any:
    settings = [QueueConfig(queue, concurrency=1) for queue in queues]
    pool = PoolConfig("all", tuple(queues), order="strict", concurrency=2)
    app.use(dataclasses.replace(app.config, queues=settings, pools=(pool,)))

    @app.job("Grouped", queue=queues[0], group_grace=0.001)
    def run(*numbers: str) -> None:
        message = current_message()
        assert message is not None
        app.enqueue("ran", "Ran", [message.jid, list(numbers)])

    @run.aggregate
    def one(members: list[list[Any]]) -> list[Any]:
        return [number for [number] in members]

    return run


def live(address: str, step: int, killer: Killer, plainly: bool) -> None:
    app, queue = App(), f"grouped-{step}"
    app.configure(broker=address)
    job = grouped(app, [queue])
    if plainly:
        app.broker.transport.publish([Push(queue, foreign(queue, step, number)) for number in range(MEMBERS)])
    else:
        job.set(group=f"group-{step}").enqueue_bulk([[f"{step}.{number}"] for number in range(MEMBERS)])
    killer.begin()
    threading.settrace(killer)
    await_end(app, address, [queue])


def foreign(queue: str, step: int, number: int) -> bytes:
    field = {"v": 1, "needs": ["group"], "group": {"name": f"group-{step}"}}
    args, jid = [f"{step}.{number}"], f"member-{step}-{number}"
    return payload.write({"class": "Grouped", "args": args, "jid": jid, "queue": queue, "pyworkers": field})


def await_end(app: App, address: str, queues: list[str]) -> None:
    """Until all members of the steps of these queues have run, and nothing is left: a job that had run when its process
    was killed runs again."""
    app.start()
    wanted = {f"{queue.partition('-')[2]}.{number}" for queue in queues for number in range(MEMBERS)}
    await_settled(address, *queues, has_run=lambda: wanted <= ran(app), within_s=LONGEST_LIFE_S)


def ran(app: App) -> set[str]:
    messages = [job.message for job in app.broker.admin.jobs_in(waiting_in("ran")).first(100_000)]
    return {number for message in messages if message is not None for number in message.args[1]}


def finish(address: str, stride: int, last: int) -> None:
    app, queues = App(), [f"grouped-{step}" for step in range(1, last + 1, stride)]
    app.configure(broker=address)
    grouped(app, queues)
    await_end(app, address, queues)
    app.quit()


def main(what: str, address: str, stride: str, last: str = "") -> None:
    if what == "finish":
        finish(address, int(stride), int(last))
        return
    killer = FlushKiller if what == "flush" else Killer
    live_until_one_survives(lambda step: live(address, step, killer(step), what == "join"), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
