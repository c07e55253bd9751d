"""The methods of an App that send and receive typed messages."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from goworkers_py.api.partition import Partition
from goworkers_py.api.receiver import Receiver
from goworkers_py.api.typed_message import TypedMessage, type_of
from goworkers_py.brokers.broker import Broker
from goworkers_py.config.job_options import SetOptions
from goworkers_py.config.moments import Delay, after
from goworkers_py.config.options import SERIAL, Config, QueueConfig
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.levels import plain_level
from goworkers_py.runtime.assembly import assemble
from goworkers_py.runtime.plan import Plan

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Messaging:
    clock: Clock

    def partition(self, name: str = "") -> Partition:
        raise NotImplementedError

    def open_broker(self, config: Config) -> Broker:
        raise NotImplementedError

    def plan_from(self, config: Config) -> Plan:
        raise NotImplementedError

    def _partition_of(self, kind: type[TypedMessage]) -> Partition:
        spec, _, _ = kind._job.target
        return self.partition(spec.options.get("partition") or "")

    def send(self, message: TypedMessage, *, delay: Delay | None = None, **options: Unpack[SetOptions]) -> str | None:
        """`workers.send(Mail(to="ada@example.com"), delay=60)` returns the jid, or None when a client link stopped the
        push. `delay` is in seconds or a timedelta; the options are those of `Job.set`, such as `at=`, in epoch seconds
        or a datetime. To a queue of plain format, see docs/plain-lists.md, it pushes the bare body without a jid."""
        kind = type_of(message)
        partition = self._partition_of(kind)
        plain = next((queue for queue in partition.config.queues if queue.name == kind.channel and queue.list_), None)
        if plain is not None and delay is None and not options:
            partition.client.push_body(plain_level(plain.name, plain.list_), message.marshal())
            return None
        if delay is not None:
            if options.get("at") is not None:
                raise ArgumentError("send: give delay or at, not both")
            options["at"] = after(delay, self.clock.at_latest())
        return kind._job.set(**options).enqueue(kind._body.to_arg(message))

    def receive(self, kind: type[TypedMessage], consumers: int = 5) -> Receiver:
        """`receiver = workers.receive(Mail, consumers=5)` resolves the messages of a class in 5 threads of this
        program, until `receiver.stop()`. It receives all jobs of the class's channel. While the server is away it
        returns all the same, and begins when the server is there: see `receiver.ready` and `wait_until_ready`."""
        channel = type_of(kind).channel
        if consumers < 1:
            raise ArgumentError(f"receive: consumers must be at least 1, is {consumers}")
        partition = self._partition_of(kind)
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
        plan = self.plan_from(config)
        broker = self.open_broker(plan.config)
        return Receiver(assemble(plan, broker, self.clock, partition.hints), broker)
