"""The index of tracked jobs that have ended: each end of a job is listed in the step that writes it into the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest
from harness import DEAD, PARKED, RETRIES, SCHEDULED, Process, Processes, job, part_of
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.core.effect import Push, Tie
from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.core.outcome import Cancelled, Dead, Done, Expired, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndSet
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.tracking.contract import EndedPlace, Records
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.tie import RecordTie

LATER = 4_000_000_000.5  # in 2096
GROUP = Group("q", "Job", "user:7")


def push(jid: object, *others: Tie, instead_of: str = "") -> Push:
    return Push("q", job(jid, track=True), ties=(RecordTie(TrackedJob(str(jid), "Job"), instead_of), *others))


def note(state: StateWord, jid: object, life_s: int = 60, **fields: str) -> NoteState:
    return NoteState(TrackedJob(str(jid), ""), state, "a reason", life_s, tuple(fields.items()))


def completed(jid: object, **how: object) -> Done:
    return Done(effects=(note("completed", jid, **how),))  # type: ignore[arg-type]


@pytest.fixture
def publish(me: Process, records: Records) -> Callable[..., None]:
    return lambda *pushes: me.broker.transport.publish(pushes)


@pytest.fixture
def end(me: Process, publish: Publish) -> Callable[..., None]:
    """Pushes a job for each of these ends, and ends them all in one step."""

    def end(*ends: tuple[object, Outcome]) -> None:
        publish(*(push(jid) for jid, _ in ends))
        outcomes = {str(jid): outcome for jid, outcome in ends}
        taken = me.consume(len(ends))
        me.settle(*((one, outcomes[jid]) for one, jid in zip(taken, outcomes, strict=True)))

    return end


@pytest.fixture
def ended(records: Records) -> Callable[..., list[str]]:
    return lambda state="completed", limit=1_000: [one.jid for one in records.ended(state, None, limit).records]


Publish = Callable[..., None]
End = Callable[..., None]
Ended = Callable[..., list[str]]


def test_jobs_are_listed_by_the_state_in_which_they_have_ended(
    me: Process, end: End, ended: Ended, records: Records
) -> None:
    ends: list[tuple[str, Outcome]] = [
        ("a", completed("a")),
        ("b", Cancelled(effects=(note("cancelled", "b"),))),
        ("c", Expired(effects=(note("expired", "c"),))),
        ("d", Dead(job("d", track=True), effects=(note("dead", "d"),))),
        ("e", Retry(LATER, job("e", track=True), effects=(note("retry", "e", due=repr(LATER)),))),
        ("f", Requeue(effects=(note("waiting", "f"),))),
        ("g", completed("g")),
    ]
    end(*ends)
    me.publish(job("plain"))
    [one] = me.consume(1)
    me.settle((one, Done()))
    assert {state: sorted(ended(state)) for state in INDEXED} == {
        "completed": ["a", "g"], "cancelled": ["b"], "expired": ["c"],
    }  # fmt: skip
    page = records.ended("completed", None, 10)
    assert (page.total, page.next) == (2, None)
    [record] = records.ended("expired", None, 10).records
    assert record == records.record("c")


def test_the_job_that_has_ended_last_comes_first(end: End, ended: Ended) -> None:
    for jid in "bca":
        end((jid, completed(jid)))
    assert ended() == ["a", "c", "b"]


def test_a_delivery_that_is_not_ours_any_more_is_not_listed(
    me: Process, start: Processes, publish: Publish, ended: Ended
) -> None:
    publish(*map(push, "abc"))
    one, two, three = me.consume(3)
    me.settle((two, Requeue(effects=(note("waiting", "b"),))))
    me.settle((one, completed("a")), (two, completed("b")), (three, completed("c")))
    assert sorted(ended()) == ["a", "c"]


def test_a_job_without_a_record_that_is_noted_only_if_it_has_one_is_not_listed(
    me: Process, publish: Publish, ended: Ended, records: Records
) -> None:
    me.publish(job("a"))
    [one] = me.consume(1)
    me.settle((one, Expired(effects=(note("expired", "a")._replace(only_known=True),))))
    assert records.record("a") is None
    assert ended("expired") == []


def changed(steps: Iterable[tuple[int, object]]) -> None:
    for _ in steps:
        pass


@pytest.mark.parametrize("place", [SCHEDULED, RETRIES, PARKED, waiting_in("q"), DEAD])
def test_a_job_that_people_delete_is_listed_as_cancelled(
    me: Process, publish: Publish, ended: Ended, place: Place
) -> None:
    publish(push("a"))
    [one] = me.consume(1)
    raw = job("a", track=True)
    me.settle((one, {
        SCHEDULED: Reschedule(LATER, raw, effects=(note("scheduled", "a", due=repr(LATER)),)),
        RETRIES: Retry(LATER, raw, effects=(note("retry", "a", due=repr(LATER)),)),
        PARKED: Park("line", effects=(note("waiting", "a"),)),
        waiting_in("q"): Requeue(effects=(note("waiting", "a", queue="q"),)),
        DEAD: Dead(raw, effects=(note("dead", "a"),)),
    }[place]))  # fmt: skip
    me.publish(job("plain"))
    changed(Inspector(lambda: me.broker).delete(place, Filter()))
    assert ended("cancelled") == ([] if place is DEAD else ["a"]), "a dead job has ended before"


def test_a_member_of_a_group_is_listed_when_it_is_deleted_and_when_its_set_has_ended(
    me: Process, publish: Publish, ended: Ended
) -> None:
    groups = part_of(me.broker, Groups)
    publish(push("a", GroupMembership(GROUP)), push("b", GroupMembership(GROUP)))
    assert groups.take_out(GROUP, job("a", track=True), "deleted")
    assert ended("cancelled") == ["a"]
    groups.delete(GROUP)
    assert sorted(ended("cancelled")) == ["a", "b"]
    publish(push("c", GroupMembership(GROUP, GroupSettings(grace_s=0.000001))))
    into = GROUP._replace(set="set-1")
    aggregation = job("aggregation", pyworkers={"v": 1, "needs": ["group"]})
    assert eventually(lambda: groups.flush(GROUP, into, aggregation) == 1)
    [one] = me.consume(1)
    me.settle((one, Done(effects=(EndSet("aggregation", into, (note("completed", "c"),)),))))
    assert ended() == ["c"]


# --- what the record says counts


def test_a_job_that_is_pushed_anew_is_listed_when_it_has_ended_again(
    me: Process, end: End, publish: Publish, ended: Ended, records: Records
) -> None:
    end(("a", completed("a")), ("b", completed("b")))
    first = records.record("a")
    assert first is not None
    publish(push("a", instead_of=first.version))
    assert ended() == ["b"]
    [one] = me.consume(1)
    me.settle((one, Cancelled(effects=(note("cancelled", "a"),))))
    assert (ended(), ended("cancelled")) == (["b"], ["a"])
    second = records.record("a")
    assert second is not None
    publish(push("a", instead_of=second.version))
    [one] = me.consume(1)
    me.settle((one, completed("a")))
    assert (ended(), ended("cancelled")) == (["a", "b"], [])
    assert records.ended("completed", None, 10).total == 2


def test_a_job_whose_record_is_over_leaves_the_list(end: End, ended: Ended, records: Records) -> None:
    began = time.monotonic()
    end(("a", completed("a", life_s=1)), ("b", completed("b")))
    assert sorted(ended()) == ["a", "b"] or time.monotonic() > began + 0.9, "or its life is over"
    assert eventually(lambda: ended() == ["b"])
    assert records.ended("completed", None, 10).total == 1


def test_a_result_is_not_read_with_the_list(end: End, records: Records) -> None:
    end(("a", completed("a", result="[1]" * 1_000)), ("b", completed("b", result="1")), ("c", completed("c")))
    found = {one.jid: one.result for one in records.ended("completed", None, 10).records}
    assert found == {"a": b"", "b": b"", "c": None}


def test_a_long_class_is_read_whole(me: Process, publish: Publish, records: Records) -> None:
    name = "Namespace::" * 30
    publish(push("a"))
    [one] = me.consume(1)
    me.settle((one, Done(effects=(NoteState(TrackedJob("a", name), "completed", "", 60),))))
    assert [one.job_class for one in records.ended("completed", None, 10).records] == [name]


# --- pages


def test_pages_show_each_job_once_while_others_end(end: End, records: Records) -> None:
    jids = [f"{number:03}" for number in range(60)]
    end(*((jid, completed(jid)) for jid in jids[:30]))  # of one time
    end(*((jid, completed(jid)) for jid in jids[30:]))
    place, seen = None, list[str]()
    while True:
        page = records.ended("completed", place, 7)
        seen += [one.jid for one in page.records]
        end((f"new-{len(seen)}", completed(f"new-{len(seen)}")))
        if page.next is None:
            break
        assert len(page.records) <= 7
        place = page.next
    assert sorted(seen) == jids
    assert set(seen[:30]) == set(jids[30:])


def test_a_page_goes_on_behind_a_job_that_has_left_the_list(
    end: End, publish: Publish, ended: Ended, records: Records
) -> None:
    end(*((jid, completed(jid)) for jid in "abcd"))
    everything = ended()
    page = records.ended("completed", None, 2)
    assert page.next is not None
    record = records.record(page.next.jid)
    assert record is not None
    publish(push(page.next.jid, instead_of=record.version))
    assert [one.jid for one in records.ended("completed", page.next, 10).records] == everything[2:]
    assert records.ended("completed", EndedPlace(1.0, "a"), 10).records == []


def test_the_inspector_goes_on_where_a_page_has_ended(me: Process, end: End, ended: Ended) -> None:
    end(*((jid, completed(jid)) for jid in "abc-"))
    inspector = Inspector(lambda: me.broker)
    first = inspector.ended("completed", limit=3)
    last = inspector.ended("completed", after=first.next, limit=3)
    assert [one.jid for one in [*first.jobs, *last.jobs]] == ended()
    assert (first.total, last.next) == (4, "")
    assert {(one.state, one.verified, one.tracked) for one in first.jobs} == {("completed", True, True)}
