"""Memory brokers of one address hold the same jobs, until the process ends or the address is forgotten."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import pytest

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.brokers.contracts.transport import Push, SettlementBatch
from goworkers_py.brokers.memory import state
from goworkers_py.brokers.memory.broker import MemoryBroker, forget, state_at
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import DONE

Q = Place(JobState.WAITING, "q")


def opened(address: str) -> MemoryBroker:
    broker = open_broker(Config(broker=address))
    assert isinstance(broker, MemoryBroker)
    return broker


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    for address in ("memory://", "memory://one", "memory://two"):
        forget(address)


def test_the_last_batches_of_settlers_that_ended_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_SETTLERS", 2)
    transport = opened("memory://one").transport
    delivery, numbers = Delivery(b"{}", "q", "nobody", 1), itertools.count()

    def settle(settler: str) -> None:
        transport.settle(SettlementBatch(settler, next(numbers), [(delivery, DONE)]))

    for settler in ("first", "second", "third", "third", "second"):
        settle(settler)
    assert list(state_at("memory://one").settled) == ["third", "second"]
    settle("fourth")
    assert list(state_at("memory://one").settled) == ["second", "fourth"]


@pytest.mark.parametrize("address", ["memory://", "memory://one"])
def test_brokers_of_one_address_hold_the_same_jobs(address: str) -> None:
    opened(address).transport.publish([Push("q", b"1")])
    assert opened(address).admin.jobs_in(Q).count() == 1


def test_brokers_of_two_addresses_hold_jobs_of_their_own() -> None:
    opened("memory://one").transport.publish([Push("q", b"1")])
    assert opened("memory://two").admin.jobs_in(Q).count() == opened("memory://").admin.jobs_in(Q).count() == 0


def test_jobs_outlive_the_broker_that_published_them() -> None:
    broker = opened("memory://one")
    broker.transport.publish([Push("q", b"1")])
    broker.close()
    assert opened("memory://one").admin.jobs_in(Q).count() == 1


def test_a_broker_opened_at_a_forgotten_address_holds_no_jobs() -> None:
    before = opened("memory://one")
    before.transport.publish([Push("q", b"1")])
    forget("memory://one")
    forget("memory://never opened")
    assert opened("memory://one").admin.jobs_in(Q).count() == 0
    assert before.admin.jobs_in(Q).count() == 1


def test_a_daemon_is_warned_at_its_start_that_jobs_are_lost_with_the_process(caplog: pytest.LogCaptureFixture) -> None:
    opened("memory://one").warn_at_start()
    assert [(record.levelno, "when this process ends are lost" in record.message) for record in caplog.records] == [
        (logging.WARNING, True)
    ]


def test_a_memory_broker_has_all_capabilities_but_metrics_shared_and_lasting() -> None:
    lacking = {Capability.METRICS, Capability.SHARED, Capability.LASTING}
    assert set(Capability) - set(MemoryBroker.capabilities) == lacking


def test_a_publish_in_a_forked_child_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = opened("memory://one")
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(BrokerRefused, match="this is a forked child"):
        broker.transport.publish([Push("q", b"1")])


def test_a_memory_broker_has_no_checks_and_no_damage() -> None:
    admin: Admin = opened("memory://one").admin
    assert (admin.damage(), admin.damaged_queues(), dict(admin.checks(["q"]))) == ([], [], {})
