"""Dead jobs are kept for people: up to a number, and up to an age. Each verb that adds one deletes those beyond."""

from __future__ import annotations

import time

import pytest
from harness import DEAD, SCHEDULED, Process, Processes, jobs, stored

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.recoverable import FoundJob, Recoverable
from goworkers_py.core.errors import PoisonPill
from goworkers_py.core.outcome import Dead
from goworkers_py.policy.poison import RecoveryDecision


def bury(process: Process, *payloads: bytes) -> None:
    process.publish(*payloads)
    process.settle(*((delivery, Dead(delivery.payload)) for delivery in process.consume(len(payloads))))


def promote_to_the_dead(process: Process) -> None:
    list(process.broker.store.promote(SCHEDULED.state, lambda payload, now: (None, payload), 100))


def convict(found: FoundJob) -> RecoveryDecision:
    return RecoveryDecision(found.payload, PoisonPill("three times"))


def test_the_oldest_dead_jobs_are_deleted_beyond_the_limit(start: Processes, admin: Admin) -> None:
    process = start(dead_max_jobs=3)
    for payload in jobs(5):
        bury(process, payload)
    assert stored(admin, DEAD) == jobs(5)[2:]


def test_dead_jobs_are_deleted_when_they_are_too_old(start: Processes, admin: Admin) -> None:
    process = start(dead_timeout=0.2)
    first, second, third = jobs(3)
    bury(process, first, second)
    time.sleep(0.3)
    bury(process, third)
    assert stored(admin, DEAD) == [third]


@pytest.mark.usefixtures("store")
def test_a_promotion_to_the_dead_jobs_deletes_the_oldest_beyond_the_limit(start: Processes, admin: Admin) -> None:
    process = start(dead_max_jobs=3)
    bury(process, *jobs(5)[:3])
    process.broker.transport.publish([process.push(payload, at=1.0) for payload in jobs(5)[3:]])
    promote_to_the_dead(process)
    dead = stored(admin, DEAD)
    assert len(dead) == 3
    assert dead[1:] == jobs(5)[3:]


@pytest.mark.usefixtures("store")
def test_a_promotion_to_the_dead_jobs_deletes_those_that_are_too_old(start: Processes, admin: Admin) -> None:
    process = start(dead_timeout=0.2)
    first, second = jobs(2)
    bury(process, first)
    time.sleep(0.3)
    process.publish(second, at=1.0)
    promote_to_the_dead(process)
    assert stored(admin, DEAD) == [second]


def test_a_recovery_that_buries_jobs_deletes_the_oldest_beyond_the_limit(
    start: Processes, other: Process, admin: Admin, recoverable: Recoverable
) -> None:
    process = start(dead_max_jobs=3)
    bury(process, *jobs(5)[:3])
    other.publish(*jobs(5)[3:])
    other.consume(2)
    start.expire(other)
    assert len(list(process.broker.recoverable.recover(process.identity, convict, proof=""))) == 2
    dead = stored(admin, DEAD)
    assert len(dead) == 3
    assert dead[1:] == jobs(5)[3:]
