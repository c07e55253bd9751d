"""A push that meets a lock looks for the job that holds it; a call of many pushes looks for all of them at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from harness import Process, can, job, part_of, waiting

from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.places import waiting_in
from goworkers_py.api.client import Client
from goworkers_py.api.push_part import Answer
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import DuplicateJob
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.core.outcome import Done
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.unique import holders as lock_holders
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.features.unique.holders import LockHolders
from goworkers_py.features.unique.lock import LockClaim, OnConflict
from goworkers_py.features.unique.push import LockCall, UniquePushes


class Publisher:
    def __init__(self, broker: Broker) -> None:
        self._client = Client(lambda: broker)
        self._part = UniquePushes(lambda: broker)
        self.call = self._part.begin

    def push(self, pushes: Sequence[Push], call: LockCall | None = None) -> Sequence[Answer]:
        answers = self._client._answers(pushes, [call or self.call()])
        return [True] * len(pushes) if answers is None else answers


@pytest.fixture
def publisher(me: Process) -> Publisher:
    part_of(me.broker, Locks)
    can(me.broker, Capability.ADMIN)
    return Publisher(me.broker)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The jobs of each search."""
    asked, absent = list[set[str]](), JobLookup.absent

    def look(self: JobLookup, jids: Collection[str]) -> set[str]:
        asked.extend([{*jids}] if jids else [])
        return absent(self, jids)

    monkeypatch.setattr(JobLookup, "absent", look)
    monkeypatch.setattr(lock_holders, "BETWEEN_LOOKS_S", 0.01)
    return asked


def push(jid: str, key: str, on_conflict: OnConflict = "skip") -> Push:
    return Push("q", job(jid), ties=(LockClaim(f"Job:{key}", jid, 60, on_conflict, fields=b"{}"),))


def end_all(me: Process, *keys: str) -> None:
    """Each job frees the lock of its key as it ends."""
    for delivery, key in zip(me.consume(len(keys)), keys, strict=True):
        [jid] = [jid for jid in "123456789" if job(jid) == delivery.payload]
        assert me.settle((delivery, Done(effects=(FreeLock(jid, f"Job:{key}"),)))) == [True]


def test_of_equal_locks_in_one_call_the_first_counts_however_soon_its_job_ends(
    me: Process, publisher: Publisher, looks: list[set[str]]
) -> None:
    call = publisher.call()
    assert list(publisher.push([push("1", "a"), push("2", "a"), push("3", "b")], call)) == [True, None, True]
    end_all(me, "a", "b")
    assert list(publisher.push([push("4", "a"), push("5", "c")], call)) == [None, True]  # the next slice of the call
    assert waiting(me.broker.admin) == [job("5")]
    assert list(publisher.push([push("6", "a")])) == [True]
    assert looks == []


def test_of_equal_locks_with_raise_the_others_are_pushed(me: Process, publisher: Publisher) -> None:
    with pytest.raises(DuplicateJob) as raised:
        publisher.push([push("1", "a", "raise"), push("2", "a", "raise"), push("3", "b", "raise")])
    assert raised.value.jid == "1"
    assert sorted(waiting(me.broker.admin)) == [job("1"), job("3")]


def test_with_replace_the_first_of_a_call_gets_the_newest_arguments_and_is_not_looked_for(
    me: Process, publisher: Publisher, looks: list[set[str]]
) -> None:
    call = publisher.call()
    assert list(publisher.push([push("1", "a", "replace"), push("2", "a", "replace")], call)) == [True, "1"]
    end_all(me, "a")
    assert list(publisher.push([push("3", "a", "replace")], call)) == [True]  # the newest arguments run
    assert looks == []


def test_a_holder_that_has_just_ended_is_not_waited_for(
    me: Process, publisher: Publisher, looks: list[set[str]]
) -> None:
    assert list(publisher.push([push("1", "a")])) == [True]
    [conflict] = me.broker.transport.publish([push("2", "a")])
    assert isinstance(conflict, Conflict)
    end_all(me, "a")
    assert LockHolders(me.broker).is_gone("Job:a", conflict.holder)
    assert looks == []


def test_all_holders_that_another_program_has_deleted_are_looked_for_at_once(
    me: Process, publisher: Publisher, looks: list[set[str]]
) -> None:
    first = [push(jid, key) for jid, key in zip("1234", "abcd", strict=True)]
    assert list(publisher.push(first)) == [True] * 4
    me.broker.admin.jobs_in(waiting_in("q")).clear()
    again: Sequence[Answer] = publisher.push([push(jid, key) for jid, key in zip("5678", "abcd", strict=True)])
    assert list(again) == [True] * 4
    assert looks == [{"1", "2", "3", "4"}] * 2
    assert sorted(waiting(me.broker.admin)) == [job(jid) for jid in "5678"]


def test_a_holder_is_found_wherever_it_is(me: Process, publisher: Publisher, looks: list[set[str]]) -> None:
    """The lock tells where it was when it was pushed."""
    held = {jid: Holder(jid, "another", 1.0) for jid in "1234"}
    assert list(publisher.push([push(jid, jid) for jid in "123"])) == [True] * 3
    me.consume(1)
    asked = [(f"Job:{jid}", held[jid]) for jid in "123"]
    if me.broker.part(Groups) is not None:
        member = GroupMembership(Group("q", "Job", "g"), GroupSettings(100.0))
        me.broker.transport.publish([Push("q", job("4"), ties=(LockClaim("Job:4", "4", 60), member))])
        asked.append(("Job:4", held["4"]))
    assert LockHolders(me.broker).gone(asked) == set()
    assert len(looks) == 1
