"""Limits: jobs with several of them keep places while they wait for others, in one order."""

from __future__ import annotations

import random

import pytest
from harness import Process, job, part_of, waiting
from slots import end, holders, jid_of, wish

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Begins, LimitSettings, Slot, SlotClaim, Waits

A, B, STRICT = Slot("a"), Slot("b"), Slot("strict")


@pytest.fixture
def limits(me: Process) -> Limits:
    limits = part_of(me.broker, Limits)
    limits.declare([LimitSettings("a", 1), LimitSettings("b", 1), LimitSettings("strict", 1, holds=True)])
    return limits


def test_a_job_keeps_the_places_before_the_one_that_it_waits_for(me: Process, limits: Limits) -> None:
    """Else it starves: each time that it gets one of its places, other jobs have taken the other one."""
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    limits.begin(wish(one, A))
    limits.begin(wish(two, B))
    assert limits.begin(wish(three, A, B)) == Waits("limit:a")
    end(me, one, A)
    [three] = me.consume(1)
    assert limits.begin(wish(three, A, B)) == Waits("limit:b")
    assert holders(limits, A) == ["3"]
    end(me, two, B)
    [three] = me.consume(1)
    assert limits.begin(wish(three, A, B)) == Begins()


def test_a_job_that_waits_for_a_strict_limit_gives_up_the_others(me: Process, limits: Limits) -> None:
    """A strict place is kept while its job waits for another limit, so nobody may wait for it with a place there."""
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    limits.begin(wish(one, A))
    assert limits.begin(wish(three, A, STRICT)) == Waits("limit:a")
    limits.begin(wish(two, STRICT))
    end(me, one, A)
    [three] = me.consume(1)
    assert limits.begin(wish(three, A, STRICT)) == Waits("limit:strict")
    assert holders(limits, A) == []


def test_a_job_that_waits_for_its_key_holds_no_place_that_jobs_of_other_keys_need(me: Process, limits: Limits) -> None:
    limits.declare([LimitSettings("api", 2), LimitSettings("customer", 1)])
    api, ada, bob = Slot("api"), Slot("customer", "ada"), Slot("customer", "bob")
    me.publish(*map(job, range(1, 6)))
    one, two, three, four, five = me.consume(5)
    assert limits.begin(wish(one, api, ada)) == Begins()
    for waits in (two, three):
        assert limits.begin(wish(waits, api, ada)) == Waits("limit:customer:ada")
    assert limits.begin(wish(four, api, bob)) == Begins()
    assert limits.begin(wish(five, api, bob)) == Waits("limit:customer:bob"), "the first full one in the order"
    end(me, one, api, ada)
    [two] = me.consume(1)
    assert limits.begin(wish(two, api, ada)) == Begins()
    assert (holders(limits, ada), holders(limits, api)) == (["2"], ["4", "2"])


def test_a_job_that_was_let_go_and_then_waits_for_its_key_gives_its_place_to_another(
    me: Process, limits: Limits
) -> None:
    limits.declare([LimitSettings("api", 1), LimitSettings("customer", 1)])
    api, ada, bob = Slot("api"), Slot("customer", "ada"), Slot("customer", "bob")
    me.publish(*map(job, range(1, 5)))
    one, two, three, four = me.consume(4)
    limits.begin(wish(one, api))
    assert limits.begin(wish(two, api, ada)) == limits.begin(wish(three, api, bob)) == Waits("limit:api")
    limits.begin(wish(four, ada))
    end(me, one, api)
    [two] = me.consume(1)
    assert limits.begin(wish(two, api, ada)) == Waits("limit:customer:ada")
    assert holders(limits, api) == ["3"]


def test_jobs_that_begin_while_any_number_may_count_after_that(me: Process, limits: Limits) -> None:
    limits.set("a", concurrent=-1)
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    assert limits.begin(wish(one, A)) == limits.begin(wish(two, A)) == Begins()
    limits.unset("a")
    assert limits.begin(wish(three, A)) == Waits("limit:a")
    end(me, one, A)
    assert holders(limits, A) == ["2"]
    end(me, two, A)
    assert holders(limits, A) == ["3"]


def push(jid: str, slots: list[Slot]) -> Push:
    """As from Python: the job joins the line of its first strict limit."""
    strict = next((slot for slot in slots if slot.limit.startswith("strict")), None)
    return Push("q", job(jid), ties=(SlotClaim(strict, jid),) if strict else ())


KEYED = [Slot("a2", "k1"), Slot("z", "k1"), Slot("z", "k2"), Slot("strict3", "k1")]


@pytest.mark.parametrize("keyed", [[], KEYED], ids=["plain", "keyed"])
@pytest.mark.parametrize("seed", range(5))
def test_jobs_with_any_limits_never_wait_for_each_other(
    me: Process, limits: Limits, seed: int, keyed: list[Slot]
) -> None:
    choose, names = random.Random(seed), [A, B, Slot("c"), STRICT, Slot("strict2"), *keyed]
    limits.declare([LimitSettings("c", 2), LimitSettings("a2", 1), LimitSettings("z", 2)])
    limits.declare([LimitSettings(name, 1, holds=True) for name in ("strict2", "strict3")])
    slots_of = {str(number): sorted(choose.sample(names, choose.randint(1, 4))) for number in range(40)}
    me.broker.transport.publish([push(jid, slots) for jid, slots in slots_of.items()])
    running, ended = list[Delivery](), 0
    for _ in range(1_000):
        if ended == len(slots_of):
            break
        for one in me.consume(min(3, len(waiting(me.broker.admin)))):
            if limits.begin(wish(one, *slots_of[jid_of(one)])) == Begins():
                running.append(one)
        assert running or waiting(me.broker.admin)
        if running and choose.random() < 0.7:
            one = running.pop(choose.randrange(len(running)))
            end(me, one, *slots_of[jid_of(one)])
            ended += 1
    assert ended == len(slots_of)
