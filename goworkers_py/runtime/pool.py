"""The state that the threads of a pool share. A delivery goes from the fetcher over the buffer to a worker, and from
there to the settler: docs/internals/tour.md tells that, and where each step is."""

from __future__ import annotations

from goworkers_py.config.options import PoolConfig
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.policy.priorities import priorities_of
from goworkers_py.runtime.fetching.buffer import Buffer
from goworkers_py.runtime.settling.unsettled import Unsettled


class Pool:
    """The queues that share one fetcher, one buffer, these threads and one settler: mostly a single queue."""

    def __init__(self, config: PoolConfig, partition: str = "") -> None:
        self.name = config.name
        self.label = f"{config.name}@{partition}" if partition else config.name  # of its threads
        self.title = str(config)
        self.queues = list(config.queues)
        self.concurrency = config.concurrency
        self.weights = config.weights
        self.serial = config.serial
        self.priorities = priorities_of(config.queues, config.weights)
        self.prefetch = AdaptivePrefetch(config.prefetch, config.concurrency)
        self.buffer = Buffer(config.concurrency)  # the deliveries that no worker has taken yet
        self.unsettled = Unsettled()  # all deliveries from their fetch until the broker has settled them
