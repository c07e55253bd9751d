"""Daemons inside the test's own process, and the parts they are made of, on a real server."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis as redis_py

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import awake_and_asleep
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.quarantine import Quarantine


@contextmanager
def own_app(redis_url: str, *queues: QueueConfig, **options: Any) -> Iterator[App]:
    """An App that is not the default one; whatever it began has ended afterwards."""
    app = App()
    app.configure(redis=redis_url, **{"timeout": 5, **options})
    app.use(dataclasses.replace(app.config, queues=queues))
    try:
        yield app
    finally:
        app.quit()
        app.use(app.config)  # closes its connections


@contextmanager
def working(app: App) -> Iterator[App]:
    app.start()
    try:
        yield app
    finally:
        app.quit()


@contextmanager
def started(app: App) -> Iterator[Launcher]:
    """For tests that stop the daemon by themselves; whatever they left of it has ended afterwards."""
    launcher = app.launcher()
    launcher.start(threading.Event())
    try:
        yield launcher
    finally:
        launcher.hurry()
        launcher.stop()


class Leased(RedisBroker):
    """For tests of something else: who fetches has a lease, without a beat before."""

    def fetch(self, owner: str, queue: str, most: int, wait: bool = True) -> list[bytes]:
        with suppress(BrokerError):
            self._connections.call("SET", self._keys.lease(owner), 0, "NX", "EX", 60)
        return super().fetch(owner, queue, most, wait)


@contextmanager
def own_broker(redis_url: str, **options: Any) -> Iterator[RedisBroker]:
    broker = Leased(Connections(redis_url), Keys(), **options)
    try:
        yield broker
    finally:
        broker.close()


def fresh_lease() -> Lease:
    lease = Lease(50)
    lease.confirm(awake_and_asleep())
    return lease


def open_quarantine(lease: Lease) -> Quarantine:
    """Where nobody else runs, and nobody is to be told."""
    return Quarantine(PoisonPolicy(), lease, time.time, lambda: None, lambda delivery: False, lambda: None)


def begun(delivery: Delivery, at: float) -> Delivery:
    delivery.begun_at = at
    return delivery


def job(job_class: str = "J", *args: Any, **fields: Any) -> bytes:
    """A payload as any producer might write it."""
    payload = {"class": job_class, "args": list(args), "retry": True, "queue": "q", **fields}
    return json.dumps(payload, ensure_ascii=False).encode()


def in_progress(redis: redis_py.Redis) -> list[bytes]:
    """Every payload in anybody's in-progress list."""
    return [raw for key in redis.keys("queue:*:inprogress") for raw in redis.lrange(key, 0, -1)]


def queue(redis: redis_py.Redis, name: str = "q") -> list[bytes]:
    """Payloads in the order in which they would run."""
    return list(reversed(redis.lrange(f"queue:{name}", 0, -1)))


def fields(payloads: list[bytes], name: str) -> list[Any]:
    return [json.loads(raw).get(name) for raw in payloads]
