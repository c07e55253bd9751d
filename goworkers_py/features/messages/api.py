"""Sends and receives typed messages, see `App.send` and `App.receive`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from goworkers_py.config.options import SERIAL, QueueConfig
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.levels import bare_level
from goworkers_py.features.messages.receiver import Receiver
from goworkers_py.features.messages.typed_message import TypedMessage, type_of

if TYPE_CHECKING:
    from goworkers_py.api.partition import Partition
    from goworkers_py.api.runner import Runner
    from goworkers_py.config.job_options import SetOptions
    from goworkers_py.config.moments import Delay

PartitionOf = Callable[[str], "Partition"]


def send(partition_of: PartitionOf, message: TypedMessage, delay: Delay | None, options: SetOptions) -> str | None:
    kind = type_of(message)
    partition = _partition(kind, partition_of)
    plain = next((queue for queue in partition.config.queues if queue.name == kind.channel and queue.bare_list), None)
    if plain is not None and delay is None and not options:
        partition.client.push_body(bare_level(plain.name, plain.bare_list), message.marshal())
        return None
    if delay is not None and options.get("at") is not None:
        raise ArgumentError("send: give delay or at, not both")
    job, body = kind._job.set(**options), kind._body.to_arg(message)
    return job.enqueue(body) if delay is None else job.enqueue_in(delay, body)


def receive(runner: Runner, partition_of: PartitionOf, kind: type[TypedMessage], consumers: int) -> Receiver:
    channel = type_of(kind).channel
    if consumers < 1:
        raise ArgumentError(f"receive: consumers must be at least 1, is {consumers}")
    partition = _partition(kind, partition_of)
    known = next((queue for queue in partition.config.queues if queue.name == channel), QueueConfig(channel))
    if known.mode == SERIAL and consumers != 1:
        raise ArgumentError(
            f"receive: queue {channel} has mode = serial, which is one thread, and consumers is {consumers}: write "
            "consumers=1"
        )
    queue = dataclasses.replace(known, concurrency=consumers)
    # A fixed name would be that of another process of this program.
    config = dataclasses.replace(
        partition.config, queues=(queue,), pools=(), process="", processes=1, max_jobs=0, max_memory=0, stats_port=0
    )
    return Receiver(*runner.launcher_beside(config, partition))


def _partition(kind: type[TypedMessage], partition_of: PartitionOf) -> Partition:
    spec, _, _ = kind._job.target
    return partition_of(spec.options.get("partition") or "")
