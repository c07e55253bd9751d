"""Limits: places are taken as jobs begin or are pushed, and handed on in the steps in which jobs end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from harness import PARKED, RETRIES, SCHEDULED, Process, Processes, job, part_of, payloads, waiting
from slots import turn_of_a_block

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import DEAD, waiting_in
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.outcome import CANCELLED, EXPIRED, Dead, Discard, Done, Requeue, Reschedule, Retry
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import (
    Begins,
    GivenAway,
    LimitSettings,
    Rate,
    Slot,
    SlotClaim,
    SlotHolder,
    Undeclared,
    Waits,
)
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.policy.consequences import consequences
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.recovering.recoverer import judge_by
from goworkers_py.wire import payload as wire

LATER = 4_000_000_000.0  # in 2096
SLOT, STRICT = Slot("stripe"), Slot("order", "k1")


def limited(jid: object, slot: Slot = SLOT, holds: bool = False) -> bytes:
    tie = {"name": slot.limit, "key": slot.key, "holds": holds}
    return job(jid, pyworkers={"v": 1, "needs": ["limits"], "limits": [tie]})


@pytest.fixture
def limits(me: Process) -> Limits:
    limits = part_of(me.broker, Limits)
    limits.declare(
        [LimitSettings("stripe", 1), LimitSettings("order", 1, holds=True), LimitSettings("api", rate=Rate(1, 1_000))]
    )
    return limits


def wish(delivery: Delivery, *slots: Slot, queues: Sequence[str] = ("q",), parked: bytes = b"") -> SlotWish:
    jid = str(wire.read(delivery.payload)["jid"])
    return SlotWish(slots or (SLOT,), jid, delivery, parked or delivery.payload, queues)


def holders(limits: Limits, slot: Slot = SLOT) -> list[tuple[str, str]]:
    return [(one.jid, one.owner) for one in limits.holders(slot)]


def parked(process: Process) -> list[bytes]:
    return payloads(process.broker.admin.jobs_in(PARKED).first(100))


def test_a_job_begins_with_a_place_or_moves_into_the_line(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2), job(3))
    first, second, third = me.consume(3)
    assert limits.begin(wish(first)) == Begins()
    assert limits.begin(wish(second, parked=limited(2))) == Waits("limit:stripe")
    assert limits.begin(wish(third)) == Waits("limit:stripe")
    assert holders(limits) == [("1", me.identity)]
    assert parked(me) == [limited(2), job(3)]
    assert me.broker.recoverable.lost([first, second]) == [second]


def test_a_job_that_ends_lets_the_oldest_one_go_to_the_front_of_its_queue(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2), job(3))
    first, second, third = me.consume(3)
    for one in (first, second, third):
        limits.begin(wish(one))
    me.publish(job(4))
    assert me.settle((first, Done(effects=(LeaveSlot("1", SLOT, ("q",)),)))) == [True]
    assert waiting(me.broker.admin) == [job(2), job(4)]
    assert holders(limits) == [("2", "")]
    assert parked(me) == [job(3)]
    [again] = me.consume(1)
    assert limits.begin(wish(again)) == Begins()
    assert holders(limits) == [("2", me.identity)]


def test_a_look_lets_jobs_of_any_queue_go(me: Process, limits: Limits) -> None:
    """The process that ends a job may not know the queue of the next one. It never goes through the schedule, where a
    payload that Ruby cannot read would stop Sidekiq's scheduler, and where `queue` in the payload would decide."""
    unreadable = job(2, half="\ud800")
    me.publish(job(1), unreadable)
    first, second = me.consume(2)
    limits.begin(wish(first))
    limits.begin(wish(second))
    me.settle((first, Done(effects=(LeaveSlot("1", SLOT),))))
    limits.look(SLOT)
    assert me.broker.admin.jobs_in(SCHEDULED).count() == 0
    assert (waiting(me.broker.admin), parked(me)) == ([unreadable], [])


def test_a_job_that_was_given_to_others_takes_no_place_in_a_line(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2))
    first, second = me.consume(2)
    limits.begin(wish(first))
    me.settle((second, Done()))
    assert limits.begin(wish(second)) == GivenAway()
    assert parked(me) == []


def test_an_undeclared_limit_is_told(me: Process, limits: Limits) -> None:
    me.publish(job(1))
    [one] = me.consume(1)
    assert limits.begin(wish(one, Slot("other"))) == Undeclared()
    assert limits.take(Slot("other"), "block", me.identity) == Undeclared()


def test_a_job_begun_again_has_its_place_still(me: Process, limits: Limits) -> None:
    """As after a reply that was lost."""
    me.publish(job(1))
    [one] = me.consume(1)
    assert limits.begin(wish(one)) == limits.begin(wish(one)) == Begins()
    assert len(holders(limits)) == 1


def test_nobody_passes_the_line(me: Process, limits: Limits) -> None:
    me.publish(*(job(number) for number in range(1, 5)))
    one, two, three, four = me.consume(4)
    for delivery in (one, two, three):
        limits.begin(wish(delivery))
    limits.set("stripe", concurrent=2)
    assert limits.begin(wish(four)) == Waits("limit:stripe")
    assert holders(limits) == [("1", me.identity), ("2", "")]
    assert parked(me) == [job(3), job(4)]


def test_all_places_are_taken_or_none(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2))
    one, two = me.consume(2)
    assert limits.begin(wish(one, Slot("order", "k1"), SLOT)) == Begins()
    assert limits.begin(wish(two, Slot("order", "k2"), SLOT)) == Waits("limit:stripe")
    assert holders(limits, Slot("order", "k2")) == []
    me.settle((one, Done(effects=(LeaveSlot("1", SLOT, ("q",)), LeaveSlot("1", Slot("order", "k1"))))))
    [two] = me.consume(1)
    assert limits.begin(wish(two, Slot("order", "k2"), SLOT)) == Begins()


def test_a_job_that_waits_again_gives_up_its_other_places(me: Process, limits: Limits) -> None:
    limits.declare([LimitSettings("a", 1), LimitSettings("b", 1)])
    a, b = Slot("a"), Slot("b")
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    limits.begin(wish(one, b))
    assert limits.begin(wish(two, a, b)) == Waits("limit:b")
    me.settle((one, Done(effects=(LeaveSlot("1", b, ("q",)),))))
    assert limits.begin(wish(three, a)) == Begins()
    [two] = me.consume(1)
    assert holders(limits, b) == [("2", "")]
    assert limits.begin(wish(two, a, b)) == Waits("limit:a")
    assert holders(limits, b) == []


def test_a_strict_job_keeps_its_place_while_it_waits_for_another_limit(me: Process, limits: Limits) -> None:
    limits.declare([LimitSettings("a", 1)])
    other = Slot("a")
    me.broker.transport.publish([push(1), push(2)])
    me.publish(job(9))
    first, nine = me.consume(2)
    limits.begin(wish(nine, other))
    assert limits.begin(wish(first, other, STRICT)) == Waits("limit:a")
    assert holders(limits, STRICT) == [("1", "")]
    me.settle((nine, Done(effects=(LeaveSlot("9", other, ("q",)),))))
    [first] = me.consume(1)
    assert limits.begin(wish(first, other, STRICT)) == Begins()


# --- pushes into a strict line


def push(jid: int, slot: Slot = STRICT) -> Push:
    return Push("q", limited(jid, slot, True), ties=(SlotClaim(slot, str(jid)),))


def test_pushes_of_a_key_take_its_place_and_its_line_in_order(me: Process, limits: Limits) -> None:
    other = push(4, Slot("order", "k2"))
    assert list(me.broker.transport.publish([push(1), push(2), push(3), other])) == [Published.PUSHED] * 4
    assert waiting(me.broker.admin) == [push(1).payload, other.payload]
    assert parked(me) == [push(2).payload, push(3).payload]
    assert holders(limits, STRICT) == [("1", "")]


def test_pushes_of_an_atomic_job_join_the_line(me: Process, limits: Limits) -> None:
    me.publish(job(9))
    [one] = me.consume(1)
    me.settle((one, Done(effects=(PushJobs("9", (push(1), push(2))),))))
    assert waiting(me.broker.admin) == [push(1).payload]
    assert parked(me) == [push(2).payload]


def test_a_push_before_any_declaration_is_strict(me: Process) -> None:
    limits = part_of(me.broker, Limits)
    me.broker.transport.publish([push(1), push(2)])
    assert (waiting(me.broker.admin), parked(me)) == ([push(1).payload], [push(2).payload])
    [one] = me.consume(1)
    me.settle((one, Done(effects=(LeaveSlot("1", STRICT, ("q",)),))))
    assert holders(limits, STRICT) == [("2", "")]


ENDS = [Done(), Dead(limited(1, STRICT, True)), Discard(), CANCELLED, EXPIRED]
GOES_ON = [Retry(LATER, limited(1, STRICT, True)), Reschedule(LATER, limited(1, STRICT, True)), Requeue()]


@pytest.mark.parametrize("outcome", [*ENDS, *GOES_ON], ids=lambda outcome: type(outcome).__name__)
def test_the_end_of_a_strict_job_frees_its_place_and_a_retry_keeps_it(
    me: Process, limits: Limits, outcome: Any
) -> None:
    me.broker.transport.publish([push(1), push(2)])
    [one] = me.consume(1)
    limits.begin(wish(one, STRICT))
    effects = consequences(wire.read(one.payload), outcome, 0.0)
    assert effects == ((LeaveSlot("1", STRICT, ("q",)) if outcome in ENDS else HoldSlot("1", STRICT)),)
    me.settle((one, type(outcome)(**{**_fields(outcome), "effects": effects})))
    assert holders(limits, STRICT) == [("2" if outcome in ENDS else "1", "")]
    assert len(parked(me)) == (0 if outcome in ENDS else 1)


def _fields(outcome: Any) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in outcome.__dataclass_fields__}


@pytest.mark.parametrize("place", ["waiting", "retry", "parked"])
def test_a_job_that_people_delete_leaves_its_place(me: Process, limits: Limits, place: str) -> None:
    inspector = Inspector(lambda: me.broker)
    me.broker.transport.publish([push(1), push(2)])
    where = {"waiting": waiting_in("q"), "retry": RETRIES, "parked": PARKED}[place]
    if place == "retry":
        [one] = me.consume(1)
        me.settle((one, Retry(LATER, one.payload, effects=(HoldSlot("1", STRICT),))))
    next(iter(inspector.delete(where, Filter(jids=["2" if place == "parked" else "1"]))))
    assert holders(limits, STRICT) == [("1" if place == "parked" else "2", "")]
    assert parked(me) == []


# --- dead owners


def test_the_place_of_a_dead_owner_goes_to_the_next_job(
    me: Process, other: Process, limits: Limits, start: Processes
) -> None:
    me.publish(job(1), job(2))
    [one] = other.consume(1)
    [two] = me.consume(1)
    limits.begin(wish(one))
    limits.begin(wish(two))
    assert limits.look(SLOT, ["q"]).let_go == 0
    start.expire(other)
    assert limits.look(SLOT, ["q"]).let_go == 0  # a missing lease is no death
    me.broker.recoverable.declare_dead(me.identity, "", [other.identity])
    looked = limits.look(SLOT, ["q"])
    assert (looked.let_go, looked.waiting) == (1, 0)
    assert holders(limits) == [("2", "")]


def test_the_line_of_a_strict_limit_waits_for_the_job_of_a_dead_owner(
    me: Process, other: Process, limits: Limits, start: Processes
) -> None:
    me.broker.transport.publish([push(1), push(2)])
    [one] = other.consume(1)
    limits.begin(wish(one, STRICT))
    start.expire(other)
    judge = judge_by(PoisonPolicy.of(Config()), [Tracking(Registry(), Config(), lambda: 0.0)], lambda: 0.0)
    list(me.broker.recoverable.recover(me.identity, judge, ""))
    assert limits.look(STRICT, ["q"]).let_go == 0
    assert holders(limits, STRICT) == [("1", "")]
    [again] = me.consume(1)
    assert limits.begin(wish(again, STRICT)) == Begins()
    assert parked(me) == [push(2).payload]


def test_a_place_whose_job_is_gone_is_freed_only_if_it_has_not_changed(me: Process, limits: Limits) -> None:
    me.broker.transport.publish([push(1), push(2)])
    [gone] = limits.holders(STRICT)
    assert limits.look(STRICT, ["q"], [SlotHolder("1", "", 1.0, "q")]).let_go == 0
    assert limits.look(STRICT, ["q"], [gone]).let_go == 1
    assert holders(limits, STRICT) == [("2", "")]


# --- rates


def test_a_rate_lets_the_first_jobs_begin_and_tells_when_the_next_is_due(me: Process, limits: Limits) -> None:
    limits.declare([LimitSettings("api", rate=Rate(1, 1_000, burst=2))])
    me.publish(job(1), job(2), job(3))
    api = Slot("api")
    answers = [limits.begin(wish(one, api)) for one in me.consume(3)]
    assert answers == [Begins(), Begins(), Waits("limit:api")]
    due = limits.due(10)
    assert due.slots == []
    assert due.next_in_s is not None
    assert 990 < due.next_in_s <= 1_000
    limits.set("api", rate=Rate(1_000, 1))
    assert limits.due(10).slots == [api]
    limits.unset("api")


def test_a_limit_with_both_looks_at_the_time_of_its_rate(me: Process, limits: Limits) -> None:
    limits.declare([LimitSettings("api", 5, Rate(1, 1_000))])
    me.publish(job(1), job(2))
    for one in me.consume(2):
        limits.begin(wish(one, Slot("api")))
    assert limits.look(Slot("api"), ["q"]).let_go == 0
    due = limits.due(10)
    assert due.next_in_s is not None
    assert 900 < due.next_in_s <= 1_000, "far beyond the time of a look at a line without a rate"


def test_what_the_rate_lets_go_needs_no_second_place(me: Process, limits: Limits) -> None:
    limits.declare([LimitSettings("api", rate=Rate(1, 1_000))])
    me.publish(job(1), job(2))
    api = Slot("api")
    for one in me.consume(2):
        limits.begin(wish(one, api))
    limits.set("api", rate=Rate(1, 1_000, burst=2))
    assert limits.look(api, ["q"]).let_go == 1
    limits.unset("api")
    [again] = me.consume(1)
    assert limits.begin(wish(again, api)) == Begins()
    assert holders(limits, api) == []


# --- blocks and people


def test_a_block_has_a_place_while_its_owner_lives(me: Process, limits: Limits) -> None:
    me.broker.recoverable.beat(Presence("host:1:0000000000aa", {}, blocks=True))
    assert limits.take(SLOT, "block-1", "host:1:0000000000aa") is True
    assert limits.take(SLOT, "block-2", "host:1:0000000000aa") is False
    limits.look(SLOT)
    assert holders(limits) == [("block-1", "host:1:0000000000aa")]
    limits.leave(SLOT, "block-1")
    assert limits.take(SLOT, "block-2", "host:2:0000000000bb") is True  # it has never beaten
    limits.look(SLOT)
    assert holders(limits) == []


def test_people_override_a_limit_and_see_who_waits(me: Process, limits: Limits) -> None:
    me.broker.transport.publish([push(1), push(2), push(3, Slot("order", "k2"))])
    assert limits.set("nobody's", concurrent=2) is False
    assert limits.set("order", concurrent=2) is True
    [entry] = [one for one in limits.entries() if one.name == "order"]
    assert (entry.concurrent, entry.declared.concurrent, entry.rate) == (2, 1, None)
    told = {one.slot.key: (one.waiting, [holder.jid for holder in one.holders]) for one in limits.slots("order")}
    assert told == {"k1": (1, ["1"]), "k2": (0, ["3"])}
    limits.declare([LimitSettings("order", 5)])
    assert [one.concurrent for one in limits.entries() if one.name == "order"] == [2]
    assert limits.unset("order") is True
    assert limits.unset("order") is False
    assert [one.concurrent for one in limits.entries() if one.name == "order"] == [5]
    limits.set("stripe", concurrent=-1)
    assert [one.concurrent for one in limits.entries() if one.name == "stripe"] == [None]
    assert limits.forget("stripe") is True
    assert "stripe" not in [one.name for one in limits.entries()]


def test_a_dead_job_that_people_retry_takes_a_place_anew(me: Process, limits: Limits) -> None:
    me.broker.transport.publish([push(1)])
    [one] = me.consume(1)
    limits.begin(wish(one, STRICT))
    me.settle((one, Dead(one.payload, effects=(LeaveSlot("1", STRICT),))))
    for _ in Inspector(lambda: me.broker).retry(DEAD, Filter()):
        pass
    [again] = me.consume(1)
    assert limits.begin(wish(again, STRICT)) == Begins()


def test_a_block_that_asks_gets_its_turn_before_jobs_that_came_after_it(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    limits.begin(wish(one))
    limits.begin(wish(two))
    with turn_of_a_block():
        assert limits.take(SLOT, "block", me.identity) is False
        assert limits.begin(wish(three)) == Waits("limit:stripe")
        me.settle((one, Done(effects=(LeaveSlot("1", SLOT, ("q",)),))))
        assert holders(limits) == [("2", "")]
        assert limits.take(SLOT, "other block", me.identity) is False
        limits.leave(SLOT, "2", ["q"])
        assert holders(limits) == []
        assert parked(me) == [job(3)]
        assert limits.take(SLOT, "block", me.identity) is True
    limits.leave(SLOT, "block", ["q"])
    assert holders(limits) == [("3", "")]
