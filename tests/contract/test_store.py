"""Jobs that wait for a time are moved to their queues when they are due."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import DEAD, RETRIES, SCHEDULED, Process, Processes, account, can, job, jobs, payloads, stored, waiting

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.brokers.contracts.store import Forward, Store
from goworkers_py.core.effect import Effect, PostJobs, PushJobs, StoreValue
from goworkers_py.core.outcome import (
    CANCELLED,
    EXPIRED,
    UNACKNOWLEDGED,
    Dead,
    Discard,
    Done,
    Park,
    Requeue,
    Reschedule,
    Retry,
)

LATER = 4_000_000_000.5  # in 2096

PLACES = pytest.mark.parametrize("place", [SCHEDULED, RETRIES], ids=["scheduled", "retries"])


def to(queue: str | None, payload: bytes | None = None) -> Forward:
    return lambda was, now: (queue, was if payload is None else payload)


def put(process: Process, place: Place, *timed: tuple[bytes, float]) -> None:
    """Puts each job into that state with its time."""
    if place is SCHEDULED:
        process.broker.transport.publish([process.push(payload, at=at) for payload, at in timed])
        return
    process.publish(*(b"%d" % number for number in range(len(timed))), queue="put")
    taken = process.consume(len(timed), "put")
    process.settle(*((one, Retry(at, payload)) for one, (payload, at) in zip(taken, timed, strict=True)))


def promote(process: Process, place: Place, forward: Forward, at_once: int = 100) -> list[float | None]:
    return list(process.broker.store.promote(place.state, forward, at_once))


def numbered(timed: Iterable[bytes]) -> list[tuple[bytes, float]]:
    return [(payload, 1.0 + number) for number, payload in enumerate(timed)]


@PLACES
def test_due_jobs_go_to_their_queue_in_the_order_in_which_they_were_due(
    me: Process, store: Store, place: Place
) -> None:
    put(me, place, (job(3), 30.0), (job(1), 10.0), (job(2), 20.0))
    me.publish(job(0))
    promote(me, place, to("q"))
    assert payloads(me.consume(4)) == jobs_named(0, 1, 2, 3)


def jobs_named(*names: object) -> list[bytes]:
    return [job(name) for name in names]


@PLACES
def test_a_job_waits_until_it_is_due_by_the_clock_of_the_broker(
    me: Process, store: Store, admin: Admin, place: Place
) -> None:
    now = admin.now()
    put(me, place, (job("due"), now - 1), (job("later"), now + 100), (job("much later"), now + 500))
    told: list[float] = []
    answers = promote(me, place, lambda payload, at: told.append(at) or ("q", payload))
    assert now <= told[0] <= admin.now()
    assert answers[-1] == pytest.approx(100, abs=20)
    assert waiting(admin) == [job("due")]
    assert [(one.payload, one.at) for one in admin.jobs_in(place).first(10)] == [
        (job("later"), now + 100), (job("much later"), now + 500),
    ]  # fmt: skip


@PLACES
def test_a_promotion_without_jobs_says_that_none_waits(me: Process, store: Store, place: Place) -> None:
    assert promote(me, place, to("q")) == [None]
    put(me, place, (job(1), 1.0))
    assert promote(me, place, to("q"))[-1] is None
    assert promote(me, place, to("q")) == [None]


@PLACES
def test_a_due_job_goes_where_forward_says_with_the_payload_of_forward(
    me: Process, store: Store, admin: Admin, place: Place
) -> None:
    put(me, place, *numbered(jobs_named("a", "b", "c")))
    goals = {job("a"): ("x", job("new a")), job("b"): (None, job("new b")), job("c"): ("y", job("c"))}
    before = admin.now()
    promote(me, place, lambda payload, now: goals[payload])
    assert (waiting(admin, "x"), waiting(admin, "y")) == ([job("new a")], [job("c")])
    assert [queue.name for queue in admin.queues() if queue.size] == ["x", "y"]
    [dead] = admin.jobs_in(DEAD).first(10)
    assert dead.payload == job("new b")
    assert before <= dead.at <= admin.now()
    assert stored(admin, place) == []


@PLACES
def test_each_step_moves_up_to_at_once_jobs_in_the_order_in_which_they_are_due(
    me: Process, store: Store, admin: Admin, place: Place
) -> None:
    put(me, place, *numbered(jobs(5)))
    put(me, place, (job("later"), admin.now() + 100))
    steps = [(len(waiting(admin)), next_in_s) for next_in_s in store.promote(place.state, to("q"), 2)]
    assert [moved for moved, _ in steps][:3] == [2, 4, 5]
    assert all(next_in_s is not None and 0 <= next_in_s <= 100 for _, next_in_s in steps)
    assert waiting(admin) == jobs(5)


@PLACES
def test_a_promotion_that_is_broken_off_leaves_every_job_in_one_place(
    me: Process, store: Store, admin: Admin, place: Place
) -> None:
    put(me, place, *numbered(jobs(5)))
    next(iter(store.promote(place.state, to("q"), 2)))
    assert waiting(admin) + stored(admin, place) == jobs(5)


def test_one_state_is_promoted_without_the_other(me: Process, store: Store, admin: Admin) -> None:
    put(me, SCHEDULED, (job("scheduled"), 1.0))
    put(me, RETRIES, (job("retry"), 1.0))
    promote(me, RETRIES, to("q"))
    assert waiting(admin) == [job("retry")]
    assert stored(admin, SCHEDULED) == [job("scheduled")]


@PLACES
def test_processes_that_promote_at_the_same_time_move_each_job_once(
    start: Processes, admin: Admin, place: Place
) -> None:
    processes = [start() for _ in range(4)]
    for part in range(4):
        put(processes[0], place, *numbered(jobs(1_000)[part * 250 : part * 250 + 250]))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda process: promote(process, place, to("q"), 30), processes))
    assert sorted(waiting(admin)) == jobs(1_000)
    assert len(account(admin)) == 1_000


@PLACES
def test_a_job_that_was_moved_during_a_promotion_is_not_moved_again(
    me: Process, other: Process, store: Store, admin: Admin, place: Place
) -> None:
    put(me, place, *numbered(jobs(3)))

    def forward(payload: bytes, now: float) -> tuple[str | None, bytes]:
        if payload == jobs(3)[0]:
            promote(other, place, to("others"))
        return "q", payload

    promote(me, place, forward)
    assert (waiting(admin, "others"), waiting(admin)) == (jobs(3), [])


def test_the_time_of_a_job_may_be_infinite_negative_or_a_fraction(me: Process, store: Store, admin: Admin) -> None:
    put(me, SCHEDULED, (job("never"), float("inf")), (job("negative"), -5.0), (job("exact"), 1700000000.1234567))
    promote(me, SCHEDULED, to("q"))
    assert waiting(admin) == jobs_named("negative", "exact")
    assert [(one.payload, one.at) for one in admin.jobs_in(SCHEDULED).first(10)] == [(job("never"), float("inf"))]


# --- lines


def park(me: Process, line: str, *payloads: bytes, queue: str = "q") -> None:
    me.publish(*payloads, queue=queue)
    me.settle(*((one, Park(line)) for one in me.consume(len(payloads), queue)))


def test_parked_jobs_wait_in_their_line_and_count_neither_as_processed_nor_as_failed(me: Process, admin: Admin) -> None:
    park(me, "a", *jobs(2))
    park(me, "b", job("other"), queue="p")
    assert [(line.name, line.size) for line in admin.lines()] == [("a", 2), ("b", 1)]
    assert [0 <= line.latency_s < 60 for line in admin.lines()] == [True, True]
    told = admin.stats()
    assert (told.parked, told.processed, told.failed, told.in_progress) == (3, 0, 0, 0)
    assert waiting(admin) == []


def test_released_jobs_are_the_next_of_their_queues_those_that_were_parked_first_first(
    me: Process, admin: Admin, store: Store
) -> None:
    park(me, "line", *jobs(3))
    park(me, "line", job("other"), queue="p")
    park(me, "line", job("last"))
    me.publish(job("waits"))
    assert store.release("line", 2) == 2
    assert waiting(admin) == [*jobs(2), job("waits")]
    assert store.release("line", 10) == 3
    assert waiting(admin) == [jobs(3)[2], job("last"), *jobs(2), job("waits")]
    assert waiting(admin, "p") == [job("other")]
    assert (admin.lines(), store.release("line", 1), store.release("none", 1)) == ([], 0, 0)


def test_a_parked_job_has_the_payload_of_the_outcome_to_the_byte(me: Process, admin: Admin, store: Store) -> None:
    me.publish(job(1), job(2))
    first, second = me.consume(2)
    odd = b'\n{"class":"Job",\n "jid":"1","args":[1.50,"\xc3\xa9"]}\n'
    me.settle((first, Park("a line: \u00e9\n", odd)), (second, Park("a line: \u00e9\n")))
    assert [line.name for line in admin.lines()] == ["a line: \u00e9\n"]
    assert store.release("a line: \u00e9\n", 2) == 2
    assert waiting(admin) == [odd, job(2)]


def test_equal_jobs_are_parked_and_released_one_by_one(me: Process, admin: Admin, store: Store) -> None:
    park(me, "line", job(1), job(1), job(1))
    assert (admin.stats().parked, store.release("line", 2), admin.stats().parked) == (3, 2, 1)
    assert waiting(admin) == [job(1), job(1)]


def test_processes_that_release_at_the_same_time_release_each_job_once(start: Processes, admin: Admin) -> None:
    processes = [start(), start(), start()]
    park(processes[0], "line", *jobs(500))
    released = [0, 0, 0]

    def release(number: int) -> None:
        released[number] = sum(processes[number].broker.store.release("line", 7) for _ in range(30))

    threads = [threading.Thread(target=release, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(released) == 500
    assert sorted(waiting(admin)) == jobs(500)


# --- what a settlement on two servers writes into the store


def test_what_was_applied_is_in_its_place_and_counted(me: Process, admin: Admin, store: Store) -> None:
    outcomes = [
        Done(), Discard(), Retry(LATER, job("r")), Dead(job("d")), Reschedule(LATER, job("s")), Park("line"), EXPIRED,
        CANCELLED,
    ]  # fmt: skip
    count = len(outcomes)
    me.publish(*jobs(count))
    deliveries = me.consume(count)
    batch = me.batch(*zip(deliveries, outcomes, strict=True))
    for _ in range(2):  # the second time, its reply was lost
        assert list(store.apply(batch)) == [True] * count
    told = admin.stats()
    assert (told.processed, told.failed, told.retries, told.dead, told.scheduled, told.parked) == (4, 3, 1, 1, 1, 1)
    assert told.in_progress == count, "only the server of the queues acknowledges them"
    assert stored(admin, RETRIES) == [job("r")]
    store.release("line", 1)
    assert waiting(admin) == [jobs(count)[5]]


def test_an_effect_that_is_applied_twice_changes_nothing(me: Process, other: Process, admin: Admin) -> None:
    def effects(name: str) -> tuple[Effect, ...]:
        pushes = me.push(job(f"now {name}"), "children"), me.push(job(f"later {name}"), at=LATER)
        posted = (me.push(job(name), "far", push_id="x"),)
        kept = StoreValue("parent", "result", name.encode(), 60)
        return PushJobs("parent", pushes), PostJobs("parent", "there", posted), kept

    me.publish(job("parent"), job("another"))
    parent, another = me.consume(2)
    store = can(other.broker, Capability.DELAYS).store
    assert list(store.apply(other.batch((parent, Done(effects=effects("first")))))) == [True]
    # The process was killed, and another one has run the job again.
    for outcome in (Done(effects=effects("second")), Requeue(effects=effects("third"))):
        assert list(store.apply(me.batch((parent, outcome)))) == [True]
    assert waiting(admin, "children") == [job("now first")]
    assert stored(admin, SCHEDULED) == [job("later first")]
    assert [one.push.payload for one in store.posted("there", 9)] == [job("first")]
    assert store.value("result", "parent") == b"first"
    more = PushJobs("another", (me.push(job("more"), "children"),))
    assert list(store.apply(me.batch((another, Done(effects=(more,)))))) == [True]
    assert waiting(admin, "children") == [job("now first"), job("more")]


def test_effects_of_one_outcome_for_several_brokers_are_all_applied(me: Process, store: Store, admin: Admin) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    posts = tuple(PostJobs("parent", to, (me.push(job(to), "far", push_id=to),)) for to in ("a", "b"))
    batch = me.batch((parent, Done(effects=(*posts, PushJobs("parent", (me.push(job(1), "children"),))))))
    assert list(store.apply(batch)) == [True]
    assert [(one.name, one.size) for one in admin.outboxes()] == [("a", 1), ("b", 1)]
    assert waiting(admin, "children") == [job(1)]


def test_a_line_has_a_name() -> None:
    with pytest.raises(ValueError, match="must have a name"):
        Park("")


def test_a_delivery_that_was_not_acknowledged_is_not_applied(me: Process, store: Store) -> None:
    me.publish(job(1))
    with pytest.raises(ValueError, match="NOT_SETTLED"):
        store.apply(me.batch((me.consume(1)[0], UNACKNOWLEDGED)))
