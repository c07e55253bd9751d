"""The way of a delivery between the threads of a pool: fetcher -> buffer -> workers -> settler of its queue."""

from __future__ import annotations

from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.policy.priorities import priorities_of
from goworkers_py.runtime.buffer import Buffer
from goworkers_py.runtime.unsettled import Unsettled


class Flow:
    """Of one queue. The queues of a pool share the prefetch and the buffer."""

    def __init__(self, config: QueueConfig) -> None:
        self.queue = config.name
        self.concurrency = config.concurrency
        self.prefetch = AdaptivePrefetch(config.prefetch, config.concurrency)
        self.buffer = Buffer(config.concurrency)  # the deliveries that no worker has taken yet
        self.unsettled = Unsettled()  # all deliveries from their fetch until the broker has settled them


class Pool:
    """The queues that share one fetcher, one buffer and one pool of threads: mostly a single one."""

    def __init__(self, config: PoolConfig) -> None:
        self.name = config.name
        self.title = str(config)
        self.concurrency = config.concurrency
        self.weights = config.weights
        self.priorities = priorities_of(config.queues, config.weights)
        flows = [Flow(QueueConfig(queue, config.concurrency, config.prefetch)) for queue in config.queues]
        self.flows = {flow.queue: flow for flow in flows}
        self.prefetch, self.buffer = flows[0].prefetch, flows[0].buffer
        for flow in flows:
            flow.prefetch, flow.buffer = self.prefetch, self.buffer
