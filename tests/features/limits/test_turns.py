"""Limits: places and turns that must not be lost, and rates that change."""

from __future__ import annotations

import time

import pytest
from harness import Process, job, part_of, payloads, waiting
from slots import turn_of_a_block

from goworkers_py.admin.places import PARKED
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import Done
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import ANY_RATE, Begins, LimitSettings, Rate, Slot, Waits
from goworkers_py.wire import payload as wire

OWNER = "host:1:0000000000aa"
ONE = Slot("one")


@pytest.fixture
def limits(me: Process) -> Limits:
    limits = part_of(me.broker, Limits)
    limits.declare([LimitSettings("one", 1)])
    me.broker.recoverable.beat(Presence(OWNER, {}, blocks=True))
    return limits


def wish(delivery: Delivery, *slots: Slot) -> SlotWish:
    jid = str(wire.read(delivery.payload)["jid"])
    return SlotWish(slots or (ONE,), jid, delivery, delivery.payload, ("q",))


def holders(limits: Limits, slot: Slot = ONE) -> list[str]:
    return [one.jid for one in limits.holders(slot)]


def parked(process: Process) -> list[bytes]:
    return payloads(process.broker.admin.jobs_in(PARKED).first(100))


def end(process: Process, delivery: Delivery, slot: Slot = ONE) -> None:
    jid = str(wire.read(delivery.payload)["jid"])
    process.settle((delivery, Done(effects=(LeaveSlot(jid, slot, ("q",)),))))


def test_a_rate_that_is_made_faster_does_not_wait_for_the_old_one(me: Process, limits: Limits) -> None:
    slow = Slot("slow")
    limits.declare([LimitSettings("slow", rate=Rate(1, 3_600))])
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    assert limits.begin(wish(one, slow)) == Begins()
    for waits in (two, three):
        assert limits.begin(wish(waits, slow)) == Waits("limit:slow")
    limits.set("slow", rate=Rate(1_000, 1))
    time.sleep(0.01)
    assert limits.look(slow, ["q"]).let_go >= 1


def test_lines_are_looked_at_when_a_program_declares_other_values(me: Process, limits: Limits) -> None:
    slow = Slot("slow")
    limits.declare([LimitSettings("slow", rate=Rate(1, 3_600))])
    me.publish(job(1), job(2))
    for one in me.consume(2):
        limits.begin(wish(one, slow))
    limits.declare([LimitSettings("slow", rate=Rate(1, 3_600))])
    assert limits.due(10).slots == []
    limits.declare([LimitSettings("slow", rate=Rate(1_000, 1))])
    assert limits.due(10).slots == [slow]


def test_the_turn_of_a_block_outlives_the_last_place(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    limits.begin(wish(one))
    with turn_of_a_block():
        assert limits.take(ONE, "block-1", OWNER) is False
        time.sleep(0.01)
        limits.begin(wish(two))
        end(me, one)
        assert holders(limits) == []
        assert limits.begin(wish(three)) == Waits("limit:one")
        assert limits.take(ONE, "block-1", OWNER) is True


def test_a_later_block_does_not_take_the_turn_of_another(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2))
    one, two = me.consume(2)
    limits.begin(wish(one))
    with turn_of_a_block():
        assert limits.take(ONE, "block-1", OWNER) is False
        time.sleep(0.01)
        limits.begin(wish(two))
        end(me, one)
        assert limits.take(ONE, "block-2", OWNER) is False
        assert limits.take(ONE, "block-1", OWNER) is True


def test_a_block_that_gives_up_ends_its_turn(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2))
    one, two = me.consume(2)
    limits.begin(wish(one))
    with turn_of_a_block():
        assert limits.take(ONE, "block-1", OWNER) is False
        time.sleep(0.01)
        limits.begin(wish(two))
        end(me, one)
        assert parked(me) == [job(2)]
    limits.leave(ONE, "block-1", ["q"])
    assert holders(limits) == ["2"]
    assert waiting(me.broker.admin) == [job(2)]


def test_a_place_outlives_the_time_of_a_rate(me: Process, limits: Limits) -> None:
    """The places of a rate are forgotten after its time; those of jobs are not."""
    limits.set("one", rate=Rate(2, 1))
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    assert limits.begin(wish(one)) == Begins()
    end(me, one)
    limits.unset("one")
    assert limits.begin(wish(two)) == Begins()
    time.sleep(2.2)
    assert limits.begin(wish(three)) == Waits("limit:one")


def test_people_lift_a_rate(me: Process, limits: Limits) -> None:
    slow = Slot("slow")
    limits.declare([LimitSettings("slow", rate=Rate(1, 3_600))])
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    assert limits.begin(wish(one, slow)) == Begins()
    assert limits.begin(wish(two, slow)) == Waits("limit:slow")
    limits.set("slow", rate=ANY_RATE)
    [entry] = [one for one in limits.entries() if one.name == "slow"]
    assert (entry.rate, entry.set_rate) == (None, ANY_RATE)
    assert limits.look(slow, ["q"]).let_go == 1
    assert limits.begin(wish(three, slow)) == Begins()
    limits.unset("slow")
    assert [one.rate for one in limits.entries() if one.name == "slow"] == [Rate(1, 3_600)]
