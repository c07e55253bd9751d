"""Processes that settle one job each in Disque, and kill themselves at the n-th line of it.

    python disque_crash_points.py ADDRESS STRIDE

The process of step n consumes a job from queue `q-n`, and settles it with a retry that is due at once. Prints `n
killed` for each, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import sys
from functools import partial

import crash_points
from crash_points import Killer, live_until_one_survives
from harness import job

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.disque.broker import DisqueBroker
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Push
from goworkers_py.core.outcome import Retry


def again(step: int) -> bytes:
    return job("again", f"q-{step}")


def live(address: str, step: int) -> None:
    crash_points.TRACED_FILES = ("/brokers/disque/", "/redis/exchange.py")
    broker, killer = DisqueBroker.open(Config(broker=f"{address}?retry=1")), Killer(step)
    broker.transport.publish([Push(f"q-{step}", job("first"))])
    [parent] = broker.transport.consume("a", [(f"q-{step}", 1)], 1)
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    killer.begin()
    assert broker.transport.settle(SettlementBatch("settler", 1, [(parent, Retry(1.0, again(step)))])) == [True]
    sys.settrace(None)
    broker.close()


def main(address: str, stride: str) -> None:
    live_until_one_survives(partial(live, address), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
