"""Ours with a clock around each settling call, and from the end of each job to the end of the call that removes it.
It writes the figures at the end of the process.
"""

import atexit
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import goworkers_py as workers
from goworkers_py.brokers.redis.queues.transport import RedisTransport

_settle = RedisTransport.settle
_calls_ns: list[int] = []
_ends_ns: list[int] = []
_ended: dict[bytes, int] = {}  # by jid; a worker adds it, and the settler takes it out
_JID = b'"jid":"'


@workers.job("Scattered")
def scattered(milliseconds: float, *args: Any) -> None:
    """Jobs that took equally long would all end at once."""
    jid = workers.current_message().jid.encode()
    time.sleep(milliseconds / 1_000 * random.uniform(0.5, 1.5))
    _ended[jid] = time.perf_counter_ns()


def timed(self: RedisTransport, batch: Any) -> Any:
    began = time.perf_counter_ns()
    results = _settle(self, batch)
    now = time.perf_counter_ns()
    _calls_ns.append(now - began)
    for delivery, _ in batch.finished:
        place = delivery.payload.rindex(_JID) + len(_JID)  # near the end: to parse 100 KB would delay the next call
        jid = delivery.payload[place : delivery.payload.index(b'"', place)]
        if jid in _ended:  # not one that goes back without a run
            _ends_ns.append(now - _ended.pop(jid))
    return results


def write() -> None:
    Path(os.environ["BENCH_SETTLES"]).write_text(json.dumps([_calls_ns, _ends_ns]))


RedisTransport.settle = timed  # type: ignore[method-assign]
atexit.register(write)
