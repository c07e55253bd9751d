"""A program that runs no jobs, and blocks of code under limits, over and over. It is killed like the others.

    python -m chaos.block_program CONSTANTS ADDRESS FILE

FILE tells when an outage begins and ends, once that is known. Blocks that begin shortly before it last into the outage,
or beyond it.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path

from hasty import apply

import goworkers_py as workers
from chaos.bounded import noted_block
from chaos.bounded_jobs import BLOCK_TIMEOUT_S, declare_limits, last
from goworkers_py.core.errors import BrokerError
from goworkers_py.features.limits.api import Limit

THREADS = 2  # for each limit
WHILE_S = 25.0  # before the end of the outage, and 3 s after it: when the long blocks end


def _run_blocks(kind: str, limit: Limit, outage: Path) -> None:
    dice = random.Random()
    while True:
        try:
            with limit.acquire(timeout=BLOCK_TIMEOUT_S), noted_block(kind, "-"):
                last(dice.uniform(0.0, 0.5), _until(dice, outage))
        except (workers.LimitTimeout, BrokerError):
            pass
        time.sleep(dice.uniform(0.05, 1.0))


def _until(dice: random.Random, outage: Path) -> float:
    if outage.exists():
        began, ended = map(float, outage.read_text().split())
        if time.monotonic() < began:
            return ended + dice.uniform(-WHILE_S, WHILE_S / 2)
    return 0.0


def main() -> None:
    constants, address, outage = sys.argv[1:]
    apply(json.loads(constants))
    workers.configure(broker=address)
    for kind, limit in declare_limits(workers.app).items():
        for number in range(THREADS):
            threading.Thread(
                target=_run_blocks, args=(kind, limit, Path(outage)), name=f"{kind} {number}", daemon=True
            ).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
