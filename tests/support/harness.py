"""The harness by which the contract tests use a broker, and the processes of these tests.

A harness stands for one empty broker. Each test makes a new one. An author of a broker writes one:

    class FilesHarness:
        def __init__(self, folder: Path) -> None:
            '''`folder` is empty; only this test uses it.'''
            self.address = f"files://{folder}"

        def expire_lease(self, identity: str) -> None:
            '''Expires the identity's lease now, as after a minute without a beat.'''

        def close(self) -> None:
            '''Called after the test has closed all its brokers.'''

and names it: PYWORKERS_TEST_HARNESS=their_package.testing:FilesHarness pytest tests/contract
A broker without leases needs no `expire_lease`. Brokers that one test opens at the address hold the same jobs.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.brokers.contracts.recoverable import Beat, FoundJob, Presence, Recovered
from goworkers_py.brokers.contracts.transport import Push, Settled, SettlementBatch
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import Outcome
from goworkers_py.features import feature_of
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.wire.stored_job import StoredJob

P = TypeVar("P")

VARIABLE = "PYWORKERS_TEST_HARNESS"
CONSUMED_WITHIN_S = 15.0

SCHEDULED, PARKED = Place(JobState.SCHEDULED), Place(JobState.PARKED)
OUTBOX, RETRIES, DEAD = Place(JobState.OUTBOX), Place(JobState.RETRY), Place(JobState.DEAD)


class Harness(Protocol):
    address: str

    def expire_lease(self, identity: str) -> None: ...

    def close(self) -> None: ...


def foreign() -> dict[str, Callable[[Path], Harness]]:
    """The harnesses that PYWORKERS_TEST_HARNESS names, by name."""
    found = {}
    for name in os.environ.get(VARIABLE, "").replace(",", " ").split():
        module, _, kind = name.partition(":")
        found[kind] = getattr(import_module(module), kind)
    return found


# --- processes


class Process:
    """A process of the fleet, with its own broker object and identity."""

    _batches = itertools.count(1)
    _nonces = itertools.count(1)

    def __init__(self, config: Config) -> None:
        self.config = config
        self.broker = open_broker(config)
        nonce = next(self._nonces)
        self.identity = f"host:{nonce}:{nonce:012x}"

    def beat(self, queues: Iterable[str] = ("q",), **told: Any) -> Beat:
        return self.broker.recoverable.beat(Presence(self.identity, dict.fromkeys(queues, 10), **told))

    def begin(self) -> Process:
        """Sends the first beat if the broker has leases. Returns itself."""
        if not {Capability.LEASES, Capability.CONTROL}.isdisjoint(self.broker.capabilities):
            self.beat()
        return self

    def publish(self, *payloads: bytes, queue: str = "q", at: float | None = None) -> None:
        self.broker.transport.publish([Push(queue, payload, at) for payload in payloads])

    @staticmethod
    def push(payload: bytes, queue: str = "q", at: float | None = None, push_id: str = "") -> Push:
        return Push(queue, payload, at, push_id)

    def consume(self, count: int, queue: str = "q") -> list[Delivery]:
        """Consumes until it has `count` deliveries; fails after CONSUMED_WITHIN_S."""
        taken: list[Delivery] = []
        give_up_at = time.monotonic() + CONSUMED_WITHIN_S
        while len(taken) < count:
            assert time.monotonic() < give_up_at, f"consumed {len(taken)} of {count} jobs: {taken}"
            taken += self.broker.transport.consume(self.identity, [(queue, count - len(taken))], count - len(taken))
        return taken

    def settle(self, *finished: tuple[Delivery, Outcome]) -> list[Settled]:
        """Settles these deliveries in one batch."""
        return list(self.broker.transport.settle(self.batch(*finished)))

    def batch(self, *finished: tuple[Delivery, Outcome], held: Sequence[Delivery] = ()) -> SettlementBatch:
        return SettlementBatch(f"settler of {self.identity}", next(self._batches), finished, held)

    def recover(self, proof: str | None = None) -> list[Recovered]:
        return list(self.broker.recoverable.recover(self.identity, as_it_was, proof))

    def leave(self, silent: bool = True) -> list[Recovered]:
        return list(self.broker.recoverable.leave(self.identity, silent))


class Processes:
    """Starts the processes of a test."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._brokers: list[Broker] = []

    def __call__(self, **options: Any) -> Process:
        """A process that has sent a beat. `options` are of its configuration."""
        return self.unknown(**options).begin()

    def unknown(self, **options: Any) -> Process:
        """A process that has sent no beat yet."""
        process = Process(Config(broker=self._harness.address, **getattr(self._harness, "options", {}), **options))
        left_out, part = getattr(self._harness, "left_out", set()), process.broker.part
        process.broker.capabilities = {*process.broker.capabilities} - left_out
        process.broker.part = lambda contract: None if contract in left_out else part(contract)  # type: ignore[method-assign]
        self._brokers.append(process.broker)
        return process

    def expire(self, *processes: Process | str) -> None:
        """The leases of these processes, or of these identities."""
        for process in processes:
            self._harness.expire_lease(process if isinstance(process, str) else process.identity)

    def close(self) -> None:
        for broker in self._brokers:
            broker.close()
        self._harness.close()


# --- jobs


def job(jid: object, queue: str = "q", **fields: Any) -> bytes:
    """A payload that every program of a fleet can read."""
    return json.dumps({"class": "Job", "args": [1], "jid": str(jid), "queue": queue, "retry": True, **fields}).encode()


def jobs(count: int, queue: str = "q") -> list[bytes]:
    return [*_jobs(count, queue)]


@lru_cache(4)
def _jobs(count: int, queue: str) -> tuple[bytes, ...]:
    return tuple(job(f"{number:06d}", queue) for number in range(count))


def payloads(several: Iterable[Delivery | StoredJob]) -> list[bytes]:
    return [one.payload for one in several]


def as_it_was(found: FoundJob) -> RecoveryDecision:
    """Decides that the job goes back into its queue, unchanged."""
    return RecoveryDecision(found.payload)


def back(queue: str, owner: Process, payload: bytes) -> Recovered:
    return Recovered(queue, owner.identity, payload, RecoveryDecision(payload))


def waiting(admin: Admin, queue: str = "q") -> list[bytes]:
    """The jobs of a queue in the order in which they will be consumed."""
    return payloads(admin.jobs_in(Place(JobState.WAITING, queue)).first(100_000))


def stored(admin: Admin, place: Place) -> list[bytes]:
    return payloads(admin.jobs_in(place).first(100_000))


def all_jobs(admin: Admin, places: Iterable[Place]) -> Iterator[StoredJob]:
    return (one for place in places for page in admin.jobs_in(place).pages() for one in page)


def account(admin: Admin) -> dict[str, list[str]]:
    """Every place that holds a job, by its jid. Includes the jobs in progress of processes that have ended."""
    places = defaultdict(list)
    for queue in admin.queues():
        for payload in waiting(admin, queue.name):
            places[json.loads(payload)["jid"]].append(f"queue {queue.name}")
    for place in (SCHEDULED, PARKED, OUTBOX, RETRIES, DEAD):
        for payload in stored(admin, place):
            places[json.loads(payload)["jid"]].append(place.state.value)
    for held in admin.in_progress():
        places[held.job.jid].append(f"in progress under {held.owner.identity}")
    return dict(places)


def can(broker: Broker, capability: Capability) -> Broker:
    if capability not in broker.capabilities:
        pytest.skip(f"{broker.name} has no {capability.value}")
    return broker


def part_of(broker: Broker, contract: type[P]) -> P:
    part = broker.part(contract)
    if part is None:
        pytest.skip(f"{broker.name} has no {feature_of(contract).kept}")
    return part
