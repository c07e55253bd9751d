"""Short functions for the tests of the Redis broker, and jobs for these tests."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

import pytest
import redis as redis_py
from redis.backoff import NoBackoff
from redis.retry import Retry as Again
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import Beat, FoundJob, Presence, Recovered
from goworkers_py.brokers.contracts.store import TIMED
from goworkers_py.brokers.contracts.transport import Push, SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.fleet import leases
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import Outcome, Retry
from goworkers_py.core.proc import origin
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.wire import payload

OWNER, OTHER = "here:1:aaaa", "there:2:bbbb"
THIRD = "there:3:cccccccccccc"  # has the form of an identity, so it may be part of a key
SCHEDULED, RETRY = JobState.SCHEDULED, JobState.RETRY
FAR = 4_000_000_000.0  # in 2096
KEYS = Keys()


class LeasedTransport:
    """For tests of something else than leases: each consume first makes a lease of the identity."""

    def __init__(self, broker: RedisBroker, url: str, keys: Keys) -> None:
        self._transport = broker.transport
        self._url = url
        self._keys = keys

    def consume(self, identity: str, *args: Any, **kwargs: Any) -> list[Delivery]:
        with suppress(redis_py.RedisError), redis_py.Redis.from_url(self._url, retry=Again(NoBackoff(), 0)) as client:
            client.set(self._keys.lease(identity), 0, nx=True, ex=60)
        return self._transport.consume(identity, *args, **kwargs)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._transport, verb)


class LeasesElsewhere:
    """The leases of a process that claims to run on another machine: no process here can see whether it still runs."""

    def __init__(self, broker: RedisBroker, machine: str) -> None:
        self._recoverable = broker.recoverable
        self._told = origin() | {"machine": machine}

    def beat(self, presence: Presence) -> Beat:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leases, "origin", lambda: self._told)
            return self._recoverable.beat(presence)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._recoverable, verb)


def leased_broker(url: str, machine: str = "", block_s: float = 0.1, **options: Any) -> RedisBroker:
    """The broker of one more process, on this machine or, as its beats claim, on `machine`. Its `consume` waits for
    `block_s` for the first job."""
    broker = RedisBroker(url, Config(**options))
    broker._transport.block_s = block_s
    # A server that stands still for a few seconds on a busy machine is no lost connection.
    broker.connections.reply_margin_s = 20.0
    broker.transport = LeasedTransport(broker, url, Keys(options.get("namespace", "")))
    if machine:
        broker.recoverable = LeasesElsewhere(broker, machine)
    return broker


class Make(Protocol):
    """The fixture `make`."""

    def __call__(self, machine: str = "", block_s: float = 0.1, **options: Any) -> RedisBroker: ...


def let_lease_run_out(redis: redis_py.Redis, owner: str) -> None:
    assert redis.pexpire(KEYS.lease(owner), 1)
    assert eventually(lambda: not redis.exists(KEYS.lease(owner)))


# --- jobs


def job(name: object, queue: str = "q", **fields: Any) -> bytes:
    return payload.write({"class": "Job", "args": [name], "queue": queue, **fields})


def publish(broker: RedisBroker, *payloads: bytes, queue: str = "q") -> None:
    broker.transport.publish([Push(queue, one) for one in payloads])


def consume(broker: RedisBroker, owner: str, queue: str, limit: int) -> list[bytes]:
    deliveries = broker.transport.consume(owner, [(queue, limit)], limit)
    assert all((delivery.identity, delivery.queue) == (owner, queue) for delivery in deliveries)
    return [delivery.payload for delivery in deliveries]


def consume_all(broker: RedisBroker, owner: str = OWNER, queue: str = "q") -> list[bytes]:
    """Consumes all jobs of the queue. They are in progress then."""
    consumed: list[bytes] = []
    while payloads := consume(broker, owner, queue, 100):
        consumed += payloads
    return consumed


def hold(broker: RedisBroker, *payloads: bytes, owner: str = OWNER, queue: str = "q") -> list[bytes]:
    """Publishes the payloads to an empty queue and consumes them."""
    publish(broker, *payloads, queue=queue)
    consumed: list[bytes] = []
    while len(consumed) < len(payloads):
        consumed += consume(broker, owner, queue, len(payloads) - len(consumed))
    return consumed


def held(broker: RedisBroker, owner: str = OWNER, queue: str = "q") -> list[bytes]:
    """The payloads in progress, the oldest first."""
    return [delivery.payload for delivery in broker.transport.lost_replies(owner, queue, (), thorough=True)]


_numbers = itertools.count()


def batch(*ends: tuple[bytes, Outcome], owner: str = OWNER, queue: str = "q") -> SettlementBatch:
    finished = [(Delivery(one, queue, owner), outcome) for one, outcome in ends]
    return SettlementBatch("settler", next(_numbers), finished)


def batch_of(*finished: tuple[Delivery, Outcome]) -> SettlementBatch:
    return SettlementBatch("settler", next(_numbers), finished)


# --- jobs that wait for a time


def put_waiting(broker: RedisBroker, state: JobState, entries: dict[bytes, float]) -> None:
    if state is SCHEDULED:
        broker.transport.publish([Push("q", entry, at) for entry, at in entries.items()])
        return
    payloads = hold(broker, *map(job, range(len(entries))), queue="made up")
    ends = [(one, Retry(at, entry)) for one, (entry, at) in zip(payloads, entries.items(), strict=True)]
    assert all(broker.transport.settle(batch(*ends, queue="made up")))


def forward(entry: bytes, now: float) -> tuple[str | None, bytes]:
    try:
        return str(payload.read(entry)["queue"]), payload.splice(entry, {"promoted": True})
    except Exception:
        return None, entry


def promoted(entry: bytes) -> bytes:
    return payload.splice(entry, {"promoted": True})


def promote(broker: RedisBroker, state: JobState = SCHEDULED, at_once: int = 100) -> tuple[int, list[float | None]]:
    """Promotes. Returns the number of due entries, and the result of each step."""
    due = 0

    def counted(entry: bytes, now: float) -> tuple[str | None, bytes]:
        nonlocal due
        due += 1
        return forward(entry, now)

    told = list(broker.store.promote(state, counted, at_once))
    return due, told


def promote_all(broker: RedisBroker, at_once: int = 100) -> int:
    """Promotes all due entries. Returns their number."""
    return sum(promote(broker, state, at_once)[0] for state in TIMED)


# --- processes


def beat(broker: RedisBroker, owner: str, queues: Iterable[str] = ("q",), process: str = "") -> Beat:
    return broker.recoverable.beat(Presence(owner, dict.fromkeys(queues, 10), process))


def strand(broker: RedisBroker, *payloads: bytes, owner: str = OTHER, queue: str = "q") -> None:
    """A process sends a beat and consumes the payloads; it sends no further beat."""
    beat(broker, owner, [queue])
    assert hold(broker, *payloads, owner=owner, queue=queue) == list(payloads)


def as_it_was(found: FoundJob) -> RecoveryDecision:
    """Decides that the job goes back into its queue, unchanged."""
    return RecoveryDecision(found.payload)


def recover(broker: RedisBroker, by_lease: bool, owner: str = OWNER) -> list[Recovered]:
    return list(broker.recoverable.recover(owner, as_it_was, proof="" if by_lease else None))


def leave(broker: RedisBroker, owner: str = OWNER, silent: bool = True) -> list[Recovered]:
    return list(broker.recoverable.leave(owner, silent))


def back(queue: str, owner: str, one: bytes) -> Recovered:
    return Recovered(queue, owner, one, RecoveryDecision(one))


# --- the server


def seconds(of_server: tuple[int, int]) -> float:
    """The reply to TIME as epoch seconds."""
    return of_server[0] + of_server[1] / 1e6


def contents(client: redis_py.Redis) -> dict[bytes, object]:
    return {key: client.dump(key) for key in client.scan_iter()}


def freeze_clock(patch: pytest.MonkeyPatch, at: float) -> None:
    """Stops the clock of this machine, not the server's."""
    patch.setattr(time, "time", lambda: at)
