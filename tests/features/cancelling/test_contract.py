"""Tombstones of jobs that are to be cancelled."""

from __future__ import annotations

import time

import pytest
from harness import Process, job, jobs, part_of, waiting
from waiting import eventually

from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import Cancelled, Requeue
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.effects import MeetTombstone
from goworkers_py.wire.stored_job import StoredJob

QUEUE = Place(JobState.WAITING, "q")
AGE_S = 3_600.0  # no test lasts so long


@pytest.fixture
def cancels(me: Process) -> Cancels:
    return part_of(me.broker, Cancels)


def laid(cancels: Cancels) -> dict[str, bool]:
    told = cancels.all("?")
    assert told is not None
    assert all(abs(one.at - time.time()) < AGE_S for one in told[1].values())
    return {jid: one.retry for jid, one in told[1].items()}


def test_a_tombstone_stands_until_it_is_withdrawn(cancels: Cancels) -> None:
    version, none = cancels.all("?") or ("", {})
    assert (none, cancels.all(version)) == ({}, None)
    asked = cancels.ask("one", False)
    cancels.ask("two", True)
    assert laid(cancels) == {"one": False, "two": True}
    assert cancels.all(version) is not None, "the version has changed"
    assert (cancels.stands("one"), cancels.stands("three")) == (True, False)
    cancels.withdraw("one", asked)
    assert laid(cancels) == {"two": True}
    assert not cancels.stands("one")


def test_nobody_withdraws_the_tombstone_of_another(cancels: Cancels) -> None:
    mine = cancels.ask("one", False)
    weaker = cancels.ask("one", True)
    assert laid(cancels) == {"one": False}, "a cancel is not weakened to an interruption"
    cancels.withdraw("one", weaker)
    assert laid(cancels) == {"one": False}
    later = cancels.ask("one", False)
    cancels.withdraw("one", mine)
    assert laid(cancels) == {"one": False}, "that of the later caller"
    cancels.withdraw("one", later)
    assert laid(cancels) == {}
    cancels.ask("one", True)
    cancels.ask("one", False)
    assert laid(cancels) == {"one": False}, "an interruption becomes a cancel"


def test_the_settlement_that_meets_a_tombstone_removes_it_and_tells(me: Process, cancels: Cancels) -> None:
    me.publish(job("one"), job("two"))
    one, two = me.consume(2)
    cancels.ask("one", False)
    told: list[str] = []
    stop = cancels.watch("one", told.append)
    assert eventually(lambda: len(told) == 1), "the watch has begun"
    me.settle((two, Cancelled(effects=(MeetTombstone("two", "cancelled"),))))
    me.settle((one, Cancelled(effects=(MeetTombstone("one", "cancelled"),))))
    assert eventually(lambda: len(told) > 1)
    stop()
    assert (cancels.answer("one"), laid(cancels)) == ("cancelled", {})
    assert not cancels.answer("two"), "it had none"
    cancels.ask("one", False)
    assert not cancels.answer("one"), "the answer is about another run"


def test_a_second_cancel_leaves_the_answer_of_the_first(me: Process, cancels: Cancels) -> None:
    me.publish(job("one"))
    [one] = me.consume(1)
    cancels.ask("one", False)
    cancels.ask("one", False)
    me.settle((one, Requeue(effects=(MeetTombstone("one", "waiting"),))))
    assert cancels.answer("one") == "waiting"


def test_who_listens_is_told_of_a_tombstone(cancels: Cancels) -> None:
    told: list[int] = []
    stop = cancels.listen(lambda: told.append(1))
    assert eventually(lambda: len(told) == 1)
    cancels.ask("one", False)
    assert eventually(lambda: len(told) == 2)
    stop()


def test_no_job_is_taken_out_of_a_queue_that_has_become_empty(me: Process, admin: Admin) -> None:
    me.publish(job(1))
    me.consume(1)
    assert not admin.jobs_in(QUEUE).take_out(StoredJob(job(1), "q"), 0)


@pytest.mark.parametrize("fetched", [0, 1, 2, 3])
def test_a_job_is_taken_out_of_a_queue_that_has_moved_on(me: Process, admin: Admin, fetched: int) -> None:
    """Of a queue that has become shorter than its place, too; no other job is deleted."""
    first, second, third = jobs(3)
    me.publish(first, second, third)
    me.consume(fetched) if fetched else None
    me.publish(job("late"))
    there = fetched < 3
    assert admin.jobs_in(QUEUE).take_out(StoredJob(third, "q"), 2) == there
    assert waiting(admin) == [*[first, second][fetched:], job("late")]
