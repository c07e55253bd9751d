"""Processes that settle one job each by StoreFirst, and kill themselves at the n-th line of it.

    python two_server_crash_points.py QUEUES STORE OUTCOME STRIDE OFFSET

The process of step n consumes a job from queue `parents-n` of the server at the address QUEUES, and settles it with the
`done` or `retry` of OUTCOMES. Prints `n killed` for each, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from crash_points import Killer, live_until_one_survives
from harness import job

from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Push, SettlementBatch
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.two_servers.settlement import StoreFirst
from goworkers_py.config.options import Config
from goworkers_py.core.effect import PushJobs, StoreValue
from goworkers_py.core.identity import new_identity
from goworkers_py.core.outcome import Done, Outcome, Retry

LATER = 4_000_000_000.5  # in 2096
CHILDREN = 3


def done(step: int) -> Outcome:
    """A job that runs again makes new children."""
    children = tuple(Push(f"children-{step}", job(f"{os.getpid()}:{step}:{number}")) for number in range(CHILDREN))
    later = Push("later", job(f"{os.getpid()}:{step}:later"), LATER)
    jid = f"parent-{step}"
    return Done(effects=(PushJobs(jid, (*children, later)), StoreValue(jid, "result", b"value", 3_600)))


def retry(step: int) -> Outcome:
    return Retry(LATER, job(f"parent-{step}", retry_count=0))


OUTCOMES: dict[str, Callable[[int], Outcome]] = {"done": done, "retry": retry}


class Process:
    def __init__(self, queues: str, store: str) -> None:
        self.queues, self.store = open_broker(Config(broker=queues)), open_broker(Config(broker=store))
        self.identity = new_identity()

    def settle(self, step: int, outcome: Outcome, begin: Callable[[], None] = lambda: None) -> None:
        queue = f"parents-{step}"
        self.queues.recoverable.beat(Presence(self.identity, {queue: 1}))
        [parent] = self.queues.transport.consume(self.identity, [(queue, 1)], 1, wait_s=0)
        transport = StoreFirst(self.queues.transport, self.store.store)
        begin()
        assert transport.settle(SettlementBatch(self.identity, step, [(parent, outcome)])) == [True]

    def close(self) -> None:
        self.queues.close()
        self.store.close()


def live(queues: str, store: str, make: Callable[[int], Outcome], step: int) -> None:
    process, killer = Process(queues, store), Killer(step)
    for broker in (process.queues, process.store):  # the scripts are loaded, so that each life takes the same steps
        assert isinstance(broker, RedisBroker)
        assert broker.admin.now()
    process.queues.transport.publish([Push(f"parents-{step}", job(f"parent-{step}"))])
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    process.settle(step, make(step), killer.begin)


def main(queues: str, store: str, outcome: str, stride: str) -> None:
    live_until_one_survives(partial(live, queues, store, OUTCOMES[outcome]), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
