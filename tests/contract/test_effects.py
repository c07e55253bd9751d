"""Effects of outcomes, which happen in the step in which a delivery is settled, and pushes with an id."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import DEAD, PARKED, RETRIES, SCHEDULED, Process, Processes, job, jobs, payloads, stored, waiting
from waiting import eventually

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.core.effect import PostJobs, PushJobs, StoreValue
from goworkers_py.core.outcome import Cancelled, Dead, Discard, Done, Expired, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock
from goworkers_py.features.for_ruby.end import pushed as echo_pushed

LATER = 4_000_000_000.5  # in 2096

Make = Callable[[PushJobs], Outcome]
OUTCOMES: dict[str, Make] = {
    "done": lambda effect: Done(effects=(effect,)),
    "retry": lambda effect: Retry(LATER, job("again"), effects=(effect,)),
    "dead": lambda effect: Dead(job("dead"), effects=(effect,)),
    "discard": lambda effect: Discard("why", effects=(effect,)),
    "requeue": lambda effect: Requeue(effects=(effect,)),
    "requeue last": lambda effect: Requeue(last=True, effects=(effect,)),
    "park": lambda effect: Park("line", effects=(effect,)),
    "reschedule": lambda effect: Reschedule(LATER, job("later"), effects=(effect,)),
    "expired": lambda effect: Expired(effects=(effect,)),
    "cancelled": lambda effect: Cancelled(effects=(effect,)),
}


def children(me: Process) -> PushJobs:
    """Two for one queue, one for another, one for later."""
    return PushJobs(
        "parent", (me.push(job(1), "a"), me.push(job(2), "b"), me.push(job(3), "a"), me.push(job(4), at=LATER))
    )


@pytest.mark.parametrize("how", OUTCOMES)
def test_jobs_are_pushed_in_the_step_in_which_a_delivery_is_settled(me: Process, admin: Admin, how: str) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    assert me.settle((parent, OUTCOMES[how](children(me)))) == [True]
    assert (waiting(admin, "a"), waiting(admin, "b")) == ([job(1), job(3)], [job(2)])
    assert job(4) in stored(admin, SCHEDULED)
    assert {"a", "b"} <= {queue.name for queue in admin.queues()}
    elsewhere = [*waiting(admin), *stored(admin, SCHEDULED), *stored(admin, PARKED), *stored(admin, RETRIES)]
    elsewhere += stored(admin, DEAD)
    goes_on = 0 if how in ("done", "discard", "expired", "cancelled") else 1
    assert len(elsewhere) == 1 + goes_on
    assert list(admin.in_progress()) == []


def test_thousands_of_jobs_are_pushed_in_one_step_and_in_order(me: Process) -> None:
    # Lua passes 8,000 arguments at most. The others take long for each job, and have no such bound.
    many = jobs(10_000 if me.config.broker.startswith("redis") else 2_000)
    me.publish(job("parent"))
    [parent] = me.consume(1)
    pushed = PushJobs("parent", tuple(me.push(one, "many") for one in many))
    assert me.settle((parent, Done(effects=(pushed,)))) == [True]
    taken: list[bytes] = []
    while len(taken) < len(many):
        taken += payloads(me.consume(1_000, "many"))
    assert taken == many


def test_a_delivery_that_is_not_ours_any_more_has_no_effect(me: Process, admin: Admin, store: Store) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    me.settle((parent, Done()))
    late = Done(effects=(children(me), StoreValue("parent", "result", b"late", 60)))
    assert me.settle((parent, late)) == [False]
    assert waiting(admin, "a") == waiting(admin, "b") == stored(admin, SCHEDULED) == []
    assert store.value("result", "parent") is None


def test_an_echo_is_pushed_once_in_the_step_of_the_settlement(me: Process, admin: Admin) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    done = Done(effects=(echo_pushed("parent", "echoes", job("echo")), children(me)))
    assert (me.settle((parent, done)), me.settle((parent, done))) == ([True], [False])
    assert (waiting(admin, "echoes"), waiting(admin, "b")) == ([job("echo")], [job(2)])


def test_the_effects_on_locks_of_ruby_do_not_keep_a_delivery_from_being_settled(me: Process) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    locks = FreeRubyLock("parent", "uniquejobs:d"), TakeRubyLock("parent", "uniquejobs:d", 1, 0)
    assert me.settle((parent, Done(effects=locks))) == [True]


def test_pushes_to_another_broker_wait_in_its_outbox(me: Process, admin: Admin, store: Store) -> None:
    me.publish(job("parent"), job("another"))
    parent, another = me.consume(2)
    pushes = tuple(me.push(one, "far", push_id=f"id {number}") for number, one in enumerate(jobs(3)))
    later = me.push(job("later"), "far", LATER, "id later")
    assert me.settle(
        (parent, Done(effects=(PostJobs("parent", "a broker: \u00e9", pushes), PostJobs("parent", "b", (later,))))),
        (another, Done(effects=(PostJobs("another", "a broker: \u00e9", (later,)),))),
    ) == [True, True]
    assert [(outbox.name, outbox.size) for outbox in admin.outboxes()] == [("a broker: \u00e9", 4), ("b", 1)]
    assert admin.stats().outbox == 5
    assert admin.queue("far") is None
    first = store.posted("a broker: \u00e9", 2)
    assert [one.push for one in first] == [*pushes[:2]]
    assert [one.push for one in store.posted("a broker: \u00e9", 2, passed=1)] == [*pushes[1:]]
    for _ in range(2):  # another process may have sent them too
        store.sent("a broker: \u00e9", first)
        assert [one.push for one in store.posted("a broker: \u00e9", 9)] == [pushes[2], later]
    store.sent("b", store.posted("b", 9))
    assert ([one.name for one in admin.outboxes()], store.posted("b", 9)) == (["a broker: \u00e9"], [])


def test_a_batch_that_is_asked_again_has_its_effects_once(me: Process, admin: Admin) -> None:
    me.publish(job("parent"), job("other"))
    parent, other = me.consume(2)
    batch = me.batch((parent, Done(effects=(children(me),))), (other, Done()))
    assert [list(me.broker.transport.settle(batch)) for _ in range(3)] == [[True, True]] * 3
    assert (waiting(admin, "a"), waiting(admin, "b")) == ([job(1), job(3)], [job(2)])


def test_each_delivery_of_a_batch_has_its_own_effects(me: Process, admin: Admin) -> None:
    me.publish(*jobs(5))
    first, second, gone, fourth, _ = held = me.consume(5)
    me.settle((gone, Done()))

    def pushing(name: str) -> Outcome:
        return Done(effects=(PushJobs(name, (me.push(job(name), "children"),)),))

    batch = me.batch((first, pushing("1")), (second, Done()), (gone, pushing("3")), (fourth, pushing("4")), held=held)
    assert list(me.broker.transport.settle(batch)) == [True, True, False, True]
    assert sorted(waiting(admin, "children")) == [job("1"), job("4")]
    assert len(list(admin.in_progress())) == 1


def test_a_waiting_consumer_gets_a_job_that_an_effect_pushes(me: Process, other: Process) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    me.settle((parent, Done(effects=(PushJobs("parent", (me.push(job("child"), "children"),)),))))
    assert payloads(other.consume(1, queue="children")) == [job("child")]


def test_a_requeue_with_a_payload_replaces_that_of_the_job(me: Process) -> None:
    me.publish(job(1), job(2))
    [first] = me.consume(1)
    assert me.settle((first, Requeue(job("1 again"), last=True))) == [True]
    assert payloads(me.consume(2)) == [job(2), job("1 again")]


# --- values


def test_a_value_is_stored_until_its_life_is_over(me: Process, store: Store) -> None:
    me.publish(job(1))
    [delivery] = me.consume(1)
    value = b"\xff\x00 any bytes"
    effects = (StoreValue("1", "result", value, 3600), StoreValue("1", "state", b"soon gone", 1))
    assert store.value("result", "1") is None
    assert me.settle((delivery, Done(effects=effects))) == [True]
    assert store.value("result", "1") == value
    assert eventually(lambda: store.value("state", "1") is None)
    assert store.value("result", "1") == value
    assert store.value("result", "2") is None


def test_a_value_replaces_that_of_the_same_id(me: Process, store: Store) -> None:
    for value in (b"first", b"second"):
        me.publish(job(1))
        [delivery] = me.consume(1)
        me.settle((delivery, Retry(LATER, job(1), effects=(StoreValue("1", "state", value, 3600),))))
    assert store.value("state", "1") == b"second"


def test_all_processes_see_a_value(me: Process, other: Process, store: Store) -> None:
    me.publish(job(1))
    [delivery] = me.consume(1)
    me.settle((delivery, Done(effects=(StoreValue("1", "result", b"seen", 3600),))))
    assert other.broker.store.value("result", "1") == b"seen"


# --- pushes with an id


def test_a_push_whose_id_was_published_is_a_duplicate(me: Process, other: Process, admin: Admin) -> None:
    pushed, duplicate = Published.PUSHED, Published.DUPLICATE
    now = me.push(job(1), push_id="one"), me.push(job(2)), me.push(job(3), push_id="one")
    later = me.push(job(4), at=LATER, push_id="two")
    assert list(me.broker.transport.publish([*now, later])) == [pushed, pushed, duplicate, pushed]
    again = me.push(job(5), "q2", push_id="two")
    assert list(other.broker.transport.publish([again, me.push(job(6))])) == [duplicate, pushed]
    assert waiting(admin) == [job(1), job(2), job(6)]
    assert waiting(admin, "q2") == []
    assert stored(admin, SCHEDULED) == [job(4)]


def test_pushes_without_an_id_are_never_duplicates(me: Process) -> None:
    assert list(me.broker.transport.publish([me.push(job(1)), me.push(job(1))])) == [Published.PUSHED] * 2


def test_of_processes_that_publish_one_id_at_the_same_time_one_publishes(start: Processes, admin: Admin) -> None:
    brokers = [start().broker for _ in range(4)]
    results = [list(one.transport.publish([Process.push(job(1), push_id="same")])) for one in brokers]
    assert results.count([Published.PUSHED]) == 1
    assert waiting(admin) == [job(1)]
