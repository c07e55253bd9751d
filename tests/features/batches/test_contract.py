"""Batches: joined in the step of a push, counted in the step of an end, and their callbacks pushed once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from harness import DEAD, PARKED, RETRIES, SCHEDULED, Process, Processes, job, part_of, waiting

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.brokers.contracts.transport import Published, PublishResult
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.outcome import CANCELLED, DISCARD, DONE, EXPIRED, REQUEUE, Dead, Done, Outcome, Park, Retry
from goworkers_py.features.batches.batch import (
    MOST_DEATHS,
    BatchStatus,
    BatchTie,
    Callback,
    Event,
    Membership,
    NewBatch,
)
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.batches.payload import buried
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.policy.consequences import consequences, moved
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.recovering.recoverer import judge_by
from goworkers_py.wire import payload as wire

LATER = 4_000_000_000.0  # in 2096
BID, INNER = "b", "b.inner"
TO = ("callbacks",)


def member_job(jid: object = 1, bid: str = BID, **fields: Any) -> bytes:
    return job(jid, pyworkers={"v": 1, "needs": ["batch"], "batch": {"id": bid, "to": list(TO)}}, **fields)


def push(jid: object = 1, bid: str = BID, at: float | None = None, **more: Any) -> Push:
    return Push("q", member_job(jid, bid), at, ties=(BatchTie(bid),), **more)


def tracked(jid: object) -> Push:
    ties = (RecordTie(TrackedJob(str(jid), "Job")), BatchTie(BID))
    return Push("q", member_job(jid), ties=ties)


def new(bid: str = BID, *events: Event, queue: str = "callbacks", **options: Any) -> NewBatch:
    callbacks = {event: Callback(queue, job(f"{event} of {bid}", queue)) for event in events}
    return NewBatch(Membership(bid, TO), "name", "hold", callbacks, **options)


def ended(delivery: Delivery, outcome: Outcome = DONE) -> tuple[Delivery, Outcome]:
    """The delivery with its outcome, as a worker would put it."""
    effects = consequences(wire.read(delivery.payload), outcome, time.time())
    if isinstance(outcome, Dead):
        return delivery, Dead(buried(outcome.payload), effects=effects)
    return delivery, type(outcome)(**{**_fields(outcome), "effects": effects})


def _fields(outcome: Outcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in type(outcome).__dataclass_fields__ if name != "effects"}


@pytest.fixture
def batches(me: Process) -> Batches:
    return part_of(me.broker, Batches)


@pytest.fixture
def publish(me: Process) -> Callable[..., Sequence[PublishResult]]:
    return lambda *pushes: list(me.broker.transport.publish(pushes))


def status(batches: Batches, bid: str = BID) -> BatchStatus:
    found = batches.status(bid)
    assert found is not None
    return found


def fired(me: Process, queue: str = "callbacks") -> list[str]:
    return [json.loads(raw)["jid"] for raw in waiting(me.broker.admin, queue)]


ALL: tuple[Event, ...] = ("success", "complete", "death")


def test_a_queue_that_gets_only_callbacks_is_listed(me: Process, batches: Batches) -> None:
    batches.open(new(BID, "complete"))
    batches.let_go(BID, "hold", TO)
    assert [queue.name for queue in me.broker.admin.queues()] == ["callbacks"]


def test_a_batch_counts_its_jobs_and_pushes_its_callbacks_at_the_last_end(
    me: Process, batches: Batches, publish: Any
) -> None:
    assert batches.open(new(BID, *ALL))
    assert publish(push(1), push(2)) == [Published.PUSHED] * 2
    publish(push(3))
    batches.let_go(BID, "hold", TO)
    one, two, three = me.consume(3)
    assert me.settle(ended(one), ended(two)) == [True, True]
    told = status(batches)
    assert (told.total, told.succeeded, told.pending, told.holds, told.state) == (3, 2, 1, 0, "open")
    assert fired(me) == []
    me.settle(ended(three))
    told = status(batches)
    assert (told.succeeded, told.pending, told.state, told.progress) == (3, 0, "ended", 1.0)
    assert fired(me) == ["complete of b", "success of b"]
    assert told.waiting_for == ["death"]
    pushed = json.loads(waiting(me.broker.admin, "callbacks")[0])
    assert abs(pushed["enqueued_at"] - time.time()) < 60


def test_a_batch_stays_open_until_all_holds_have_ended(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1))
    me.settle(*map(ended, me.consume(1)))
    assert batches.hold(BID, "other")
    assert batches.hold(BID, "other")  # again
    batches.let_go(BID, "hold", TO)
    batches.let_go(BID, "hold", TO)  # again
    assert status(batches).holds == 1
    assert fired(me) == []
    batches.let_go(BID, "other", TO)
    assert fired(me) == ["complete of b"]
    batches.let_go(BID, "other", TO)
    assert fired(me) == ["complete of b"]
    assert not batches.hold(BID, "third")


@pytest.mark.parametrize("order", [["hold", "let_go", "hold"], ["let_go", "hold"], ["let_go", "let_go", "hold"]])
def test_a_copy_of_a_hold_that_arrives_after_its_end_holds_nothing(
    me: Process, batches: Batches, publish: Any, order: list[str]
) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1))
    for verb in order:
        batches.hold(BID, "other") if verb == "hold" else batches.let_go(BID, "other", late=True)
    assert status(batches).holds == 1
    batches.let_go(BID, "hold", TO)
    batches.open(new(BID, "complete"))
    assert status(batches).holds == 0
    me.settle(*map(ended, me.consume(1)))
    assert fired(me) == ["complete of b"]


def test_the_end_of_a_hold_that_was_closed_ends_no_other_hold(batches: Batches, publish: Any) -> None:
    batches.open(new(BID))
    batches.hold(BID, "ended")
    batches.let_go(BID, "ended", late=True)
    publish(push(1))
    assert batches.close(BID)
    assert batches.hold(BID, "other")
    batches.let_go(BID, "hold", late=True)
    assert status(batches).holds == 1
    batches.hold(BID, "ended")
    batches.hold(BID, "hold")
    assert status(batches).holds == 1


def test_the_end_of_a_hold_leaves_nothing_of_a_batch_that_is_not_there(me: Process, batches: Batches) -> None:
    batches.let_go("none", "hold")
    assert batches.status("none") is None
    assert batches.open(new("none"))
    assert status(batches, "none").holds == 1


def test_an_empty_batch_fires(me: Process, batches: Batches) -> None:
    batches.open(new(BID, "success", "complete"))
    batches.let_go(BID, "hold", TO)
    assert fired(me) == ["complete of b", "success of b"]
    assert status(batches).progress == 1.0


def test_a_batch_that_is_opened_again_is_the_same(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "success"))
    publish(push(1))
    assert batches.open(new(BID, "success"))
    assert (status(batches).total, status(batches).holds, status(batches).name) == (1, 1, "name")


def test_a_callback_for_a_queue_that_the_caller_does_not_know_is_due_at_once(me: Process, batches: Batches) -> None:
    batches.open(new(BID, "success", queue="elsewhere"))
    batches.let_go(BID, "hold", TO)
    if waiting(me.broker.admin, "elsewhere"):
        return
    [one] = me.broker.admin.jobs_in(SCHEDULED).first(10)
    assert one.jid == "success of b"
    assert one.at is not None
    assert one.at <= time.time()


def test_a_batch_that_has_ended_takes_no_job(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new())
    batches.let_go(BID, "hold")
    assert publish(push(1), Push("q", job(2)), push(3, "none")) == [
        Published.REFUSED, Published.PUSHED, Published.REFUSED,
    ]  # fmt: skip
    assert waiting(me.broker.admin) == [job(2)]
    assert status(batches).total == 0


def test_a_duplicate_is_not_counted(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new())
    publish(push(1, id="known"))
    assert publish(push(1, id="known")) == [Published.DUPLICATE]
    publish(tracked(2))
    assert publish(tracked(2)) == [Published.DUPLICATE]
    assert status(batches).total == 2


def test_each_end_counts_in_its_own_way(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    publish(*(push(number) for number in range(5)))
    outcomes: list[Outcome] = [DONE, DISCARD, CANCELLED, EXPIRED, Dead(member_job(4, error_class="E"))]
    batches.let_go(BID, "hold", TO)
    me.settle(*map(ended, me.consume(5), outcomes))
    told = status(batches)
    assert (told.succeeded, told.failed, told.cancelled, told.expired) == (1, 2, 1, 1)
    assert told.state == "ended"
    assert fired(me) == ["death of b", "complete of b"]


def test_a_job_that_goes_on_is_not_counted(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    publish(push(1), push(2), push(3))
    one, two, three = me.consume(3)
    me.settle(ended(one, Retry(LATER, one.payload)), ended(two, Park("line")), ended(three, REQUEUE))
    assert status(batches).pending == 3
    assert moved(member_job(), "waiting") == ()


def test_the_first_death_pushes_its_callback_and_the_newest_are_told(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID, *ALL))
    publish(*(push(number) for number in range(MOST_DEATHS + 2)))
    for one in me.consume(MOST_DEATHS + 2):
        error = {"error_class": "ValueError", "error_message": "no"}
        me.settle(ended(one, Dead(wire.splice(one.payload, error))))
        assert fired(me) == ["death of b"]
    told = batches.deaths(BID)
    assert len(told) == MOST_DEATHS
    assert (told[0].jid, told[0].error) == (str(MOST_DEATHS + 1), "ValueError: no")
    assert batches.deaths("none") == []


def test_a_dead_job_that_is_retried_by_hand_and_succeeds_is_counted_once(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID, *ALL))
    publish(push(1), push(2))
    batches.let_go(BID, "hold", TO)
    one, two = me.consume(2)
    me.settle(ended(one, Dead(one.payload)), ended(two, Dead(two.payload)))
    assert (status(batches).failed, status(batches).state) == (2, "ended")
    list(Inspector(lambda: me.broker).retry(DEAD, Filter()))
    one, two = me.consume(2)
    me.settle(ended(one, Dead(one.payload)), ended(two))
    assert (status(batches).failed, status(batches).succeeded) == (1, 1)
    assert fired(me) == ["death of b", "complete of b"]
    list(Inspector(lambda: me.broker).retry(DEAD, Filter()))
    me.settle(*map(ended, me.consume(1)))
    assert (status(batches).failed, status(batches).succeeded) == (0, 2)
    assert fired(me) == ["death of b", "complete of b", "success of b"]


def test_a_due_job_that_cannot_be_promoted_is_counted_as_dead(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    publish(push(1), push(2))
    one, _ = me.consume(2)
    me.settle(ended(one, Retry(1.0, one.payload)))
    list(me.broker.store.promote(RETRIES.state, lambda raw, now: (None, raw), 10))
    assert (status(batches).failed, status(batches).pending) == (1, 1)
    assert fired(me) == ["death of b"]
    retry(me, "1")
    assert (status(batches).failed, status(batches).succeeded) == (0, 1)


def test_a_dead_job_that_people_delete_is_not_counted_again(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    publish(push(1), push(2))
    one, _ = me.consume(2)
    me.settle(ended(one, Dead(one.payload)))
    list(Inspector(lambda: me.broker).delete(DEAD, Filter()))
    told = status(batches)
    assert (told.failed, told.cancelled, told.pending) == (1, 0, 1)


def retry(me: Process, jid: str, dies: bool = False) -> None:
    """People retry this dead job."""
    list(Inspector(lambda: me.broker).retry(DEAD, Filter(jids=[jid])))
    [one] = me.consume(1)
    me.settle(ended(one, Dead(one.payload) if dies else DONE))


def test_a_death_that_its_batch_has_not_counted_is_not_taken_off_another(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID, *ALL))
    publish(push("counted"))
    batches.close(BID, TO)
    publish(Push("q", member_job("late")))  # as a push at the end of a job, after its batch has ended
    me.settle(*(ended(one, Dead(one.payload)) for one in me.consume(2)))
    assert (status(batches).failed, status(batches).state) == (1, "ended")
    retry(me, "late", dies=True)
    retry(me, "late")
    assert (status(batches).failed, status(batches).succeeded) == (1, 0)
    assert fired(me) == ["death of b", "complete of b"]
    retry(me, "counted")
    assert (status(batches).failed, status(batches).succeeded) == (0, 1)
    assert fired(me) == ["death of b", "complete of b", "success of b"]


def test_a_discarded_job_that_its_batch_has_not_counted_leaves_no_note(
    me: Process, batches: Batches, publish: Any
) -> None:
    """Nobody can retry it: its note would be read by nobody."""
    batches.open(new(BID, *ALL))
    publish(push("counted"))
    batches.close(BID, TO)
    publish(Push("q", member_job("late")))
    one, two = me.consume(2)
    me.settle(ended(one, Dead(one.payload)), ended(two, DISCARD))
    publish(Push("q", job(3)))
    revived = EndInBatch("late", Membership(BID, TO), "revived")  # it would take the note, where there is one
    me.settle(*((one, Done(effects=(revived,))) for one in me.consume(1)))
    assert (status(batches).failed, status(batches).succeeded) == (0, 1)


def test_a_batch_whose_failure_the_one_around_it_has_not_counted_is_not_taken_off_another(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID))
    batches.open(new(INNER, "success"))
    publish(push("counted"), push("late", INNER))
    batches.close(INNER, TO)
    one, two = me.consume(2)
    me.settle(ended(one, Dead(one.payload)))
    batches.close(BID, TO, force=True)
    me.settle(ended(two, Dead(two.payload)))
    retry(me, "late")
    assert fired(me) == ["success of b.inner"]
    assert (status(batches).failed, status(batches).succeeded) == (1, 0)


@pytest.mark.parametrize("how", ["delete", "kill"])
@pytest.mark.parametrize("place", [SCHEDULED, RETRIES, PARKED, waiting_in("q")])
def test_a_job_that_people_delete_or_kill_is_counted(
    me: Process, batches: Batches, publish: Any, place: Any, how: str
) -> None:
    if how == "kill" and place == waiting_in("q"):
        pytest.skip("jobs in a queue can only be deleted")
    batches.open(new(BID, "complete"))
    publish(push(1, at=LATER if place == SCHEDULED else None))
    batches.let_go(BID, "hold", TO)
    if place in (RETRIES, PARKED):
        [one] = me.consume(1)
        me.settle((one, Retry(LATER, one.payload) if place == RETRIES else Park("line")))
    inspector = Inspector(lambda: me.broker)
    list(getattr(inspector, how)(place, Filter()))
    told = status(batches)
    assert (told.failed, told.cancelled) == ((1, 0) if how == "kill" else (0, 1))
    assert fired(me) == ["complete of b"]
    if how == "kill":
        list(inspector.retry(DEAD, Filter()))
        me.settle(*map(ended, me.consume(1)))
        assert status(batches).succeeded == 1


def test_a_tracked_job_that_people_delete_is_counted_once(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "complete"))
    tracked = member_job(track=True)
    publish(
        Push("q", tracked, ties=(RecordTie(TrackedJob("1", "J")), BatchTie(BID))),
        push(2),
    )
    batches.let_go(BID, "hold", TO)
    inspector = Inspector(lambda: me.broker)
    list(inspector.delete(waiting_in("q"), Filter(jids=["1"])))
    assert (status(batches).pending, status(batches).cancelled, fired(me)) == (1, 1, [])


def test_a_lost_delivery_is_not_counted(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new())
    publish(push(1), push(2))
    one, two = me.consume(2)
    me.settle((one, DONE))
    assert me.settle(ended(one), ended(two)) == [False, True]
    assert status(batches).succeeded == 1


def test_a_repeated_settlement_counts_once(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1), push(2))
    batch = me.batch(*map(ended, me.consume(2)))
    for _ in range(2):
        assert list(me.broker.transport.settle(batch)) == [True, True]
    assert status(batches).succeeded == 2


def test_ends_with_other_effects_are_counted_too(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1), push(2), push(3))
    batches.let_go(BID, "hold", TO)
    one, two, three = me.consume(3)
    end = EndInBatch("1", Membership(BID, TO), "succeeded")
    note = NoteState(TrackedJob("1", "Job"), "completed", "", 60)
    pushes = PushJobs("1", (push(4), push(5)))
    me.settle((one, Done(effects=(note, end))), (two, Done(effects=(pushes, end))), (three, Done(effects=(end,))))
    assert (status(batches).total, status(batches).succeeded) == (5, 3)
    me.settle(*map(ended, me.consume(2)))
    assert fired(me) == ["complete of b"]


def test_a_push_of_the_last_job_joins_before_its_end_is_counted(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1))
    batches.let_go(BID, "hold", TO)
    [one] = me.consume(1)
    end = EndInBatch("1", Membership(BID, TO), "succeeded")
    me.settle((one, Done(effects=(PushJobs("1", (push(2),)), end))))
    assert status(batches).pending == 1
    assert fired(me) == []


def test_a_batch_inside_of_another_counts_as_one_of_its_jobs(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    assert batches.open(new(INNER, *ALL))
    assert batches.open(new(INNER, *ALL))  # again
    publish(push(1, INNER), push(2))
    batches.let_go(BID, "hold", TO)
    batches.let_go(INNER, "hold", TO)
    assert status(batches).total == 2
    one, two = me.consume(2)
    me.settle(ended(two))
    assert fired(me) == []
    me.settle(ended(one))
    assert fired(me) == ["complete of b.inner", "success of b.inner", "complete of b", "success of b"]
    assert (status(batches).succeeded, status(batches, INNER).succeeded) == (2, 1)


def test_a_death_inside_fails_the_batches_around_and_its_retry_mends_them(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID, *ALL))
    batches.open(new(INNER, *ALL))
    publish(push(1, INNER))
    batches.let_go(INNER, "hold", TO)
    batches.let_go(BID, "hold", TO)
    [one] = me.consume(1)
    me.settle(ended(one, Dead(one.payload)))
    assert fired(me) == ["death of b.inner", "complete of b.inner", "death of b", "complete of b"]
    list(Inspector(lambda: me.broker).retry(DEAD, Filter()))
    me.settle(*map(ended, me.consume(1)))
    assert fired(me)[4:] == ["success of b.inner", "success of b"]
    assert (status(batches).failed, status(batches).succeeded) == (0, 1)


def test_no_batch_is_opened_inside_of_one_that_has_ended(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new())
    batches.let_go(BID, "hold")
    assert not batches.open(new(INNER))
    assert batches.status(INNER) is None
    assert not batches.open(new("none.inner"))


def test_a_cancelled_batch_takes_no_jobs_and_fires_nothing(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    batches.open(new(INNER, *ALL))
    publish(push(1), push(2, INNER))
    assert batches.cancel(BID, TO)
    assert batches.cancel(BID, TO)
    assert me.broker.require_part(Cancels).stands(BID)
    laid = me.broker.require_part(Cancels).all("?")
    assert laid is not None
    assert laid[1][BID].many
    assert publish(push(3), push(4, INNER)) == [Published.REFUSED] * 2
    assert status(batches).state == "cancelling"
    one, two = me.consume(2)
    me.settle(ended(one, CANCELLED), ended(two, CANCELLED))
    batches.let_go(INNER, "hold", TO)
    assert status(batches).state == "cancelled"
    assert status(batches).waiting_for == []
    assert not me.broker.require_part(Cancels).stands(BID)
    assert fired(me) == []
    assert not batches.cancel(BID, TO)


def test_an_empty_batch_is_cancelled_at_once(me: Process, batches: Batches) -> None:
    batches.open(new(BID, *ALL))
    assert batches.cancel(BID, TO)
    assert status(batches).state == "cancelled"
    assert not me.broker.require_part(Cancels).stands(BID)
    assert not batches.cancel("none")


def test_the_parent_of_a_cancelled_batch_goes_on(me: Process, batches: Batches) -> None:
    batches.open(new(BID, *ALL))
    batches.open(new(INNER, *ALL))
    batches.cancel(INNER, TO)
    batches.let_go(BID, "hold", TO)
    assert status(batches).cancelled == 1
    assert fired(me) == ["complete of b"]


def test_close_ends_the_holds_and_force_ends_the_batch(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, *ALL))
    publish(push(1), push(2))
    assert batches.close(BID, TO)
    assert (status(batches).state, status(batches).holds) == ("open", 0)
    assert batches.close(BID, TO, force=True)
    assert status(batches).state == "ended"
    assert fired(me) == ["complete of b"]
    me.settle(*map(ended, me.consume(2)))
    assert (status(batches).succeeded, fired(me)) == (0, ["complete of b"])
    assert not batches.close(BID, TO)
    assert not batches.close("none", TO)


@pytest.mark.parametrize("closed", [BID, INNER])
def test_a_push_at_the_end_of_a_job_happens_though_a_batch_was_closed_by_force(
    me: Process, batches: Batches, publish: Any, closed: str
) -> None:
    batches.open(new(BID))
    batches.open(new(INNER))
    publish(push(1, INNER), push(2, INNER))
    [one] = me.consume(1)
    batches.close(closed, TO, force=True)
    me.settle((one, Done(effects=(PushJobs("1", (push(3, INNER),)),))))
    assert len(waiting(me.broker.admin)) == 2
    assert status(batches, INNER).total == (3 if closed == BID else 2)


def test_a_push_at_the_end_of_a_job_of_a_cancelled_batch_does_not_happen(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID))
    publish(push(1))
    [one] = me.consume(1)
    batches.cancel(BID, TO)
    me.settle((one, Done(effects=(PushJobs("1", (push(3),)),))))
    assert waiting(me.broker.admin) == []


def test_the_jobs_of_a_cancelled_batch_stay_cancelled_when_it_is_closed_by_force(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID))
    publish(push(1))
    batches.cancel(BID, TO)
    assert batches.close(BID, TO, force=True)
    assert me.broker.require_part(Cancels).stands(BID)


def test_a_hold_after_a_close_is_not_ended_by_an_older_one(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID))
    publish(push(1))
    batches.close(BID, TO)
    assert batches.hold(BID, "newer")
    batches.let_go(BID, "hold", TO)
    assert status(batches).holds == 1


def test_close_ends_a_batch_whose_jobs_have_all_ended(me: Process, batches: Batches, publish: Any) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1))
    me.settle(*map(ended, me.consume(1)))
    batches.close(BID, TO)
    assert fired(me) == ["complete of b"]


def test_batches_are_listed_the_last_changed_first_and_those_that_ended_well_last(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new("failed"))
    publish(push(1, bid="failed"))
    for bid in ("old", "new", "done"):
        batches.open(new(bid))
        time.sleep(0.002)  # the order is by milliseconds at the finest
    batches.let_go("done", "hold")
    batches.let_go("failed", "hold")
    me.settle(*(ended(one, DISCARD) for one in me.consume(1)))
    assert [one.bid for one in batches.entries()] == ["failed", "new", "old", "done"]
    assert batches.status("none") is None


def test_the_figures_of_batches_are_those_of_the_open_and_the_failed_ones(
    me: Process, batches: Batches, publish: Any
) -> None:
    for bid in (BID, "failed", "well"):
        batches.open(new(bid))
        publish(push(1, bid), push(2, bid))
        one, two = me.consume(2)
        me.settle(ended(one, DISCARD if bid == "failed" else DONE))
        if bid != BID:
            me.settle(ended(two))
            batches.let_go(bid, "hold", TO)
    told = Inspector(lambda: me.broker).stats()
    assert (told.batches, told.batch_pending, told.failed_batches) == (1, 1, 1)
    assert 0 <= told.oldest_batch_s < 60


def test_a_recovered_job_is_not_counted_and_a_buried_one_is(me: Process, batches: Batches) -> None:
    judge = judge_by(PoisonPolicy.of(Config()), [Tracking(Registry(), Config(), time.time)], time.time)
    found = FoundJob("q", "host:1:000000000001", member_job(), begun=False, alone="")
    assert not any(isinstance(effect, EndInBatch) for effect in judge(found).effects)
    [effect] = moved(member_job(), "dead")
    assert isinstance(effect, EndInBatch)
    assert effect.way == "failed"


def test_a_job_of_a_dead_process_stays_in_its_batch(
    me: Process, start: Processes, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID, "complete"))
    publish(push(1))
    batches.let_go(BID, "hold", TO)
    dying = start()
    dying.consume(1)
    assert len(dying.leave()) == 1
    assert status(batches).pending == 1
    me.settle(*map(ended, me.consume(1)))
    assert fired(me) == ["complete of b"]


def test_the_death_of_a_job_with_a_class_that_is_no_unicode_is_told(
    me: Process, batches: Batches, publish: Any
) -> None:
    batches.open(new(BID))
    raw = member_job(1).replace(b'"Job"', rb'"J\ud800"').replace(b'"jid"', rb'"error_message":"\ud800","jid"')
    publish(Push("q", raw, ties=(BatchTie(BID),)))
    [one] = me.consume(1)
    assert me.settle(ended(one, Dead(one.payload))) == [True]
    [death] = batches.deaths(BID)
    assert (death.job_class, death.error) == ("J?", "?")


def test_a_payload_that_this_release_cannot_read_is_in_no_batch() -> None:
    for batch in ({"id": 1}, {"id": ""}, {"id": "b", "to": [1]}, {"id": "b", "to": 1}, "b", {"id": "b" + ".c" * 10}):
        raw = job(1, pyworkers={"v": 1, "needs": [], "batch": batch})
        assert moved(raw, "dead") == ()
        assert buried(raw) == raw
    assert moved(job(1, pyworkers={"v": 2, "batch": {"id": "b"}}), "dead") == ()
