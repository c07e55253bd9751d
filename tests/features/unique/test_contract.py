"""The locks of unique jobs: taken in the step of the push, kept and freed in the steps in which their jobs move."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from harness import PARKED, RETRIES, SCHEDULED, Process, Processes, job, part_of, payloads, waiting

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import DEAD, waiting_in
from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.brokers.contracts.transport import Published, PublishResult
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Stage
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.core.outcome import DONE, Dead, Done, Park, Requeue, Retry
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.tracking.effects import TrackedJob
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.end import given_back
from goworkers_py.features.unique.lock import Begin, Begun, LockClaim, OwnedLock, TooEarly
from goworkers_py.policy.consequences import consequences, moved
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.recovering.recoverer import judge_by
from goworkers_py.wire import payload as wire

LATER = 4_000_000_000.0  # in 2096
NAME = "Job:one"


def locked(jid: object = 1, on_conflict: str = "skip", **fields: Any) -> bytes:
    lock = {"name": NAME, "for": 60, "conflict": on_conflict}
    return job(jid, pyworkers={"v": 1, "needs": ["unique"], "lock": lock}, **fields)


def push(jid: object = 1, on_conflict: Any = "skip", at: float | None = None, **claim: Any) -> Push:
    return Push("q", locked(jid, on_conflict), at, ties=(LockClaim(NAME, str(jid), 60, on_conflict, **claim),))


@pytest.fixture
def locks(me: Process) -> Locks:
    return part_of(me.broker, Locks)


@pytest.fixture
def publish(me: Process) -> Callable[..., Sequence[PublishResult]]:
    return lambda *pushes: list(me.broker.transport.publish(pushes))


def holder(locks: Locks) -> str | None:
    entry = locks.entry(NAME)
    return None if entry is None else entry.holder.jid


def life(locks: Locks) -> float:
    entry = locks.entry(NAME)
    assert entry is not None
    assert entry.expires_at is not None
    return entry.expires_at - time.time()


def test_a_push_takes_the_lock_and_the_next_one_meets_it(me: Process, locks: Locks, publish: Any) -> None:
    assert publish(push(1), push(2)) == [Published.PUSHED, Conflict(locks_holder(locks), "held")]
    assert waiting(me.broker.admin) == [locked(1)]
    assert holder(locks) == "1"
    assert 50 < life(locks) <= 60


def locks_holder(locks: Locks) -> Holder:
    entry = locks.entry(NAME)
    assert entry is not None
    return entry.holder


def test_the_lock_of_a_scheduled_job_lasts_beyond_its_time(locks: Locks, publish: Any) -> None:
    at = time.time() + 1_000
    publish(push(1, at=at))
    assert 1_040 < life(locks) <= 1_060
    assert locks_holder(locks).due == at


def test_unique_jobs_in_one_push_each_take_their_lock_at_any_place(me: Process, locks: Locks, publish: Any) -> None:
    def named(name: str, jid: str, queue: str = "q", at: float | None = None) -> Push:
        return Push(queue, job(jid), at, ties=(LockClaim(name, jid, 60),))

    first = publish(named("a", "1"), named("b", "2"), named("a", "3"), named("c", "4"))
    assert [getattr(one, "how", one) for one in first] == [
        Published.PUSHED, Published.PUSHED, "held", Published.PUSHED,
    ]  # fmt: skip
    later = publish(named("d", "5", at=LATER), named("e", "6", queue="other"), named("b", "7", at=LATER))
    assert [getattr(one, "how", one) for one in later] == [Published.PUSHED, Published.PUSHED, "held"]
    assert publish(named("f", "8", at=LATER), named("g", "9", at=LATER)) == [Published.PUSHED] * 2
    assert waiting(me.broker.admin) == [job("1"), job("2"), job("4")]
    assert waiting(me.broker.admin, "other") == [job("6")]
    assert {one.jid for one in me.broker.admin.jobs_in(SCHEDULED).first(10)} == {"5", "8", "9"}
    assert {one.holder.jid for one in locks.entries()} == {"1", "2", "4", "5", "6", "8", "9"}


def test_a_claim_goes_before_a_holder_that_is_in_no_place(locks: Locks, publish: Any) -> None:
    publish(push(1))
    assert publish(push(2, instead_of="other"))[0] == Conflict(locks_holder(locks), "held")
    assert publish(push(2, instead_of="1")) == [Published.PUSHED]
    assert holder(locks) == "2"


def test_a_claim_that_goes_before_a_holder_does_not_get_its_newest_fields(locks: Locks, publish: Any) -> None:
    publish(push(1, "replace"), push(2, "replace", fields=b'{"args":[2]}'))
    assert publish(push(3, "replace", instead_of="1")) == [Published.PUSHED]
    assert locks.begin(Begin(NAME, "3", "q", 60, read=True)) == Begun()


def test_a_push_without_its_lock_waits_in_the_schedule(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1))
    before = time.time()
    [met] = publish(push(2, "reschedule"))
    assert met.how == "rescheduled"
    assert holder(locks) == "1"
    [one] = me.broker.admin.jobs_in(SCHEDULED).first(10)
    assert one.jid == "2"
    assert one.at is not None
    assert before < one.at < time.time() + 10


def tracked(jid: object) -> Push:
    one = push(jid)
    return replace(one, ties=(RecordTie(TrackedJob(str(jid), "Job")), *one.ties))


def test_a_duplicate_takes_no_lock_and_a_conflict_makes_no_record(me: Process, locks: Locks, publish: Any) -> None:
    publish(Push("q", job(9), ties=(RecordTie(TrackedJob("9", "Job")),)))
    assert publish(tracked(9)) == [Published.DUPLICATE]
    assert holder(locks) is None
    publish(push(1))
    publish(tracked(2))
    assert me.broker.require_part(Records).record("2") is None
    publish(replace(push(3), id="known"))
    assert holder(locks) == "1"


def test_the_holder_reads_the_newest_fields_once_it_begins(locks: Locks, publish: Any) -> None:
    begin = Begin(NAME, "1", "q", 60, read=True)
    publish(push(1, "replace"))
    assert locks.entry(NAME).replaced is False  # type: ignore[union-attr]
    assert publish(push(2, "replace", fields=b'{"args":[2]}'))[0].how == "replaced"
    assert publish(push(3, "replace", fields=b'{"args":[3]}'))[0].how == "replaced"
    assert locks.begin(begin) == Begun(b'{"args":[3]}')
    assert publish(push(4, "replace", fields=b'{"args":[4]}'))[0].how == "held"
    assert locks.begin(begin) == Begun(b'{"args":[3]}')  # after a crash
    assert life(locks) > 60  # the newest fields are nowhere else until the job is settled


def test_a_lock_without_newer_fields_has_its_own_time_once_its_job_begins(locks: Locks, publish: Any) -> None:
    """Until then it may get fields that are nowhere else, and lasts for months."""
    publish(push(1, "replace"))
    assert locks.begin(Begin(NAME, "1", "q", 600, read=True)) == Begun()
    assert 500 < life(locks) <= 600


def test_a_holder_that_only_looks_is_replaced_on(locks: Locks, publish: Any) -> None:
    begin = Begin(NAME, "1", "q", 60, read=True)
    look = begin._replace(looks=True)
    publish(push(1, "replace"))
    assert locks.begin(look) == Begun()
    assert publish(push(2, "replace", fields=b'{"args":[2]}'))[0].how == "replaced"
    assert locks.begin(look) == Begun(b'{"args":[2]}')
    assert publish(push(3, "replace", fields=b'{"args":[3]}'))[0].how == "replaced"
    assert locks.begin(begin) == Begun(b'{"args":[3]}')
    assert publish(push(4, "replace", fields=b'{"args":[4]}'))[0].how == "held"


def test_only_a_holder_that_reads_is_replaced(locks: Locks, publish: Any) -> None:
    publish(push(1))
    assert publish(push(2, "replace", fields=b"{}"))[0].how == "held"


def test_a_later_time_puts_the_holder_off_and_an_earlier_one_brings_it_forward(
    me: Process, locks: Locks, publish: Any
) -> None:
    begin = Begin(NAME, "1", "q", 60, read=True)
    publish(push(1, "replace", LATER))
    publish(push(2, "replace", LATER - 500, fields=b"{}"))
    assert [one.at for one in me.broker.admin.jobs_in(SCHEDULED).first(10)] == [LATER - 500]
    publish(push(3, "replace", LATER + 500, fields=b"{}"))
    assert [one.at for one in me.broker.admin.jobs_in(SCHEDULED).first(10)] == [LATER - 500]
    assert locks.begin(begin) == TooEarly(LATER + 500)
    publish(push(4, "replace", None, fields=b"{}"))
    assert [one.at for one in me.broker.admin.jobs_in(SCHEDULED).first(10)] <= [time.time() + 1]
    assert locks.begin(begin) == Begun(b"{}")


def test_a_job_that_may_not_hold_its_lock_takes_it_or_learns_who_has_it(locks: Locks) -> None:
    first, second = (Begin(NAME, jid, "q", 60, take=True) for jid in "12")
    assert [locks.begin(first), locks.begin(first)] == [Begun(), Begun()]
    assert locks.begin(second) == locks_holder(locks)
    assert locks.begin(second._replace(instead_of="1")) == Begun()
    assert holder(locks) == "2"


def test_a_lock_that_ends_as_the_job_begins_is_not_that_of_another_job(locks: Locks, publish: Any) -> None:
    publish(push(1))
    assert locks.begin(Begin(NAME, "2", "q", 60, free=True)) == Begun()
    assert holder(locks) == "1"
    assert locks.begin(Begin(NAME, "1", "q", 60, free=True)) == Begun()
    assert holder(locks) is None


def test_effects_are_for_the_holder_only(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1), Push("q", job(2)))
    one, two = me.consume(2)
    me.settle((two, Done(effects=(FreeLock("2", NAME), KeepLock("2", NAME, 5_000)))))
    assert holder(locks) == "1"
    assert life(locks) <= 60
    me.settle((one, Retry(LATER, locked(1), effects=(KeepLock("1", NAME, 5_000, LATER),))))
    assert life(locks) > 4_000
    assert locks_holder(locks).due == LATER


def test_the_holder_of_a_lock_that_waits_no_more_has_no_time(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1), Push("other", job(9, "other")))
    [one], [nine] = me.consume(1), me.consume(1, "other")
    me.settle((one, Retry(LATER, locked(1), effects=(KeepLock("1", NAME, 60, LATER),))))
    me.settle((nine, Done(effects=(KeepLock("1", NAME, 60),))))
    assert locks_holder(locks).due is None


def test_a_lock_is_never_shortened(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1, at=time.time() + 1_000), Push("other", job(9, "other")))
    [nine] = me.consume(1, "other")
    me.settle((nine, Done(effects=(KeepLock("1", NAME, 5), KeepLock("2", NAME, 50_000)))))
    assert 900 < life(locks) <= 1_060


# --- while the job runs


def owned(process: Process, jid: str = "1") -> OwnedLock:
    return OwnedLock(NAME, jid, 60, process.identity)


def end_of(locks: Locks) -> tuple[float | None, str]:
    """When the lock ends, in seconds from now, in tens; and its owner."""
    entry = locks.entry(NAME)
    assert entry is not None
    left = entry.expires_at
    return None if left is None else math.ceil((left - time.time()) / 10) * 10.0, entry.owner


def test_the_lock_of_a_job_that_runs_has_no_end_of_its_own(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1))
    assert end_of(locks) == (60.0, "")
    assert locks.own([owned(me)]) == [""]
    assert end_of(locks) == (None, me.identity)
    [conflict] = publish(push(2))
    assert isinstance(conflict, Conflict)
    [one] = me.consume(1)
    me.settle((one, Retry(LATER, locked(1), effects=(KeepLock("1", NAME, 50),))))
    assert end_of(locks) == (50.0, "")


def test_a_lock_that_was_kept_for_a_retry_has_its_time_though_its_keeper_is_late(
    me: Process, locks: Locks, publish: Any
) -> None:
    publish(push(1))
    [one] = me.consume(1)
    due = time.time() + 940
    me.settle((one, Retry(due, locked(1), effects=(KeepLock("1", NAME, 60, due),))))
    assert locks.own([owned(me)]) == [""]
    locks.disown([owned(me)])
    assert end_of(locks) == (1_000.0, "")


def test_a_lock_stays_with_the_process_that_runs_its_job_now(
    me: Process, other: Process, locks: Locks, publish: Any
) -> None:
    publish(push(1))
    assert locks.begin(Begin(NAME, "1", "q", 60, owner=other.identity)) == Begun()
    locks.own([owned(me)])
    assert end_of(locks) == (None, other.identity)
    locks.disown([owned(me)])
    assert end_of(locks) == (None, other.identity)


def test_no_job_owns_the_lock_of_another_one(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1))
    assert locks.own([owned(me, "2"), owned(me)._replace(name="Job:free")]) == ["1", ""]
    assert end_of(locks) == (60.0, "")
    assert locks.entry("Job:free") is None


@pytest.mark.parametrize("begin", [Begin(NAME, "1", "q", 60), Begin(NAME, "1", "q", 60, take=True)])
@pytest.mark.parametrize("pushed", [False, True])
def test_a_job_that_asks_owns_its_lock_in_the_same_step(
    me: Process, locks: Locks, publish: Any, begin: Begin, pushed: bool
) -> None:
    if pushed:
        publish(push(1))
    assert locks.begin(begin._replace(owner=me.identity)) == Begun()
    if pushed or begin.take:
        assert end_of(locks) == (None, me.identity)
    else:
        assert locks.entry(NAME) is None


def test_the_newest_fields_of_a_job_that_owns_its_lock_live_on(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1, "replace"), push(2, "replace", fields=b'{"args":[2]}'))
    begin = Begin(NAME, "1", "q", 60, read=True, owner=me.identity)
    assert locks.begin(begin) == Begun(b'{"args":[2]}')
    assert end_of(locks) == (None, me.identity)
    locks.disown([owned(me)])
    assert life(locks) > 80 * 86_400


def test_a_run_that_has_ended_without_a_settlement_gives_the_time_back(
    me: Process, other: Process, locks: Locks, publish: Any
) -> None:
    publish(push(1))
    locks.own([owned(me)])
    locks.disown([owned(other), owned(me, "2")])
    assert end_of(locks) == (None, me.identity)
    locks.disown([owned(me)])
    assert end_of(locks) == (60.0, "")


def recover(me: Process) -> None:
    judge = judge_by(PoisonPolicy.of(Config()), [Tracking(Registry(), Config(), time.time)], time.time)
    list(me.broker.recoverable.recover(me.identity, judge, ""))


@pytest.mark.usefixtures("recoverable")
def test_the_lock_of_an_owner_that_has_lost_its_lease_stays_until_it_is_dead(
    me: Process, start: Processes, locks: Locks, publish: Any
) -> None:
    publish(push(1))
    dying = start()
    dying.consume(1)
    locks.own([owned(dying)])
    start.expire(dying)
    [conflict] = publish(push(2))
    assert isinstance(conflict, Conflict)
    assert end_of(locks) == (None, dying.identity)
    recover(me)
    assert end_of(locks) == (60.0, "")
    locks.own([owned(dying)])  # it was on its way for long
    assert locks.begin(Begin(NAME, "1", "q", 60, owner=dying.identity)) == Begun()
    assert end_of(locks) == (60.0, "")
    locks.own([owned(me)])  # the job runs again
    assert end_of(locks) == (None, me.identity)


@pytest.mark.usefixtures("recoverable")
def test_a_process_that_leaves_its_job_behind_gives_its_lock_a_time(
    start: Processes, locks: Locks, publish: Any
) -> None:
    publish(push(1))
    leaving = start()
    leaving.consume(1)
    locks.own([owned(leaving)])
    assert len(leaving.leave()) == 1
    assert end_of(locks) == (60.0, "")


def test_a_stop_that_gives_back_a_running_job_gives_its_lock_a_time(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1))
    [one] = me.consume(1)
    assert given_back(one) == ()
    locks.own([owned(me)])
    one.stage = Stage.BEGUN
    me.settle((one, Requeue(effects=given_back(one))))
    assert waiting(me.broker.admin) == [locked(1)]
    assert end_of(locks) == (60.0, "")


def test_a_job_that_dies_before_it_has_read_its_lock_gives_it_a_time() -> None:
    """Its payload does not say that it has begun: its process was killed."""
    assert moved(locked(1, "replace"), "dead") == (KeepLock("1", NAME, 60),)


def test_a_lost_delivery_frees_no_lock(me: Process, start: Processes, locks: Locks, publish: Any) -> None:
    publish(push(1))
    [one] = me.consume(1)
    me.settle((one, DONE))
    assert me.settle((one, Done(effects=(FreeLock("1", NAME),)))) == [False]
    assert holder(locks) == "1"


def test_a_push_inside_of_a_settlement_takes_its_lock(me: Process, locks: Locks, publish: Any) -> None:
    publish(Push("other", job(9, "other")))
    [nine] = me.consume(1, "other")
    me.settle((nine, Done(effects=(PushJobs("9", (push(1), push(2), push(3, "reschedule"))),))))
    assert waiting(me.broker.admin) == [locked(1)]
    assert payloads(me.broker.admin.jobs_in(SCHEDULED).first(10)) == [locked(3, "reschedule")]
    assert holder(locks) == "1"


def test_a_recovered_job_keeps_its_lock_and_a_buried_one_frees_it() -> None:
    judge = judge_by(PoisonPolicy.of(Config()), [Tracking(Registry(), Config(), time.time)], time.time)
    found = FoundJob("q", "host:1:000000000001", locked(1), begun=False, alone="")
    assert KeepLock("1", NAME, 60) in judge(found).effects
    assert moved(locked(1), "dead") == (FreeLock("1", NAME),)


def test_the_lock_goes_on_with_a_job_of_a_dead_process(start: Processes, locks: Locks, publish: Any) -> None:
    publish(push(1))
    dying = start()
    dying.consume(1)
    assert len(dying.leave()) == 1
    assert holder(locks) == "1"


@pytest.mark.parametrize("how", ["delete", "kill"])
@pytest.mark.parametrize("place", [SCHEDULED, RETRIES, PARKED, waiting_in("q")])
def test_a_job_that_people_delete_or_kill_frees_its_lock(
    me: Process, locks: Locks, publish: Any, place: Any, how: str
) -> None:
    if how == "kill" and place == waiting_in("q"):
        pytest.skip("jobs in a queue can only be deleted")
    publish(push(1, at=LATER if place == SCHEDULED else None))
    if place in (RETRIES, PARKED):
        [one] = me.consume(1)
        me.settle((one, Retry(LATER, one.payload) if place == RETRIES else Park("line")))
    inspector = Inspector(lambda: me.broker)
    assert holder(locks) == "1"
    list(getattr(inspector, how)(place, Filter()))
    assert holder(locks) is None


def test_another_time_by_hand_moves_the_end_of_the_lock(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1, at=time.time() + 10))
    list(Inspector(lambda: me.broker).reschedule(SCHEDULED, Filter(), time.time() + 9_000))
    assert life(locks) > 8_000


def test_a_killed_job_whose_newest_arguments_are_in_its_lock_keeps_it(me: Process, locks: Locks, publish: Any) -> None:
    publish(push(1, "replace", LATER))
    publish(push(2, "replace", LATER, fields=b'{"args":[2]}'))
    inspector = Inspector(lambda: me.broker)
    list(inspector.kill(SCHEDULED, Filter()))
    assert holder(locks) == "1"
    list(inspector.retry(DEAD, Filter()))
    assert locks.entry(NAME).replaced  # type: ignore[union-attr]


def test_what_a_run_does_to_the_lock_follows_from_its_outcome() -> None:
    fields = wire.read(locked(1))
    assert consequences(fields, DONE, 0.0) == (FreeLock("1", NAME),)
    assert consequences(fields, Dead(locked(1)), 0.0) == (FreeLock("1", NAME),)
    assert consequences(fields, Retry(100.0, b""), 10.0) == (KeepLock("1", NAME, 60, 100.0),)


def test_locks_are_listed_by_the_beginning_of_their_names(me: Process, locks: Locks) -> None:
    for name in ("A:1", "A:2", "A*:1", "B:1"):
        locks.begin(Begin(name, name, "q", 60, take=True))
    assert sorted(entry.name for entry in locks.entries("A:")) == ["A:1", "A:2"]
    assert sorted(entry.name for entry in locks.entries()) == ["A*:1", "A:1", "A:2", "B:1"]
    assert [locks.free("A:1"), locks.free("A:1")] == [True, False]
    assert locks.entry("A:1") is None
