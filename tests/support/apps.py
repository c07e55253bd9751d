"""Daemons inside the test's process, and their parts, on a real server."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import redis as redis_py

from goworkers_py.api.app import App
from goworkers_py.api.declarations import Declarations
from goworkers_py.api.planning import plan_of
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import DeclaredDead, Presence
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues.transport import RedisTransport
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.clock import Clock
from goworkers_py.core.command import Obey
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.core.outcome import Outcome
from goworkers_py.core.timing import TIMING, Timing
from goworkers_py.features.in_process import InProcess
from goworkers_py.links.chain import Run
from goworkers_py.links.handlers import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.needs import Needs
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.priorities import Ask
from goworkers_py.policy.registry import Registry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.assembly import parts_of_features
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.run_state import RunState
from goworkers_py.runtime.running.guard import NO_STAND_INS, Guard
from goworkers_py.runtime.running.net import Net
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.run_ends import RunEnds
from goworkers_py.runtime.shared import Shared
from goworkers_py.wire.message import Message

NOWHERE = "redis://localhost:1"


@contextmanager
def own_app(redis_url: str, *queues: QueueConfig, timing: Timing = TIMING, **options: Any) -> Iterator[App]:
    """An App that is not the default one. At the end of the block all its threads have ended."""
    app = App()
    app.timing = timing
    app.allow_no_jobs = True
    app.configure(redis=redis_url, **{"timeout": 5, **options})
    app.use(dataclasses.replace(app.config, queues=queues))
    try:
        yield app
    finally:
        app.quit()
        app.use(app.config)  # closes its connections


def without_server() -> App:
    """An App for the test modes: no server listens at its address."""
    app = App()
    app.configure(broker=NOWHERE)
    return app


@contextmanager
def working(app: App) -> Iterator[App]:
    app.start()
    try:
        yield app
    finally:
        app.quit()


@contextmanager
def started(app: App, obey: Obey | None = None) -> Iterator[Launcher]:
    """For tests that stop the daemon themselves. At the end of the block all its threads have ended."""
    with running(app.runner.launcher(obey)) as launcher:
        yield launcher


@contextmanager
def running(launcher: Launcher) -> Iterator[Launcher]:
    launcher.start(threading.Event())
    try:
        yield launcher
    finally:
        launcher.hurry()
        launcher.stop()


class BeatingTransport:
    """For tests of something else than leases: the first consume of an identity sends its first beat."""

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        self._transport = broker.transport
        self._leased: set[str] = set()

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        if identity not in self._leased:
            self._leased.add(identity)
            with suppress(BrokerError, DeclaredDead):
                self._broker.recoverable.beat(Presence(identity, {queue: 0 for queue, _ in asks}))
        return self._transport.consume(identity, asks, limit, wait_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@contextmanager
def own_broker(redis_url: str, block_s: float = RedisTransport.block_s, **options: Any) -> Iterator[RedisBroker]:
    """Its `consume` waits for `block_s` for the first job."""
    broker = RedisBroker(redis_url, Config(**options))
    broker._transport.block_s = block_s
    broker.transport = BeatingTransport(broker)
    try:
        yield broker
    finally:
        broker.close()


def fresh_lease() -> Lease:
    lease = Lease(50)
    lease.confirm(awake_and_asleep())
    return lease


def open_quarantine(lease: Lease) -> Quarantine:
    """A quarantine in a process without other running jobs; its beats do nothing."""
    return Quarantine(PoisonPolicy(), lease, Clock(), lambda: None, lambda delivery: False, lambda: None)


def shared(lease: Lease | None = None, quarantine: Quarantine | None = None, clock: Clock | None = None) -> Shared:
    """The parts that the threads of a process share: those given by the test, and defaults."""
    lease = lease or fresh_lease()
    return Shared(
        clock or Clock(), lease, Outage("Redis"), Counters(), quarantine or open_quarantine(lease), RunState()
    )


def net(run_stats: RunStats | None = None) -> Net:
    """Of a queue without handlers."""
    return Net(RetryPolicy(), Registry(), Handlers(), run_stats or RunStats(), time.time)


class Suspicious(Quarantine):
    """Notes what it is given to run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        self.ran.append(message.jid)
        return chain(message)


def never(message: Message) -> Outcome:
    pytest.fail(f"{message} was run")


def guard_around(
    chain: Run,
    *more: InProcess,
    config: Config | None = None,
    broker: Broker | None = None,
    quarantine: Quarantine | None = None,
    of_queue: Net | None = None,
    stand_ins: Mapping[str, Run] = NO_STAND_INS,
    read: Callable[[Delivery], Message] | None = None,
) -> Guard:
    """Of a process without tracked classes, on a broker of its own. `more`: parts of further features."""
    broker = broker or MemoryBroker(State(), DeadLimits())
    common, plan = shared(quarantine=quarantine), plan_of(Declarations(), config or Config())
    by_feature, _ = parts_of_features(plan, broker, common, tuple)
    by_feature |= {f"more {number}": part for number, part in enumerate(more)}
    return Guard(
        chain,
        of_queue or net(),
        Needs(),
        Registry(),
        common.alarms,
        [*by_feature.values()],
        RunEnds(by_feature, time.time),
        common.quarantine.run,
        stand_ins,
        read,
    )


def begun(delivery: Delivery, at: float) -> Delivery:
    delivery.begun_at = at
    return delivery


def job(job_class: str = "J", *args: Any, **fields: Any) -> bytes:
    """A payload as any producer might write it."""
    payload = {"class": job_class, "args": list(args), "retry": True, "queue": "q", **fields}
    return json.dumps(payload, ensure_ascii=False).encode()


def in_progress(redis: redis_py.Redis) -> list[bytes]:
    """Every payload in the in-progress lists of all processes."""
    return [raw for key in redis.keys("queue:*:inprogress") for raw in redis.lrange(key, 0, -1)]


def queue(redis: redis_py.Redis, name: str = "q") -> list[bytes]:
    """Payloads in the order in which they would run."""
    return list(reversed(redis.lrange(f"queue:{name}", 0, -1)))


def fields(payloads: list[bytes], name: str) -> list[Any]:
    return [json.loads(raw).get(name) for raw in payloads]
