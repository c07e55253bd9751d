"""Processes that end a job of the directory broker, and kill themselves at the n-th line of the broker's code.

    python dir_crash_points.py FOLDER STRIDE

The process of step n consumes from a folder of its own, FOLDER/n, one job, and settles it: a retry that has pushed
CHILDREN. Prints `n killed` for each, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import crash_points
from crash_points import Killer, live_until_one_survives
from dir_broker import DirBroker

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.outcome import Retry

CHILDREN = 3


def broker_of(folder: Path, step: int) -> DirBroker:
    return DirBroker.open(Config(broker=f"dir://{folder}/{step}"))


def live(folder: Path, step: int) -> None:
    crash_points.TRACED_FILES = ("/dir_broker.py",)
    broker_of(folder, step).transport.publish([Push("q", b"{}")])
    transport, killer = broker_of(folder, step).transport, Killer(step)
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    killer.begin()
    [parent] = transport.consume("a:1:aa", [("q", 1)], 1)
    children = tuple(Push("children", b"%d" % number) for number in range(CHILDREN))
    again = Retry(1.0, b'{"queue": "q", "retry_count": 0}', effects=(PushJobs("parent", children),))
    assert transport.settle(SettlementBatch("settler", 1, [(parent, again)])) == [True]


def main(folder: str, stride: str) -> None:
    live_until_one_survives(partial(live, Path(folder)), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
