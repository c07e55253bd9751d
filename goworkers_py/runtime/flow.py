"""The way of a delivery between the threads of one queue: fetcher -> buffer -> workers -> settler."""

from __future__ import annotations

from goworkers_py.config.options import QueueConfig
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.runtime.buffer import Buffer
from goworkers_py.runtime.unsettled import Unsettled


class Flow:
    def __init__(self, config: QueueConfig) -> None:
        self.queue = config.name
        self.concurrency = config.concurrency
        self.prefetch = AdaptivePrefetch(config.prefetch, config.concurrency)
        self.buffer = Buffer(config.concurrency)  # the deliveries that no worker has taken yet
        self.unsettled = Unsettled()  # all deliveries from their fetch until the broker has settled them
