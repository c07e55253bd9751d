"""The elector, step by step: the test is both its thread and the thread of the terms."""

from __future__ import annotations

import logging
import time

import pytest

from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.fence import Fence
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Standing
from goworkers_py.features.standby.elector import Elector
from goworkers_py.features.standby.elector import log as elector_log
from goworkers_py.features.standby.memory import MemoryLeadership
from goworkers_py.runtime.outage import Outage

LEASE_S = 30.0
FIRST, SECOND = "first:1:aaaaaaaaaaaa", "second:1:bbbbbbbbbbbb"


@pytest.fixture
def leadership() -> Leadership:
    return MemoryBroker(State(), DeadLimits()).require_part(Leadership)


def elector_of(leadership: Leadership) -> Elector:
    return Elector(leadership, Config(leader_lease=LEASE_S), Outage("memory"))


def step_until_won(elector: Elector, fence: Fence) -> None:
    for _ in range(10):
        if fence.epoch:
            return
        time.sleep(min(elector.run_once(), 0.5))
    pytest.fail("it does not bid")


def lead(elector: Elector) -> Fence:
    fence = Fence("main", "first token")
    elector.offer(FIRST, fence)
    step_until_won(elector, fence)
    elector.run_once()
    return fence


@pytest.mark.parametrize("verb", ["look", "resign"])
def test_the_next_term_that_is_offered_while_the_last_one_resigns_is_bid_for(
    leadership: Leadership, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The thread of the terms waits for the farewell no longer than a lease, and the broker answers just then."""
    elector, second = elector_of(leadership), Fence("main", "second token")
    first = lead(elector)
    real = getattr(leadership, verb)

    def answer_late(*args: object) -> object:
        monkeypatch.setattr(leadership, verb, real)
        answer = real(*args)
        elector.offer(SECOND, second)
        return answer

    monkeypatch.setattr(leadership, verb, answer_late)
    elector.finished(0)
    elector.run_once()
    assert first.fallen == "this leader has resigned"
    assert not elector.leads
    step_until_won(elector, second)
    assert second.holds
    assert elector.standing.leader is not None
    assert elector.standing.leader.identity == SECOND


def test_a_term_that_has_ended_is_renewed_no_more_when_the_next_one_is_offered(leadership: Leadership) -> None:
    elector, second = elector_of(leadership), Fence("main", "second token")
    first = lead(elector)
    elector.finished(0)
    elector.offer(SECOND, second)
    elector.run_once()
    assert first.fallen == "this leader has resigned"
    step_until_won(elector, second)


def test_the_loss_of_a_term_leaves_the_next_one_to_be_bid_for(
    leadership: Leadership, monkeypatch: pytest.MonkeyPatch
) -> None:
    elector, second = elector_of(leadership), Fence("main", "second token")
    first = lead(elector)

    def fail(election: str) -> Standing:
        raise BrokerUnavailable("no answer")

    elector.finished(0)
    elector.offer(SECOND, second)
    monkeypatch.setattr(leadership, "look", fail)
    with pytest.raises(BrokerUnavailable):
        elector.run_once()
    first.hold(0.0)  # its lease ends
    elector.after_failure()
    assert (first.fallen, second.fallen) == ("its lease could not be renewed in time", "")
    assert not elector.leads
    monkeypatch.undo()
    assert isinstance(leadership, MemoryLeadership)
    leadership.resign("main", first, FIRST)  # as if it had ended by the server's clock
    step_until_won(elector, second)


def test_a_lost_term_is_not_bid_for_again(leadership: Leadership) -> None:
    """Its work has not ended yet."""
    elector = elector_of(leadership)
    first = lead(elector)
    leadership.resign("main", first, FIRST)
    for _ in range(3):
        elector.run_once()
    assert first.fallen
    elector._cool_until = 0.0
    elector.run_once()
    assert not elector.leads
    assert leadership.look("main").leader is None
    elector.finished(0)


def test_a_new_term_is_waited_for_though_an_earlier_one_has_ended(
    leadership: Leadership, monkeypatch: pytest.MonkeyPatch
) -> None:
    elector, second = elector_of(leadership), Fence("main", "second token")
    lead(elector)
    elector.finished(0)
    elector.offer(SECOND, second)
    elector.run_once()
    assert elector._resigned.is_set()
    step_until_won(elector, second)
    assert not elector._resigned.is_set()


def test_a_lost_term_is_over_though_a_filter_of_the_log_raises(
    leadership: Leadership, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: logging.LogRecord) -> bool:
        raise ZeroDivisionError

    elector = elector_of(leadership)
    first = lead(elector)
    leadership.resign("main", first, FIRST)
    monkeypatch.setattr(elector_log, "filters", [fail])
    with pytest.raises(ZeroDivisionError):
        elector.run_once()
    assert first.fallen
