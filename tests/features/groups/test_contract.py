"""Groups: members wait in them, become sets, and end with the job that aggregates the set, each in one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from harness import Process, Processes, job, part_of, waiting
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.core.effect import Push, PushJobs, Tie, ties_of
from goworkers_py.core.outcome import DONE, Done, Joined, Requeue
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndMember, EndSet
from goworkers_py.features.groups.group import (
    DEFAULT_SETTINGS,
    DueGroups,
    Group,
    GroupMembership,
    GroupSettings,
    OwnSettings,
)
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.lock import LockClaim

GROUP = Group("q", "Job", "user:7")
SET = GROUP._replace(set="set-1")
AGGREGATION = job("aggregation", pyworkers={"v": 1, "needs": ["group"], "group": {"name": "user:7", "set": "set-1"}})
AT_ONCE = GroupSettings(grace_s=0.000001)


def push(
    jid: object, settings: GroupSettings = DEFAULT_SETTINGS, group: Group = GROUP, before: Tie | None = None
) -> Push:
    return Push("q", job(jid), ties=ties_of(before, GroupMembership(group, settings)))


@pytest.fixture
def groups(me: Process) -> Groups:
    return part_of(me.broker, Groups)


@pytest.fixture
def publish(me: Process) -> Callable[..., None]:
    def publish(*pushes: Push) -> None:
        assert set(me.broker.transport.publish(pushes)) <= {Published.PUSHED}

    return publish


def members(groups: Groups, group: Group = GROUP) -> list[bytes]:
    return groups.members(group, 0, 1_000)


def due(groups: Groups) -> list[Group]:
    return groups.due("Job", 100).groups


def flushed(groups: Groups, publish: Callable[..., None], *jids: object) -> list[Group]:
    """Groups these members and flushes them at once."""
    publish(*(push(jid, AT_ONCE) for jid in jids))
    assert eventually(lambda: due(groups) == [GROUP])
    assert groups.flush(GROUP, SET, AGGREGATION) == len(jids)
    return [SET]


def test_a_push_into_a_group_waits_there_and_not_in_its_queue(me: Process, groups: Groups, publish: Any) -> None:
    publish(push(1), push(2), Push("q", job("plain")))
    assert waiting(me.broker.admin) == [job("plain")]
    assert members(groups) == [job(1), job(2)]
    [entry] = groups.entries()
    assert (entry.group, entry.size, entry.settings) == (GROUP, 2, GroupSettings())
    assert entry.first == pytest.approx(time.time(), abs=20)
    assert entry.due == pytest.approx(time.time() + 60, abs=20)
    assert groups.due("Job", 10).groups == []
    assert groups.due("Other", 10) == DueGroups([], None)


def test_a_queue_that_gets_only_jobs_that_aggregate_is_listed(me: Process, groups: Groups, publish: Any) -> None:
    flushed(groups, publish, 1)
    assert [queue.name for queue in me.broker.admin.queues()] == ["q"]


def test_groups_are_apart_by_queue_class_and_name(groups: Groups, publish: Any) -> None:
    others = [GROUP, Group("q2", "Job", "user:7"), Group("q", "Job2", "user:7"), Group("q", 'Jo "b', "us\ner: 7|ä")]
    publish(*(push(at, group=group) for at, group in enumerate(others)))
    assert {entry.group for entry in groups.entries()} == set(others)
    assert [entry.group.job_class for entry in groups.entries("Job2")] == ["Job2"]
    assert [members(groups, group) for group in others] == [[job(at)] for at in range(4)]


def test_the_grace_slides_with_each_member(groups: Groups, publish: Any) -> None:
    publish(push(1, GroupSettings(grace_s=100)))
    before = groups.entry(GROUP)
    time.sleep(0.01)
    publish(push(2, GroupSettings(grace_s=100)))
    after = groups.entry(GROUP)
    assert before is not None
    assert after is not None
    assert before.due is not None
    assert after.due is not None
    assert after.due > before.due
    assert after.first == before.first


def test_the_longest_delay_holds_while_members_come(groups: Groups, publish: Any) -> None:
    publish(push(1, GroupSettings(100, 30)))
    first = groups.entry(GROUP)
    publish(push(2, GroupSettings(100, 30)))
    entry = groups.entry(GROUP)
    assert first is not None
    assert entry is not None
    assert entry.due == first.due == pytest.approx((entry.first or 0) + 30, abs=0.001)


def test_a_group_of_the_largest_size_is_due_and_the_next_member_begins_another_set(
    groups: Groups, publish: Any
) -> None:
    publish(*(push(at, GroupSettings(max_size=3)) for at in range(7)))
    sets = []
    while members(groups) != [job(6)] or due(groups):
        found = due(groups)
        into = found[0] if found[0].set else found[0]._replace(set=f"set-{len(sets)}")
        assert groups.flush(found[0], into, AGGREGATION) == 3
        sets.append(members(groups, into))
    assert sets == [[job(0), job(1), job(2)], [job(3), job(4), job(5)]]
    assert members(groups) == [job(6)]


def test_a_flush_makes_a_set_and_pushes_its_job_once(me: Process, groups: Groups, publish: Any) -> None:
    flushed(groups, publish, 1, 2)
    assert waiting(me.broker.admin) == [AGGREGATION]
    assert members(groups) == []
    assert members(groups, SET) == [job(1), job(2)]
    assert groups.flush(GROUP, GROUP._replace(set="other"), AGGREGATION) == 0
    assert groups.flush(SET, SET, AGGREGATION) == 0
    assert due(groups) == []
    [entry] = groups.entries()
    assert (entry.group, entry.size, entry.due) == (SET, 2, None)
    publish(push(3))
    assert members(groups) == [job(3)]


def test_a_group_that_is_not_due_is_not_flushed(me: Process, groups: Groups, publish: Any) -> None:
    publish(push(1))
    assert groups.flush(GROUP, SET, AGGREGATION) == 0
    assert members(groups) == [job(1)]
    assert waiting(me.broker.admin) == []


def test_of_flushes_at_the_same_time_one_happens(me: Process, groups: Groups, publish: Any) -> None:
    for at in range(20):
        group = GROUP._replace(name=f"race-{at}")
        publish(push(at, AT_ONCE, group))
        assert eventually(lambda group=group: group in due(groups))  # type: ignore[misc]
        with ThreadPoolExecutor(4) as flushers:
            sizes = flushers.map(
                lambda n, group=group: groups.flush(group, group._replace(set=f"{group.name}-{n}"), AGGREGATION),
                range(4),
            )
            assert sorted(sizes) == [0, 0, 0, 1]
    assert len(waiting(me.broker.admin)) == 20


def test_the_page_of_due_groups_has_the_earliest_first(groups: Groups, publish: Any) -> None:
    several = [GROUP._replace(name=str(at)) for at in range(5)]
    for group in several:
        publish(push(1, AT_ONCE, group))
        time.sleep(0.002)
    assert eventually(lambda: len(due(groups)) == 5)
    first, second = groups.due("Job", 3), groups.due("Job", 3, 3)
    assert [*first.groups, *second.groups] == due(groups)
    assert (first.next_in_s, second.next_in_s) == (0.0, None)
    assert groups.due("Job", 2) == DueGroups(several[:2], 0.0)


def test_the_time_until_the_next_group_is_told(groups: Groups, publish: Any) -> None:
    publish(push(1))
    next_in_s = groups.due("Job", 10).next_in_s
    assert next_in_s is not None
    assert 20 < next_in_s <= 60


def test_the_end_of_a_set_pushes_in_its_step(me: Process, groups: Groups, publish: Any) -> None:
    flushed(groups, publish, 1, 2)
    [delivery] = me.begin().consume(1)
    one = PushJobs("aggregation", (Push("q", job("one")),))
    me.settle((delivery, Done(effects=(EndSet("aggregation", SET, (one,)),))))
    assert waiting(me.broker.admin) == [job("one")]
    assert list(groups.entries()) == []
    assert members(groups, SET) == []


ENDED_SET = SET._replace(set=f"{SET.set}-ended")


def test_members_that_are_too_many_for_a_step_wait_in_another_set(me: Process, groups: Groups, publish: Any) -> None:
    flushed(groups, publish, 1, 2, 3)
    [delivery] = me.begin().consume(1)
    one = PushJobs("aggregation", (Push("r", job("one")),))
    me.settle((delivery, Requeue(job("rest"), effects=(EndSet("aggregation", SET, (one,), ENDED_SET),))))
    assert members(groups, SET) == []
    assert members(groups, ENDED_SET) == [job(1), job(2), job(3)]
    assert [entry.group for entry in groups.entries()] == [ENDED_SET]
    assert due(groups) == []
    [rest] = me.consume(1)
    ends = EndMember("aggregation", SET, job(1)), *(EndMember("aggregation", ENDED_SET, job(n)) for n in (1, 3))
    me.settle((rest, Requeue(effects=ends)))
    assert members(groups, ENDED_SET) == [job(2)]
    [rest] = me.consume(1)
    me.settle((rest, Done(effects=(EndMember("aggregation", ENDED_SET, job(2)), EndSet("aggregation", ENDED_SET)))))
    assert list(groups.entries()) == []


def test_a_second_aggregation_of_a_set_does_not_touch_the_set_in_which_its_members_wait(
    me: Process, groups: Groups, publish: Any
) -> None:
    flushed(groups, publish, 1, 2)
    assert groups.make_due(SET)
    assert groups.flush(SET, SET, AGGREGATION) == 2
    for at, delivery in enumerate(me.begin().consume(2)):
        one = PushJobs("aggregation", (Push("r", job(f"one-{at}")),))
        me.settle((delivery, Done(effects=(EndSet("aggregation", SET, (one,), ENDED_SET),))))
    assert waiting(me.broker.admin, "r") == [job("one-0")]
    assert members(groups, ENDED_SET) == [job(1), job(2)]


def test_the_effects_of_a_member_happen_with_its_end(me: Process, groups: Groups, publish: Any) -> None:
    flushed(groups, publish, 1)
    [delivery] = me.begin().consume(1)
    notes = [NoteState(TrackedJob(jid, "Job"), "completed", "", 60) for jid in ("there", "elsewhere")]
    ends = EndMember("aggregation", SET, job(1), (notes[0],)), EndMember("aggregation", SET, job(2), (notes[1],))
    me.settle((delivery, Done(effects=ends)))
    assert me.broker.require_part(Records).record("there") is not None
    assert me.broker.require_part(Records).record("elsewhere") is None


def test_a_set_ends_once(me: Process, groups: Groups, publish: Any) -> None:
    flushed(groups, publish, 1, 2)
    assert groups.make_due(SET)  # its job is thought to be lost
    assert due(groups) == [SET]
    assert groups.flush(SET, SET, AGGREGATION) == 2
    deliveries = me.begin().consume(2)
    for at, delivery in enumerate(deliveries):
        one = PushJobs("aggregation", (Push("q", job(f"one-{at}")),))
        me.settle((delivery, Done(effects=(EndSet("aggregation", SET, (one,)),))))
    assert waiting(me.broker.admin) == [job("one-0")]


def test_a_settlement_of_a_job_that_was_recovered_ends_no_set(start: Processes, groups: Groups, publish: Any) -> None:
    me = start()
    flushed(groups, publish, 1)
    [delivery] = me.begin().consume(1)
    me.settle((delivery, DONE))
    one = PushJobs("aggregation", (Push("q", job("one")),))
    me.settle((delivery, Done(effects=(EndSet("aggregation", SET, (one,)),))))
    assert waiting(me.broker.admin) == []
    assert members(groups, SET) == [job(1)]


def test_a_member_that_is_met_in_a_queue_joins_in_the_step_of_its_settlement(
    me: Process, groups: Groups, publish: Any
) -> None:
    publish(Push("q", job(1)))
    [delivery] = me.begin().consume(1)
    me.settle((delivery, Joined(effects=(PushJobs("1", (push(1),)),))))
    assert members(groups) == [job(1)]
    assert waiting(me.broker.admin) == []
    stats = me.broker.admin.stats()
    assert (stats.processed, stats.failed) == (0, 0)
    me.settle((delivery, Joined(effects=(PushJobs("1", (push(1),)),))))  # not in progress any more
    assert members(groups) == [job(1)]


def test_settings_of_one_group_hold_at_once_and_while_it_is_empty_asynq_516(
    me: Process, groups: Groups, publish: Any
) -> None:
    groups.configure(GROUP, OwnSettings(max_size=2))
    [entry] = groups.entries()
    assert (entry.size, entry.own.max_size, entry.due) == (0, 2, None)
    publish(*(push(at) for at in range(3)))
    [found] = due(groups)
    assert groups.flush(found, found._replace(set=found.set or "set-1"), AGGREGATION) == 2
    assert members(groups) == [job(2)]
    groups.configure(GROUP, OwnSettings(grace_s=0.000001))
    assert eventually(lambda: due(groups) == [GROUP])
    assert groups.flush(GROUP, GROUP._replace(set="set-9"), AGGREGATION) == 1
    assert GROUP in [entry.group for entry in groups.entries()]
    groups.configure(GROUP, OwnSettings())
    assert GROUP not in [entry.group for entry in groups.entries()]


def test_a_group_is_made_due_by_hand(groups: Groups, publish: Any) -> None:
    assert not groups.make_due(GROUP)
    publish(push(1))
    assert groups.make_due(GROUP)
    assert eventually(lambda: due(groups) == [GROUP])


def test_members_are_deleted_and_taken_out(me: Process, groups: Groups, publish: Any) -> None:
    publish(push(1, before=RecordTie(TrackedJob("1", "Job"))), push(2), push(3))
    assert groups.take_out(GROUP, job(1), "cancelled")
    assert not groups.take_out(GROUP, job(1), "cancelled")
    record = me.broker.require_part(Records).record("1")
    assert record is not None
    assert (record.state, record.timeline[-1].reason) == ("cancelled", "cancelled")
    assert members(groups) == [job(2), job(3)]
    assert groups.delete(GROUP) == 2
    assert list(groups.entries()) == []
    flushed(groups, publish, 4)
    assert groups.delete(SET) == 1
    assert list(groups.entries()) == []


def test_the_record_of_a_tracked_member_says_its_group(me: Process, publish: Any, groups: Groups) -> None:
    publish(push(1, before=RecordTie(TrackedJob("1", "Job"))))
    record = me.broker.require_part(Records).record("1")
    assert record is not None
    assert (record.state, record.queue, record.group) == ("grouped", "q", "user:7")
    assert me.broker.transport.publish([push(1, before=RecordTie(TrackedJob("1", "Job")))]) == [Published.DUPLICATE]
    assert members(groups) == [job(1)]


def test_a_member_whose_lock_another_job_holds_does_not_join(me: Process, groups: Groups, publish: Any) -> None:
    publish(push(1, before=LockClaim("Job:one", "1", 60)))
    [met] = me.broker.transport.publish([push(2, before=LockClaim("Job:one", "2", 60))])
    assert getattr(met, "how", "") == "held"
    assert members(groups) == [job(1)]


def test_a_known_id_does_not_join_again(me: Process, groups: Groups, publish: Any) -> None:
    once = replace(push(1), id="known")
    assert me.broker.transport.publish([once, once]) == [Published.PUSHED, Published.DUPLICATE]
    assert members(groups) == [job(1)]


def test_many_members_are_read_in_pages(groups: Groups, publish: Any) -> None:
    publish(*(push(at) for at in range(25)))
    pages: list[Sequence[bytes]] = [groups.members(GROUP, first, 10) for first in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [one for page in pages for one in page] == [job(at) for at in range(25)]
