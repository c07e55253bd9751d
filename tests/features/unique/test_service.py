"""The lock keeper: the locks of running jobs have no end of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import LockClaim
from goworkers_py.features.unique.service import LockKeeper
from goworkers_py.runtime.outage import Outage
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

ME, NAME = "host:1:00000000000a", "Job:one"


def running(jid: str = "1", until: str = "success", for_s: int = 300) -> Delivery:
    lock = {"name": NAME, "for": for_s, "until": until}
    raw = payload.write({"class": "Job", "args": [], "jid": jid, "pyworkers": {"v": 1, "lock": lock}})
    delivery = Delivery(raw, "q", ME)
    delivery.message = Message(raw, "q")
    return delivery


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(State(), DeadLimits())
    broker.transport.publish([Push("q", running().payload, ties=(LockClaim(NAME, "1", 300),))])
    return broker


class Keeping:
    def __init__(self, broker: MemoryBroker) -> None:
        self.runs: list[Delivery] = []
        self.now = time.time()
        self.keeper = LockKeeper(broker.require_part(Locks), lambda: self.runs, lambda: self.now, Outage("it"))

    def look(self, *runs: Delivery) -> None:
        self.runs = [*runs]
        self.keeper.run_once()


@pytest.fixture
def keeping(broker: MemoryBroker) -> Keeping:
    return Keeping(broker)


def owner(broker: MemoryBroker) -> str:
    entry = broker.require_part(Locks).entry(NAME)
    assert entry is not None
    assert (entry.expires_at is None) == bool(entry.owner)
    return entry.owner


def test_the_lock_of_a_job_has_its_owner_while_the_job_runs(broker: MemoryBroker, keeping: Keeping) -> None:
    keeping.look()
    assert owner(broker) == ""
    keeping.look(running())
    assert owner(broker) == ME
    keeping.look()
    assert owner(broker) == ""  # no settlement did it


def test_a_lock_that_lasts_until_its_expiry_ends_then(broker: MemoryBroker, keeping: Keeping) -> None:
    keeping.look(running(until="expiry"))
    assert owner(broker) == ""


def failing(verb: Callable[..., Any], after: bool) -> Callable[..., Any]:
    def fail(*args: Any) -> Any:
        if after:
            verb(*args)
        raise BrokerUnavailable("down")

    return fail


@pytest.mark.parametrize("after", [False, True])
def test_an_owner_whose_reply_is_lost_is_written_again_and_given_up(
    broker: MemoryBroker, keeping: Keeping, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(broker.require_part(Locks), "own", failing(broker.require_part(Locks).own, after))
        with pytest.raises(BrokerUnavailable):
            keeping.look(running())
    assert owner(broker) == (ME if after else "")
    if after:
        keeping.look()
        assert owner(broker) == ""
    keeping.look(running())
    assert owner(broker) == ME


def test_a_job_whose_lock_another_one_has_is_told_once(
    broker: MemoryBroker, keeping: Keeping, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        keeping.look(running("2"))
        keeping.now += 1_000
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "unique job 2 runs without its lock Job"
    ]
    assert owner(broker) == ""
