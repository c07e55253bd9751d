"""Every bar of the benchmark: a function that measures and judges, and answers with its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.bars.backlog import backlog, queues
from bench.bars.durable import durable
from bench.bars.fairness import fairness
from bench.bars.latency import latency
from bench.bars.memory import memory
from bench.bars.pools import pools
from bench.bars.producing import enqueue
from bench.bars.scheduled import promotion
from bench.bars.services import rabbitmq, serial
from bench.bars.shapes import shapes
from bench.bars.starting import footprint
from bench.bars.throughput import drain, payload, processes, sleep
from bench.bars.timers import timers
from bench.report import Table
from bench.run import Run

Bar = Callable[[Run], Sequence[Table]]

BARS: dict[str, Bar] = {
    bar.__name__: bar
    for bar in (
        drain,
        processes,
        sleep,
        latency,
        fairness,
        payload,
        durable,
        backlog,
        queues,
        promotion,
        pools,
        enqueue,
        shapes,
        footprint,
        memory,
        timers,
        rabbitmq,
        serial,
    )
}
