"""Stand-ins for the parts that a broker lacks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection

import pytest

from goworkers_py.brokers.absent import completed
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.config.options import Config
from goworkers_py.core.job_state import JobState

MEMORY = MemoryBroker.open(Config(broker="memory://absent"))


class Service(Broker):
    name = "the service"
    capabilities: Collection[Capability] = {Capability.DELAYS, Capability.SHARED}
    redelivers = True
    transport = MEMORY.transport


def test_a_broker_that_has_every_part_stays_as_it_is() -> None:
    assert completed(MEMORY) is MEMORY


def test_a_broker_keeps_its_name_capabilities_and_transport() -> None:
    broker = completed(Service())
    assert (broker.name, broker.capabilities, broker.redelivers) == ("the service", Service.capabilities, True)
    assert broker.transport is MEMORY.transport
    with pytest.raises(AttributeError, match="'Service' object has no attribute 'metrics'"):
        print(broker.metrics)


def test_a_lease_that_nobody_looks_at_is_always_kept() -> None:
    recoverable = completed(Service()).recoverable
    beat = recoverable.beat(Presence("me", {"q": 1}))
    assert beat.kept
    assert beat.server_time == pytest.approx(time.time(), abs=60)
    found = itertools.chain(recoverable.recover("me", lambda found: pytest.fail(found), None), recoverable.leave("me"))
    assert list(found) == []


def test_no_job_waits_in_a_store_that_is_not_there() -> None:
    store = completed(Service()).store
    assert list(store.promote(JobState.RETRY, lambda payload, now: pytest.fail("called"), 10)) == [None]
    assert store.posted("other", 10) == []
