"""The records of tracked jobs: each move of a job writes its record in the same step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

import pytest
from harness import DEAD, PARKED, RETRIES, SCHEDULED, Process, Processes, job, stored, waiting
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.admin import Admin, Change, Place
from goworkers_py.brokers.contracts.recoverable import FoundJob, Recoverable
from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.errors import PoisonPill
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import Dead, Discard, Done, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.features.tracking.contract import Records, RunningMark
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.features.tracking.record import MOST_MOVES
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.job_record import JobRecord

LATER = 4_000_000_000.5  # in 2096


def tracked(jid: object = 1, **fields: object) -> bytes:
    return job(jid, track=True, **fields)


def push(jid: object = 1, queue: str = "q", at: float | None = None, push_id: str = "") -> Push:
    return Push(queue, tracked(jid), at, push_id, (RecordTie(TrackedJob(str(jid), "Job")),))


def note(state: str, jid: object = 1, life_s: int = 60, **fields: str) -> NoteState:
    return NoteState(TrackedJob(str(jid), ""), state, "a reason", life_s, tuple(fields.items()))  # type: ignore[arg-type]


@pytest.fixture
def publish(me: Process, records: Records) -> Callable[..., list[Published]]:
    return lambda *pushes: list(me.broker.transport.publish(pushes))


@pytest.fixture
def record(records: Records) -> Callable[..., JobRecord]:
    def read(jid: object = 1) -> JobRecord:
        found = records.record(str(jid))
        assert found is not None
        return found

    return read


Publish = Callable[..., list[Published]]
Read = Callable[..., JobRecord]


def moves(record: JobRecord) -> list[str]:
    return [move.state for move in record.timeline]


# --- a push


def test_a_tracked_push_makes_the_record(publish: Publish, record: Read, admin: Admin) -> None:
    before = admin.now()
    assert publish(push(), push(2, at=LATER)) == [Published.PUSHED] * 2
    assert (record().state, record().queue, record().job_class, record().moves) == ("waiting", "q", "Job", 1)
    assert before <= record().at <= admin.now()
    assert (record(2).state, float(record(2).due), moves(record(2))) == ("scheduled", LATER, ["scheduled"])
    assert (waiting(admin), stored(admin, SCHEDULED)) == ([tracked(1)], [tracked(2)])


def test_a_second_push_of_a_tracked_job_is_a_duplicate(publish: Publish, record: Read, admin: Admin) -> None:
    assert publish(push(), push(), push(2)) == [Published.PUSHED, Published.DUPLICATE, Published.PUSHED]
    assert publish(push(at=LATER), push(queue="r")) == [Published.DUPLICATE] * 2
    assert (waiting(admin), admin.queue("r"), stored(admin, SCHEDULED)) == ([tracked(1), tracked(2)], None, [])
    assert moves(record()) == ["waiting"]


def test_an_id_and_a_record_both_make_a_duplicate(publish: Publish, admin: Admin) -> None:
    assert publish(push(1, push_id="id")) == [Published.PUSHED]
    assert publish(push(2, push_id="id"), push(1, push_id="other")) == [Published.DUPLICATE] * 2
    assert waiting(admin) == [tracked(1)]


def test_a_job_that_is_not_tracked_has_no_record(me: Process, records: Records) -> None:
    me.publish(job(1))
    [one] = me.consume(1)
    me.settle((one, Done()))
    assert records.record("1") is None


# --- a settlement


def two_lost(
    me: Process, start: Processes, publish: Publish, jobs: int
) -> tuple[Process, list[Delivery], list[Delivery]]:
    """Of so many tracked jobs, a process that seemed dead has lost the first two, and the others are in progress here.
    Returns that process, its deliveries and ours."""
    publish(*(push(number) for number in range(jobs)))
    dead = start()
    lost, mine = dead.consume(2), me.consume(jobs - 2)
    start.expire(dead)
    me.recover(proof="")
    return dead, lost, mine


def test_of_jobs_that_are_settled_together_only_those_that_were_ours_are_noted(
    me: Process, start: Processes, publish: Publish, record: Read, admin: Admin
) -> None:
    dead, lost, mine = two_lost(me, start, publish, 6)
    ends = [
        (one, Done(effects=(note("completed", number, **{"result": str(number)} if number % 2 else {}),)))
        for number, one in enumerate([*lost, *mine])
    ]
    plain = job("plain")
    me.publish(plain)
    [other] = me.consume(1)
    dead.settle(*ends[:2])
    me.settle(*ends[2:4], (other, Done()), *ends[4:])
    assert [record(number).state for number in range(6)] == ["waiting"] * 2 + ["completed"] * 4
    assert [record(number).result for number in range(2, 6)] == [None, b"3", None, b"5"]
    assert len(waiting(admin)) == 2


def test_of_many_jobs_that_are_settled_together_the_last_ones_are_told_apart_too(
    me: Process, start: Processes, publish: Publish, record: Read
) -> None:
    _, lost, mine = two_lost(me, start, publish, 300)
    ends = [(one, Done(effects=(note("completed", number),))) for number, one in enumerate([*lost, *mine])]
    me.settle(*ends[2:], *ends[:2])
    assert [record(number).state for number in range(300)] == ["waiting"] * 2 + ["completed"] * 298


def test_jobs_of_several_classes_that_are_settled_together_keep_their_classes(
    me: Process, publish: Publish, record: Read
) -> None:
    publish(*(push(number) for number in range(4)))
    classes = ["A", "B", "", "A"]
    ends = [
        (one, Done(effects=(NoteState(TrackedJob(str(number), classes[number]), "completed", "", 60),)))
        for number, one in enumerate(me.consume(4))
    ]
    me.settle(*ends)
    assert [record(number).job_class for number in range(4)] == ["A", "B", "Job", "A"], "one that is not known stays"


def test_a_job_that_has_left_before_is_not_noted_among_others_of_its_list(
    me: Process, publish: Publish, record: Read
) -> None:
    publish(*(push(number) for number in range(3)))
    one, two, three = me.consume(3)
    me.settle((two, Requeue(effects=(note("waiting", 1),))))
    before = record(1).version
    ends = [(each, Done(effects=(note("completed", number),))) for number, each in enumerate((one, two, three))]
    assert me.settle(*ends) == [True, False, True]
    assert [record(number).state for number in range(3)] == ["completed", "waiting", "completed"]
    assert record(1).version == before


ENDS: dict[str, tuple[Outcome, str]] = {
    "completed": (Done(effects=(note("completed", result='{"a":1}'),)), "completed"),
    "retry": (Retry(LATER, tracked(), effects=(note("retry", due=repr(LATER), error_class="E"),)), "retry"),
    "dead": (Dead(tracked(), effects=(note("dead", error_class="E"),)), "dead"),
    "discarded": (Discard(effects=(note("dead", due=""),)), "dead"),
    "requeue": (Requeue(effects=(note("waiting", queue="q"),)), "waiting"),
    "reschedule": (Reschedule(LATER, tracked(), effects=(note("scheduled", due=repr(LATER)),)), "scheduled"),
    "park": (Park("line", effects=(note("waiting"),)), "waiting"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_settlement_writes_the_record_in_the_same_step(me: Process, publish: Publish, record: Read, how: str) -> None:
    publish(push())
    [one] = me.consume(1)
    outcome, state = ENDS[how]
    assert me.settle((one, outcome)) == [True]
    assert (record().state, moves(record())) == (state, ["waiting", state])
    assert record().result == (b'{"a":1}' if how == "completed" else None)
    verified = JobLookup(me.broker).status("1")
    assert (verified.state, verified.verified, verified.tracked) == (state, True, True)


def test_a_delivery_that_is_not_ours_any_more_writes_no_record(me: Process, publish: Publish, record: Read) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, Requeue()))
    assert me.settle((one, ENDS["completed"][0])) == [False]
    assert record().state == "waiting"


def test_a_record_that_was_not_made_by_a_push_begins_with_the_run(me: Process, record: Read) -> None:
    me.publish(job(1))
    [one] = me.consume(1)
    me.settle((one, ENDS["completed"][0]))
    assert (record().state, moves(record())) == ("completed", ["completed"])


def test_a_record_ends_with_its_life(me: Process, publish: Publish, records: Records, admin: Admin) -> None:
    publish(push())
    [one] = me.consume(1)
    began = time.monotonic()
    me.settle((one, Done(effects=(note("completed", life_s=1),))))
    assert records.record("1") is not None or time.monotonic() > began + 0.9, "or its life is over"
    assert eventually(lambda: records.record("1") is None)
    assert publish(push()) == [Published.PUSHED], "the jid is free again"
    assert waiting(admin) == [tracked(1)]


def test_a_job_that_pushes_tracked_jobs_makes_their_records(
    me: Process, publish: Publish, record: Read, admin: Admin
) -> None:
    publish(push(), push(2))
    [one] = me.consume(1)
    pushed = PushJobs("1", (push(3), push(2), push(4, at=LATER), Push("q", job("plain"))))
    assert me.settle((one, Done(effects=(pushed, note("completed"))))) == [True]
    assert sorted(waiting(admin)) == sorted([tracked(2), tracked(3), job("plain")]), "2 was there before"
    assert [record(jid).state for jid in (1, 2, 3, 4)] == ["completed", "waiting", "waiting", "scheduled"]
    assert stored(admin, SCHEDULED) == [tracked(4)]


def test_only_the_last_moves_are_kept(me: Process, publish: Publish, record: Read) -> None:
    publish(push())
    for _ in range(MOST_MOVES + 5):
        [one] = me.consume(1)
        me.settle((one, Requeue(effects=(note("waiting"),))))
    assert record().moves == MOST_MOVES + 6
    assert len(record().timeline) == MOST_MOVES


def test_a_value_of_any_length_is_read_as_it_was_written(me: Process, publish: Publish, record: Read) -> None:
    lengths = [0, 1, 63, 64, 65, 127, 128, 129, 900, 1_023, 1_024, 5_000]
    text = ("x" + "\xe4" * 2_500).encode()
    publish(push())
    for length in [*lengths, *reversed(lengths), 900, 64, 5_000, 128, 900, 1_024]:
        [one] = me.consume(1)
        fields = (("result", text[:length]), ("queue", "q" * length))
        me.settle((one, Requeue(effects=(NoteState(TrackedJob("1", ""), "waiting", "r" * length, 60, fields),))))
        found = record()
        assert (found.result, found.queue, found.timeline[-1].reason) == (text[:length], "q" * length, "r" * length)


# --- a run


def mark(delivery: Delivery, first: bool = True, progress: str | None = None) -> RunningMark:
    return RunningMark(TrackedJob("1", "Job"), delivery, progress, first)


def test_a_job_that_runs_is_marked(me: Process, publish: Publish, record: Read, records: Records) -> None:
    publish(push())
    [one] = me.consume(1)
    records.mark_running([mark(one)])
    assert (record().state, record().owner, moves(record())) == ("running", me.identity, ["waiting", "running"])
    status = JobLookup(me.broker).status("1")
    assert (status.state, status.verified, status.owner) == ("running", True, me.identity)


def test_a_mark_that_comes_late_changes_nothing(me: Process, publish: Publish, record: Read, records: Records) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, ENDS["retry"][0]))
    records.mark_running([mark(one), mark(one, first=False, progress='[1,2,"",3]')])
    assert (record().state, record().progress) == ("retry", None)


def test_a_late_mark_revives_no_record(me: Process, publish: Publish, records: Records) -> None:
    """asynq's late writer makes an expired task again, without a life."""
    publish(push())
    [one] = me.consume(1)
    records.mark_running([mark(one)])
    me.settle((one, Done(effects=(note("completed", life_s=1),))))
    assert eventually(lambda: records.record("1") is None)
    records.mark_running([mark(one), mark(one, first=False, progress='[1,2,"",3]')])
    assert records.record("1") is None


def test_progress_is_written_while_the_job_runs_there(
    me: Process, publish: Publish, record: Read, records: Records
) -> None:
    publish(push())
    [one] = me.consume(1)
    records.mark_running([mark(one, progress='[1.0,4.0,"one",5.0]')])
    progress = record().progress
    assert progress is not None
    assert (progress.at, progress.total, progress.text, progress.percent) == (1.0, 4.0, "one", 25.0)
    records.mark_running([mark(one, first=False, progress='[2.0,null,"two",5.0]')])
    assert record().progress is not None
    assert (record().progress.text, record().progress.percent) == ("two", None)  # type: ignore[union-attr]
    strange = Delivery(one.payload, "q", "host:9:000000000009", one.receipt)
    records.mark_running([mark(strange, first=False, progress='[3.0,null,"three",5.0]')])
    assert record().progress.text == "two"  # type: ignore[union-attr]


# --- the scheduler


def forward(entry: bytes, now: float) -> tuple[str | None, bytes]:
    return "q", entry


def test_a_due_job_waits_again(me: Process, publish: Publish, record: Read, store: Store, admin: Admin) -> None:
    publish(push(at=admin.now() - 5), push(2, at=LATER))
    me.publish(job(3), at=admin.now() - 5)
    list(store.promote(JobState.SCHEDULED, forward, 10))
    assert sorted(waiting(admin)) == sorted([tracked(1), job(3)])
    assert (record().state, record().due, record().queue) == ("waiting", "", "q")
    assert record(2).state == "scheduled"


# --- people


def changed(steps: Iterable[tuple[int, object]]) -> None:
    for _ in steps:
        pass


@pytest.mark.parametrize(("do", "state", "reason"), [
    (lambda inspector, place: inspector.retry(place, Filter()), "waiting", "retried"),
    (lambda inspector, place: inspector.kill(place, Filter()), "dead", "killed"),
    (lambda inspector, place: inspector.delete(place, Filter()), "cancelled", "deleted"),
    (lambda inspector, place: [(1, inspector.cancel_all(Filter()))], "cancelled", "cancelled"),
])  # fmt: skip
@pytest.mark.parametrize("place", [SCHEDULED, RETRIES, PARKED])
def test_people_who_move_a_job_write_its_record(
    me: Process, publish: Publish, record: Read, place: Place,
    do: Callable[..., Iterable[tuple[int, object]]], state: str, reason: str,
) -> None:  # fmt: skip
    publish(push(), push(2))
    how = {SCHEDULED: "reschedule", RETRIES: "retry", PARKED: "park"}[place]
    one, other = me.consume(2)
    me.settle((one, ENDS[how][0]), (other, Done(effects=(note("completed", 2),))))
    changed(do(Inspector(lambda: me.broker), place))
    last = record().timeline[-1]
    assert (record().state, last.state, last.reason) == (state, state, reason)
    assert (record().due != "") == (state == "dead")
    assert record(2).state == "completed"
    assert JobLookup(me.broker).status("1").verified


def test_a_job_that_is_deleted_from_its_queue_or_retried_from_the_dead(
    me: Process, publish: Publish, record: Read
) -> None:
    publish(push(1), push(2))
    inspector = Inspector(lambda: me.broker)
    changed(inspector.delete(waiting_in("q"), Filter(jids=["2"])))
    assert (record(1).state, record(2).state) == ("waiting", "cancelled")
    [one] = me.consume(1)
    me.settle((one, ENDS["dead"][0]))
    changed(inspector.retry(DEAD, Filter()))
    assert moves(record()) == ["waiting", "dead", "waiting"]


def test_a_job_that_is_moved_into_another_queue_says_where_it_waits(
    me: Process, publish: Publish, record: Read
) -> None:
    publish(push(1), push(2))
    me.publish(job(3))
    changed(Inspector(lambda: me.broker).move("q", "o", Filter()))
    assert (moves(record(1)), record(1).queue) == (["waiting", "waiting"], "o")
    [first, *_] = me.consume(3, "o")
    assert json.loads(first.payload)["jid"] == "1"
    me.settle((first, ENDS["dead"][0]))
    me.publish(tracked(1))  # by Sidekiq's page, which writes no record
    changed(Inspector(lambda: me.broker).move("q", "o", Filter()))
    assert (moves(record(1)), record(1).queue) == (["waiting", "waiting", "dead", "waiting"], "o")


def test_a_job_that_only_its_code_says_is_tracked_is_noted_where_it_is_deleted(
    me: Process, publish: Publish, record: Read
) -> None:
    raw = job(1)
    publish(Push("q", raw, ties=(RecordTie(TrackedJob("1", "Job")),)))
    changed(Inspector(lambda: me.broker).delete(waiting_in("q"), Filter(jids=["1"])))
    assert record().state == "cancelled"


def test_a_dead_job_that_another_program_put_back_into_its_queue_is_noted_where_it_is_deleted(
    me: Process, publish: Publish, record: Read
) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, Dead(tracked(), effects=(note("dead"),))))
    me.publish(tracked())
    changed(Inspector(lambda: me.broker).delete(waiting_in("q"), Filter(jids=["1"])))
    assert moves(record()) == ["waiting", "dead", "cancelled"]


def test_the_copy_of_a_job_that_has_ended_leaves_its_record_where_it_is_deleted(
    me: Process, publish: Publish, record: Read
) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, Done(effects=(note("completed"),))))
    me.publish(tracked())
    changed(Inspector(lambda: me.broker).delete(waiting_in("q"), Filter(jids=["1"])))
    assert moves(record()) == ["waiting", "completed"]


@pytest.mark.parametrize("place", [SCHEDULED, RETRIES])
def test_a_job_that_is_to_wait_for_another_time_says_so(
    me: Process, publish: Publish, record: Read, place: Place
) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, ENDS["reschedule" if place is SCHEDULED else "retry"][0]))
    for _ in me.broker.admin.jobs_in(place).change(lambda page: [Change(each, at=4e9) for each in page]):
        pass
    word = "scheduled" if place is SCHEDULED else "retry"
    assert (record().state, float(record().due), record().timeline[-1].reason) == (word, 4e9, "rescheduled")
    status = JobLookup(me.broker).status("1")
    assert (status.state, status.due, status.verified) == (word, 4e9, True)


def test_a_released_job_waits_in_its_queue(me: Process, publish: Publish, record: Read, store: Store) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, ENDS["park"][0]))
    assert store.release("line", 1) == 1
    assert record().timeline[-1].reason == "released"


# --- deaths


def judge(found: FoundJob, error: PoisonPill | None = None) -> RecoveryDecision:
    return RecoveryDecision(found.payload, error, Tracking(Registry(), Config(), time.time).recovered(found, error))


def test_a_job_of_a_dead_process_waits_again(
    me: Process, start: Processes, publish: Publish, record: Read, records: Records, admin: Admin
) -> None:
    publish(push(), push(2))
    dead = start()
    one, _ = dead.consume(2)
    records.mark_running([mark(one)])
    me.publish(job("plain"))
    dead.consume(1)
    start.expire(dead)
    found = list(me.broker.recoverable.recover(me.identity, judge, ""))
    assert len(found) == 3
    assert (record().state, record().owner, record().timeline[-1].reason) == (
        "waiting", "", f"recovered from {dead.identity}",
    )  # fmt: skip
    assert record(2).state == "waiting"
    assert records.record("plain") is None


def test_a_late_process_writes_nothing_over_the_record_of_the_one_that_has_its_job(
    me: Process, start: Processes, publish: Publish, record: Read, records: Records, recoverable: Recoverable
) -> None:
    publish(push(), push(2))
    late = start()
    marked, unmarked = late.consume(2)
    records.mark_running([mark(marked)])
    start.expire(late)
    assert len(list(recoverable.recover(me.identity, judge, ""))) == 2
    ours = me.consume(2)
    records.mark_running(
        [RunningMark(TrackedJob(jid, "Job"), one, None, True) for jid, one in zip("12", ours, strict=True)]
    )
    before = record(), record(2)
    assert [(one.state, one.owner) for one in before] == [("running", me.identity)] * 2

    progress = mark(marked, first=False, progress='[1.0,2.0,"late",5.0]')
    late.broker.require_part(Records).mark_running(
        [progress, RunningMark(TrackedJob("2", "Job"), unmarked, None, True)]
    )
    for kind in ("retry", "park"):
        assert late.settle((marked, ENDS[kind][0])) == [False]
    assert late.settle((marked, Done(effects=(note("completed"),)))) == [False]
    assert late.settle((unmarked, Done(effects=(note("completed", 2),)))) == [False]
    assert (record(), record(2)) == before


def test_a_job_that_killed_its_processes_is_dead(me: Process, start: Processes, publish: Publish, record: Read) -> None:
    publish(push())
    dead = start()
    dead.consume(1)
    start.expire(dead)
    error = PoisonPill("three times")
    list(me.broker.recoverable.recover(me.identity, lambda found: judge(found, error), ""))
    assert (record().state, record().error_message) == ("dead", "three times")
    assert JobLookup(me.broker).status("1").verified


def test_a_process_that_leaves_writes_the_records_of_its_jobs(
    start: Processes, me: Process, publish: Publish, record: Read, records: Records
) -> None:
    publish(push())
    other = start()
    [one] = other.consume(1)
    records.mark_running([mark(one)])
    other.leave()
    assert record().state == "waiting"


# --- looking


def test_a_job_that_another_program_has_moved_is_found(me: Process, publish: Publish, admin: Admin) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, Retry(LATER, tracked())))  # no effect: a program that knows of no records
    status = JobLookup(me.broker).status("1")
    assert (status.state, status.verified, status.due) == ("retry", True, LATER)


def test_a_job_that_another_program_has_deleted_has_a_last_known_state(
    me: Process, publish: Publish, admin: Admin
) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, Done()))
    status = JobLookup(me.broker).status("1")
    assert (status.state, status.verified, status.absent) == ("waiting", False, True)


def test_a_push_replaces_the_record_of_a_job_that_is_gone(me: Process, publish: Publish, record: Read) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, Done()))
    again = push().with_tie(RecordTie(TrackedJob("1", "Job"), record().version))
    assert publish(again) == [Published.PUSHED]
    assert moves(record()) == ["waiting"]
    assert publish(again) == [Published.DUPLICATE], "the record is another one now"


def test_a_push_does_not_replace_a_record_that_has_moved(me: Process, publish: Publish, record: Read) -> None:
    publish(push())
    again = push().with_tie(RecordTie(TrackedJob("1", "Job"), record().version))
    [one] = me.consume(1)
    me.settle((one, ENDS["completed"][0]))
    assert publish(again) == [Published.DUPLICATE]
    assert record().state == "completed"


def test_a_job_pushes_a_tracked_job_in_place_of_one_that_is_gone(me: Process, publish: Publish, admin: Admin) -> None:
    publish(push(), push(2))
    one, other = me.consume(2)
    me.settle((one, Done()))
    stale = me.broker.require_part(Records).record("1")
    assert stale is not None
    again = push().with_tie(RecordTie(TrackedJob("1", "Job"), stale.version))
    me.settle((other, Done(effects=(PushJobs("2", (again, push(2))),))))
    assert waiting(admin) == [tracked(1)]


def test_a_dead_job_that_is_deleted_keeps_its_record(me: Process, publish: Publish, record: Read) -> None:
    publish(push())
    [one] = me.consume(1)
    me.settle((one, ENDS["dead"][0]))
    changed(Inspector(lambda: me.broker).delete(DEAD, Filter()))
    assert (record().state, moves(record())) == ("dead", ["waiting", "dead"])


def test_jobs_without_a_record_are_searched(me: Process, admin: Admin) -> None:
    me.publish(job("waits"), job("runs"), job("retry"), job("dead"))
    me.publish(job("later"), at=LATER)
    waits, runs, retry, dead = me.consume(4)
    me.settle((retry, Retry(LATER, job("retry"))), (dead, Dead(job("dead"))), (waits, Requeue()))
    found = {jid: JobLookup(me.broker).status(jid) for jid in ("waits", "runs", "retry", "dead", "later", "nobody")}
    assert {jid: one.state for jid, one in found.items()} == {
        "waits": "waiting", "runs": "waiting", "retry": "retry", "dead": "dead", "later": "scheduled",
        "nobody": "unknown",
    }  # fmt: skip
    assert {one.verified for jid, one in found.items() if jid != "nobody"} == {True}
    assert not any(one.tracked for one in found.values())
    assert runs.identity == found["runs"].owner


def test_the_place_in_a_queue_is_told(me: Process, publish: Publish, admin: Admin) -> None:
    publish(*(push(number) for number in range(20)))
    assert [JobLookup(me.broker).status(str(number)).place for number in (0, 7, 19)] == [0, 7, 19]


# --- waiting for the end


def test_a_watcher_is_told_of_the_end(me: Process, publish: Publish, records: Records) -> None:
    publish(push(), push(2))
    one, other = me.consume(2)
    told: list[int] = []
    stop = records.watch("1", lambda: told.append(1))
    assert eventually(lambda: len(told) == 1), "the watch has begun"
    me.settle((other, Done(effects=(note("completed", 2),))))
    me.settle((one, ENDS["completed"][0]))
    assert eventually(lambda: len(told) == 2)
    stop()
