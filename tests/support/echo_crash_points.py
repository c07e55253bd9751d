"""Daemons that run one job of a batch of Ruby, and kill themselves at the n-th step of its end, see `crash_points`.

    python echo_crash_points.py ADDRESS STRIDE

The job of step n is in queue `ruby-n`, its echo goes to queue `echoes-n`. Prints `n killed` for each step, until one
survives, which prints `n survived`.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from functools import partial

from crash_points import Killer, await_settled, live_until_one_survives

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.features.for_ruby.options import EchoConfig


def payload_of(step: int) -> bytes:
    return b'{"class":"Ruby","jid":"%d","bid":"b1","args":[],"queue":"ruby-%d","retry":true}' % (step, step)


def live(address: str, step: int) -> None:
    app, killer, queue = App(), Killer(step), f"ruby-{step}"
    app.configure(broker=address)
    queues, echo = (QueueConfig(queue, concurrency=1),), EchoConfig(f"echoes-{step}")
    app.use(dataclasses.replace(app.config, queues=queues, sections=(echo,)))
    app.job("Ruby", queue=queue)(killer.begin)
    app.broker.transport.publish([Push(queue, payload_of(step))])
    threading.settrace(killer)
    app.start()
    await_settled(address, queue)


def main(address: str, stride: str) -> None:
    live_until_one_survives(partial(live, address), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
