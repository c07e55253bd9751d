"""Publishing, consuming and settling jobs."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from harness import DEAD, RETRIES, SCHEDULED, Process, Processes, account, can, job, jobs, payloads, stored, waiting
from waiting import eventually

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.recoverable import Recoverable
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, LeaseGone
from goworkers_py.core.outcome import (
    CANCELLED,
    DISCARD,
    DONE,
    EXPIRED,
    LOST,
    MOVED,
    REQUEUE,
    REQUEUE_LAST,
    UNACKNOWLEDGED,
    Dead,
    Outcome,
    Reschedule,
    Retry,
)

LATER = 4_000_000_000.5  # in 2096
LONGEST_WAIT_S = 8.0  # a consume waits for five seconds at most, and this machine may be slow

# --- publishing and consuming


def test_jobs_are_consumed_in_the_order_in_which_they_were_published(me: Process) -> None:
    me.publish(*jobs(25)[:10])
    me.publish(*jobs(25)[10:20])
    consumed = me.consume(7) + me.consume(7)
    me.publish(*jobs(25)[20:])
    assert payloads(consumed + me.consume(11)) == jobs(25)


def test_a_consume_brings_no_more_than_its_limit(me: Process) -> None:
    me.publish(*jobs(5))
    for limit in (2, 2, 1):
        assert len(me.broker.transport.consume(me.identity, [("q", limit)], limit)) in range(1, limit + 1)


def test_a_delivery_has_its_payload_queue_and_identity(me: Process) -> None:
    me.publish(job(1, "mail"), queue="mail")
    [delivery] = me.consume(1, queue="mail")
    assert (delivery.payload, delivery.queue, delivery.identity) == (job(1, "mail"), "mail", me.identity)


def test_many_jobs_of_all_sizes_come_whole_and_in_order(me: Process) -> None:
    published = [job(number, text="x" * (number % 7) ** 6) for number in range(700)]
    me.publish(*published)
    assert payloads(me.consume(700)) == published


@pytest.mark.parametrize("payload", [b"", b"\xff\x00\r\n", "é✓".encode(), b"x" * 5_000_000], ids=["-", "*", "é", "5M"])
def test_every_payload_comes_as_it_was_published(me: Process, payload: bytes) -> None:
    me.publish(payload)
    [delivery] = me.consume(1)
    assert delivery.payload == payload
    assert me.settle((delivery, DONE)) == [True]


@pytest.mark.parametrize("queue", ["a:b", "q:inprogress", "ünï cödé", "*", "../x", "a/b", "Q", "q "])
def test_a_queue_may_have_any_name(me: Process, queue: str) -> None:
    me.publish(b"another's", queue="q")
    me.publish(b"its own", queue=queue)
    [delivery] = me.consume(1, queue=queue)
    assert delivery.payload == b"its own"
    assert me.settle((delivery, DONE)) == [True]
    assert payloads(me.consume(1)) == [b"another's"]


def test_a_job_that_one_process_publishes_can_be_consumed_by_another(me: Process, other: Process) -> None:
    me.publish(job(1))
    assert payloads(other.consume(1)) == [job(1)]


def test_one_publish_goes_to_several_queues_and_to_the_scheduled_jobs(me: Process, admin: Admin) -> None:
    me.broker.transport.publish(
        [me.push(job(1), "a"), me.push(job(2), "b"), me.push(job(3), "a"), me.push(job(4), at=LATER)]
    )
    assert (waiting(admin, "a"), waiting(admin, "b")) == ([job(1), job(3)], [job(2)])
    assert [(one.payload, one.at) for one in admin.jobs_in(SCHEDULED).first(10)] == [(job(4), LATER)]


def test_equal_payloads_are_as_many_jobs_as_were_published(me: Process) -> None:
    me.publish(job(1), job(1))
    me.publish(job(1))
    assert payloads(me.consume(3)) == [job(1)] * 3


def test_a_consumed_job_is_in_progress_under_that_identity_only(me: Process, other: Process, admin: Admin) -> None:
    me.publish(*jobs(3))
    mine, others = me.consume(2), other.consume(1)
    held = [(one.owner.identity, one.queue, one.job.payload) for one in admin.in_progress()]
    assert sorted(held) == sorted((one.identity, "q", one.payload) for one in mine + others)
    assert waiting(admin) == []


def test_two_consumers_never_get_the_same_job(start: Processes) -> None:
    consumers = [start() for _ in range(4)]
    for part in range(5):
        consumers[0].publish(*jobs(500)[part * 100 : part * 100 + 100])
    left = threading.Semaphore(500)

    def consume(process: Process) -> list[bytes]:
        taken: list[bytes] = []
        while left.acquire(blocking=False):
            taken += payloads(process.consume(1))
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [payload for part in pool.map(consume, consumers) for payload in part]
    assert Counter(taken) == Counter(jobs(500))


def test_a_consume_without_a_lease_takes_nothing(start: Processes, me: Process, recoverable: Recoverable) -> None:
    me.publish(job(1))
    with pytest.raises(LeaseGone):
        start.unknown().consume(1)
    assert payloads(me.consume(1)) == [job(1)]


def test_a_consume_after_the_lease_has_run_out_takes_nothing_until_the_next_beat(
    start: Processes, me: Process, other: Process, recoverable: Recoverable
) -> None:
    me.publish(job(1))
    start.expire(other)
    with pytest.raises(LeaseGone):
        other.consume(1)
    other.beat()
    assert payloads(other.consume(1)) == [job(1)]


# --- waiting


def test_a_consume_without_wait_returns_at_once(me: Process) -> None:
    began = time.monotonic()
    for _ in range(3):
        assert list(me.broker.transport.consume(me.identity, [("q", 5)], 5, 0)) == []
    assert time.monotonic() - began < 5, "each waited for two seconds"


def make_queues(process: Process, *queues: str) -> None:
    """RabbitMQ may end the connection of one that consumes from a queue while another connection declares it, or may
    never answer it. The queues are consumed from together, as a pool does: else they have a consumer each."""
    for queue in queues:
        process.publish(job("first"), queue=queue)
    made, asks = list[Delivery](), [(queue, 1) for queue in queues]
    while len(made) < len(queues):
        made += process.broker.transport.consume(process.identity, asks, len(queues))
    assert process.settle(*((one, DONE) for one in made)) == [True] * len(queues)


def is_soon(wait: Callable[[], float]) -> bool:
    """Whether most of five waits were short. A consume that nobody wakes waits for two seconds, and on a busy machine
    one that is woken may seldom take as long."""
    return sorted(wait() for _ in range(5))[2] < 1.5


def test_a_consume_that_waits_brings_the_job_that_comes(me: Process, other: Process) -> None:
    def wait() -> float:
        with ThreadPoolExecutor(1) as pool:
            consuming = pool.submit(me.broker.transport.consume, me.identity, [("q", 5)], 5)
            time.sleep(0.1)
            other.publish(job(1))
            came_at = time.monotonic()
            [delivery] = consuming.result() or me.consume(1)
        waited_s = time.monotonic() - came_at
        assert delivery.payload == job(1)
        assert me.settle((delivery, DONE)) == [True]
        return waited_s

    make_queues(me, "q")
    assert is_soon(wait)


@pytest.mark.parametrize("outcome", [REQUEUE, REQUEUE_LAST])
def test_a_consume_that_waits_brings_the_job_that_is_given_back(me: Process, other: Process, outcome: Outcome) -> None:
    def wait() -> float:
        me.publish(job(1))
        [delivery] = me.consume(1)
        with ThreadPoolExecutor(1) as pool:
            consuming = pool.submit(other.consume, 1)
            time.sleep(0.1)
            me.settle((delivery, outcome))
            came_at = time.monotonic()
            [again] = consuming.result()
        waited_s = time.monotonic() - came_at
        assert again.payload == job(1)
        assert other.settle((again, DONE)) == [True]
        return waited_s

    assert is_soon(wait)


def test_a_wake_ends_a_consume_that_waits_and_not_that_of_another_queue_or_process(me: Process, other: Process) -> None:
    def wake_until_done() -> bool:
        me.broker.transport.wake("q")
        return mine.done()

    def consume(process: Process, queue: str) -> float:
        """Returns after how many seconds the consume returned no job."""
        began = time.monotonic()
        assert not process.broker.transport.consume(process.identity, [(queue, 5)], 5)
        return time.monotonic() - began

    for queue in ("q", "mail"):
        make_queues(me, queue)

    def only_mine_ends_early() -> bool:
        nonlocal mine
        with ThreadPoolExecutor(3) as pool:
            mine, mail, others = (pool.submit(consume, *one) for one in ((me, "q"), (me, "mail"), (other, "q")))
            time.sleep(0.1)
            assert eventually(wake_until_done)
            return mine.result() < min(mail.result(), others.result()) - 0.5

    mine: Future[float] = Future()
    assert any(only_mine_ends_early() for _ in range(3)), "on a busy machine a woken one may seldom be late"


def test_a_consume_waits_for_some_seconds_only_and_a_wake_before_it_ends_it_at_once(me: Process) -> None:
    began = time.monotonic()
    me.broker.transport.consume(me.identity, [("q", 5)], 5)
    assert time.monotonic() - began < LONGEST_WAIT_S

    def wait() -> float:
        woken_at = time.monotonic()
        me.broker.transport.wake("q")
        assert not me.broker.transport.consume(me.identity, [("q", 5)], 5)
        return time.monotonic() - woken_at

    assert is_soon(wait)


def test_a_wake_loses_no_job(me: Process) -> None:
    me.publish(job(1))
    me.broker.transport.wake("q")
    me.broker.transport.wake("never consumed from")
    assert payloads(me.consume(1)) == [job(1)]


# --- several queues together

POOL = ("a", "b", "c")


def asks(a: int, b: int, c: int) -> list[tuple[str, int]]:
    return [("a", a), ("b", b), ("c", c)]


def consume_together(me: Process, limit: int, *asks: tuple[str, int], wait_s: float = math.inf) -> list[bytes]:
    return payloads(me.broker.transport.consume(me.identity, asks, limit, wait_s))


def takes_all_at_once(broker: Broker) -> None:
    """Skips the test for a service that pushes jobs to its consumers: one consume returns those that have come."""
    can(broker, Capability.FRONT)


def test_jobs_of_several_queues_are_taken_ask_by_ask_up_to_the_limit(me: Process) -> None:
    takes_all_at_once(me.broker)
    for queue in POOL:
        me.publish(*(job(f"{queue}{number}") for number in range(3)), queue=queue)
    deliveries = me.broker.transport.consume(me.identity, [("b", 2), ("c", 2), ("a", 9), ("b", 9), ("c", 9)], 8)
    assert [(one.queue, one.payload) for one in deliveries] == [
        (name[0], job(name)) for name in ("b0", "b1", "c0", "c1", "a0", "a1", "a2", "b2")
    ]
    assert {one.identity for one in deliveries} == {me.identity}
    assert consume_together(me, 9, *asks(9, 9, 9)) == [job("c2")]


def test_a_queue_that_is_asked_for_nothing_keeps_its_jobs(me: Process, admin: Admin) -> None:
    me.publish(job(1), queue="a")
    me.publish(job(2), queue="b")
    assert consume_together(me, 5, *asks(0, 5, 5)) == [job(2)]
    assert consume_together(me, 5, *asks(0, 0, 0), wait_s=0.1) == []
    assert waiting(admin, "a") == [job(1)]


def test_an_empty_queue_leaves_its_part_to_a_later_ask(me: Process) -> None:
    takes_all_at_once(me.broker)
    me.publish(*jobs(9), queue="c")
    assert consume_together(me, 6, *asks(4, 1, 1), *asks(6, 6, 6)) == jobs(9)[:6]


def test_deliveries_of_several_queues_are_settled_by_queue(me: Process, admin: Admin) -> None:
    me.publish(job(1), queue="a")
    me.publish(job(2), queue="b")
    one, two = me.broker.transport.consume(me.identity, asks(5, 5, 5), 5)
    assert me.settle((one, DONE)) == me.settle((two, REQUEUE)) == [True]
    assert (waiting(admin, "a"), waiting(admin, "b"), [*admin.in_progress()]) == ([], [job(2)], [])


@pytest.mark.parametrize("queue", POOL)
def test_a_consume_of_several_queues_brings_the_job_that_comes_to_any_of_them(
    me: Process, other: Process, queue: str
) -> None:
    make_queues(me, *POOL)
    for number in range(3):
        with ThreadPoolExecutor(1) as pool:
            consuming = pool.submit(consume_together, me, 5, *asks(5, 5, 5))
            time.sleep(0.05)
            other.publish(job(number), queue=queue)
            taken = consuming.result()
        while not taken:
            taken = consume_together(me, 5, *asks(5, 5, 5))
        assert taken == [job(number)]


def test_a_wait_that_is_left_running_brings_its_job_later_or_ends(me: Process, other: Process, admin: Admin) -> None:
    """A job for a queue that is not asked any more is returned by the next call, or stays where it is."""
    leave_waits_running(me, other)
    other.publish(job("later"), queue="b")
    late = list[bytes]()
    for _ in range(3):
        late += consume_together(me, 0, *asks(0, 0, 0), wait_s=0.05)
    # The wait may have taken it, and its reply may be on its way.
    while not late and waiting(admin, "b") == []:
        late += consume_together(me, 0, *asks(0, 0, 0), wait_s=0.05)
    assert late in ([], [job("later")])
    assert waiting(admin, "b") == ([] if late else [job("later")])


def leave_waits_running(me: Process, other: Process) -> None:
    make_queues(me, *POOL)
    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume_together, me, 5, *asks(5, 5, 5))
        time.sleep(0.05)
        other.publish(job("first"), queue="a")
        taken = consuming.result()
    while not taken:  # the wait may have ended before the job came, on a busy machine
        taken = consume_together(me, 5, *asks(5, 5, 5))
    assert taken == [job("first")]


def test_after_the_end_of_the_waits_no_job_is_taken_any_more(me: Process, other: Process, admin: Admin) -> None:
    leave_waits_running(me, other)
    other.publish(job(1), queue="b")
    caught = me.broker.transport.end_waits(POOL)
    other.publish(job(2), queue="b")
    other.publish(job(3), queue="c")
    assert me.broker.transport.end_waits(POOL) == []
    assert payloads(caught) + waiting(admin, "b") == [job(1), job(2)]
    assert waiting(admin, "c") == [job(3)]
    assert {(one.queue, one.identity) for one in caught} <= {("b", me.identity)}


def test_the_waits_of_some_queues_can_be_ended(me: Process, other: Process, admin: Admin) -> None:
    leave_waits_running(me, other)
    assert me.broker.transport.end_waits(["b"]) == []
    other.publish(job(1), queue="b")
    other.publish(job(2), queue="c")
    assert [*consume_together(me, 5, *asks(0, 0, 5)), *payloads(me.broker.transport.end_waits(POOL))] == [job(2)]
    assert waiting(admin, "b") == [job(1)]


def test_no_job_of_a_wait_looks_lost_when_the_waits_are_ended_before(me: Process, other: Process) -> None:
    leave_waits_running(me, other)
    other.publish(job(1), queue="b")
    known = me.broker.transport.end_waits(POOL)
    assert not me.broker.transport.lost_replies(me.identity, "b", known, thorough=True)


def test_a_wake_by_any_of_its_queues_ends_a_consume_of_several(me: Process) -> None:
    began = time.monotonic()
    for queue in POOL:
        me.broker.transport.wake(queue)
        with ThreadPoolExecutor(1) as pool:
            consuming = pool.submit(consume_together, me, 5, *asks(5, 5, 5))
            assert eventually(lambda queue=queue, consuming=consuming: wake_until(me, queue, consuming))
    assert time.monotonic() - began < LONGEST_WAIT_S, "each waited for two seconds"


def wake_until(me: Process, queue: str, consuming: Future[list[bytes]]) -> bool:
    me.broker.transport.wake(queue)
    return consuming.done()


def test_a_consume_of_several_queues_waits_no_longer_than_it_was_told(me: Process) -> None:
    began = time.monotonic()
    for _ in range(3):
        assert consume_together(me, 5, *asks(5, 5, 0), wait_s=0.1) == []
    assert time.monotonic() - began < LONGEST_WAIT_S, "each waited for two seconds"


def test_a_consume_of_several_queues_without_a_lease_takes_nothing(
    start: Processes, me: Process, recoverable: Recoverable
) -> None:
    me.publish(job(1), queue="b")
    with pytest.raises(LeaseGone):
        consume_together(start.unknown(), 5, *asks(5, 5, 5))
    assert consume_together(me, 5, *asks(5, 5, 5)) == [job(1)]


def test_what_a_pool_has_in_progress_is_recovered(me: Process, other: Process, start: Processes, admin: Admin) -> None:
    can(me.broker, Capability.LEASES)
    other.beat(POOL)
    for queue in POOL:
        me.publish(job(queue), queue=queue)
    assert len(other.broker.transport.consume(other.identity, asks(5, 5, 5), 5)) == 3
    other.leave()
    assert [waiting(admin, queue) for queue in POOL] == [[job(queue)] for queue in POOL]


# --- lost replies


@pytest.mark.parametrize("thorough", [False, True])
def test_no_reply_looks_lost_when_every_consumed_delivery_is_known(me: Process, other: Process, thorough: bool) -> None:
    me.publish(*jobs(5), job(0), job(0))
    known = me.consume(3) + other.consume(1) + me.consume(3)
    assert not me.broker.transport.lost_replies(me.identity, "q", known, thorough)
    me.settle((known[0], DONE), (known[1], REQUEUE))  # while the snapshot was taken before
    assert not me.broker.transport.lost_replies(me.identity, "q", known, thorough)


def test_only_deliveries_that_are_not_known_are_found_as_lost_replies(me: Process, admin: Admin) -> None:
    me.publish(*jobs(3), job(0), job(0))
    consumed = me.consume(5)
    lost = me.broker.transport.lost_replies(me.identity, "q", [consumed[0], *consumed[2:4]], thorough=True)
    assert payloads(lost) in ([], [consumed[1].payload, consumed[4].payload])  # none where no reply can be lost
    assert me.settle(*((delivery, DONE) for delivery in lost)) == [True] * len(lost)
    assert len([*admin.in_progress()]) == 5 - len(lost)


# --- settling

OUTCOMES = {
    "done": (DONE, None, 1, 0),
    "discard": (DISCARD, None, 1, 1),
    "retry": (Retry(LATER, job("new")), RETRIES, 1, 1),
    "dead": (Dead(job("new")), DEAD, 1, 1),
    "reschedule": (Reschedule(LATER, job("new")), SCHEDULED, 0, 0),
    "expired": (EXPIRED, None, 0, 0),
    "cancelled": (CANCELLED, None, 0, 0),
}


@pytest.mark.parametrize(("outcome", "place", "processed", "failed"), OUTCOMES.values(), ids=OUTCOMES)
def test_a_job_goes_where_its_outcome_says_and_is_counted(
    me: Process, admin: Admin, outcome: Outcome, place: object, processed: int, failed: int
) -> None:
    if place in (RETRIES, SCHEDULED):
        can(me.broker, Capability.DELAYS)
    me.publish(job(1), job(2))
    [delivery] = me.consume(1)
    before = admin.now()
    assert me.settle((delivery, outcome)) == [True]
    assert [*admin.in_progress()] == []
    assert waiting(admin) == [job(2)]
    for one in (SCHEDULED, RETRIES, DEAD):
        assert stored(admin, one) == ([job("new")] if one == place else [])
    if place in (RETRIES, SCHEDULED):
        assert admin.jobs_in(place).first(1)[0].at == LATER
    if place == DEAD:
        assert before <= admin.jobs_in(DEAD).first(1)[0].at <= admin.now()
    assert (admin.stats().processed, admin.stats().failed) == (processed, failed)


@pytest.mark.parametrize(("last", "order"), [(False, [1, 2, 3]), (True, [2, 3, 1])])
def test_a_job_that_is_given_back_is_consumed_next_or_after_all_others(
    me: Process, last: bool, order: list[int]
) -> None:
    if not last:
        can(me.broker, Capability.FRONT)
    me.publish(job(1), job(2), job(3))
    [delivery] = me.consume(1)
    assert me.settle((delivery, REQUEUE_LAST if last else REQUEUE)) == [True]
    assert payloads(me.consume(3)) == [job(number) for number in order]


def test_a_job_that_is_given_back_counts_neither_as_processed_nor_as_failed(me: Process, admin: Admin) -> None:
    me.publish(job(1))
    for outcome in (REQUEUE, REQUEUE_LAST):
        me.settle((me.consume(1)[0], outcome))
    assert (admin.stats().processed, admin.stats().failed) == (0, 0)


def test_jobs_given_back_newest_first_run_next_in_their_old_order(me: Process) -> None:
    can(me.broker, Capability.FRONT)
    me.publish(*jobs(5))
    me.settle(*((delivery, REQUEUE) for delivery in reversed(me.consume(3))))
    assert payloads(me.consume(5)) == jobs(5)


def test_each_delivery_of_a_batch_has_its_own_outcome_and_result(me: Process, other: Process, admin: Admin) -> None:
    me.publish(*jobs(4))
    mine, others = me.consume(3), other.consume(1)
    other.settle((others[0], DONE))
    me.settle((mine[1], DONE))
    finished = [(mine[0], DONE), (mine[1], REQUEUE), (others[0], REQUEUE), (mine[2], REQUEUE)]
    assert me.settle(*finished) == [True, False, False, True]
    assert waiting(admin) == [mine[2].payload]
    assert [*admin.in_progress()] == []


@pytest.mark.parametrize("outcome", [DONE, DISCARD, Dead(job("new")), REQUEUE, REQUEUE_LAST, EXPIRED, CANCELLED])
def test_a_job_that_is_no_longer_in_progress_is_not_settled(me: Process, admin: Admin, outcome: Outcome) -> None:
    me.publish(job(1))
    [delivery] = me.consume(1)
    me.settle((delivery, DONE))
    assert me.settle((delivery, outcome)) == [False]
    assert account(admin) == {}
    assert (admin.stats().processed, admin.stats().failed) == (1, 0)


def test_one_batch_may_hold_deliveries_of_the_identities_that_a_process_had(
    me: Process, other: Process, start: Processes
) -> None:
    me.publish(job(1), job(2), job(1))
    first, second, third = me.consume(1) + other.consume(1) + start().consume(1)
    assert me.settle((first, DONE), (second, DONE)) == [True, True]
    assert me.settle((third, DONE)) == [True]


@pytest.mark.parametrize("size", [1, 5_000])
def test_some_of_a_batch_are_no_longer_in_progress(me: Process, admin: Admin, size: int) -> None:
    me.publish(*(job(number, text="x" * size) for number in range(9)))
    deliveries = me.consume(9)
    me.settle(*((deliveries[number], DONE) for number in (0, 4, 8)))
    results = me.broker.transport.settle(me.batch(*((one, DONE) for one in deliveries[:6]), held=deliveries))
    assert list(results) == [False, True, True, True, False, True]
    assert [one.job.payload for one in admin.in_progress()] == payloads(deliveries[6:8])


@pytest.mark.parametrize("size", [1, 5_000])
def test_equal_jobs_of_a_batch_are_settled_each(me: Process, admin: Admin, size: int) -> None:
    me.publish(*[job(1, text="x" * size)] * 4, job(2))
    deliveries = me.consume(5)
    batch = me.batch(*((one, DONE) for one in deliveries[:3]), held=deliveries)
    assert [list(me.broker.transport.settle(batch)) for _ in range(2)] == [[True] * 3] * 2
    assert [one.job.payload for one in admin.in_progress()] == payloads(deliveries[3:])


def test_settling_one_of_equal_jobs_leaves_the_others_in_progress(me: Process, admin: Admin) -> None:
    me.publish(job(1), job(1), job(1))
    deliveries = me.consume(3)
    assert me.settle((deliveries[1], DONE)) == [True]
    assert [one.job.payload for one in admin.in_progress()] == [job(1), job(1)]
    assert me.settle((deliveries[0], DONE), (deliveries[2], REQUEUE)) == [True, True]
    assert payloads(me.consume(1)) == [job(1)]
    assert len([*admin.in_progress()]) == 1


@pytest.mark.parametrize("outcome", [UNACKNOWLEDGED, LOST, MOVED])
def test_to_settle_with_an_outcome_that_settles_nothing_raises(outcome: Outcome, me: Process) -> None:
    me.publish(job(1), job(2))
    one, two = me.consume(2)
    with pytest.raises(ValueError):  # noqa: PT011  # the contract asks for no text
        me.settle((one, DONE), (two, outcome))
    assert me.settle((one, DONE), (two, DONE)) == [True, True]


@pytest.mark.parametrize("hint", ["none", "right", "wrong order", "one unknown", "those that stay"])
@pytest.mark.parametrize("size", [1, 5_000])
@pytest.mark.parametrize("leaving", ["the oldest", "the newest", "all", "all but a few", "every third"])
def test_a_batch_of_many_is_settled_wherever_its_jobs_stand(
    me: Process, admin: Admin, hint: str, leaving: str, size: int
) -> None:
    published = [job(number, text="x" * size) for number in range(300)]
    me.publish(*published)
    deliveries = me.consume(300)
    which = {
        "the oldest": range(150),
        "the newest": range(150, 300),
        "all": range(300),
        "all but a few": [number for number in range(300) if number not in (0, 1, 7, 120, 299)],
        "every third": range(0, 300, 3),
    }[leaving]
    held = {
        "none": [],
        "right": deliveries,
        "wrong order": deliveries[::-1],
        "one unknown": deliveries[1:],
        "those that stay": [one for number, one in enumerate(deliveries) if number not in which],
    }[hint]
    batch = me.batch(*((deliveries[number], DONE) for number in which), held=held)
    assert list(me.broker.transport.settle(batch)) == [True] * len(which)
    staying = [payload for number, payload in enumerate(published) if number not in which]
    assert [one.job.payload for one in admin.in_progress()] == staying
    assert admin.stats().processed == len(which)


# --- settling, asked again


def test_a_batch_that_is_asked_again_is_done_once_and_answered_alike(me: Process, admin: Admin) -> None:
    me.publish(*jobs(4))
    one, two, three, _ = me.consume(4)
    me.settle((three, DONE))
    batch = me.batch((one, REQUEUE), (two, DISCARD), (three, REQUEUE))
    answers = [list(me.broker.transport.settle(batch)) for _ in range(3)]
    assert answers == [[True, True, False]] * 3
    assert waiting(admin) == [one.payload]
    assert (admin.stats().processed, admin.stats().failed) == (2, 1)


def test_a_batch_that_is_asked_again_spares_an_equal_job_that_was_consumed_since(me: Process, admin: Admin) -> None:
    me.publish(job(1), job(1))
    batch = me.batch((me.consume(1)[0], DONE))
    me.broker.transport.settle(batch)
    me.consume(1)
    assert list(me.broker.transport.settle(batch)) == [True]
    assert [one.job.payload for one in admin.in_progress()] == [job(1)]


def test_a_batch_that_is_asked_again_spares_the_same_job_that_came_back(me: Process, admin: Admin) -> None:
    me.publish(job(1))
    batch = me.batch((me.consume(1)[0], REQUEUE))
    me.broker.transport.settle(batch)
    me.consume(1)
    assert list(me.broker.transport.settle(batch)) == [True]
    assert account(admin) == {"1": [f"in progress under {me.identity}"]}


@pytest.mark.parametrize(("first", "second"), [(1, 2), (9, 10), (99, 100)])
def test_a_batch_that_comes_after_a_later_one_is_refused_and_spares_an_equal_job(
    me: Process, admin: Admin, first: int, second: int
) -> None:
    """As after a cut connection, over which the first copy of a batch still comes. As text, 9 is behind 10."""
    me.publish(job(1), job(1), job(2))
    late = SettlementBatch("settler", first, [(me.consume(1)[0], DONE)])
    assert list(me.broker.transport.settle(late)) == [True]
    equal = me.consume(1)[0]
    assert list(me.broker.transport.settle(SettlementBatch("settler", second, [(me.consume(1)[0], DONE)]))) == [True]
    with pytest.raises(BrokerRefused, match="later batch"):
        me.broker.transport.settle(late)
    assert [one.job.payload for one in admin.in_progress()] == [job(1)]
    assert me.settle((equal, DONE)) == [True]


def test_two_settlers_may_have_batches_of_one_number(me: Process) -> None:
    me.publish(job(1), job(2))
    for name, delivery in enumerate(me.consume(2)):
        batch = SettlementBatch(f"settler {name}", 1, [(delivery, DONE)])
        assert list(me.broker.transport.settle(batch)) == [True]
        assert me.settle((delivery, DONE)) == [False]


def test_another_process_may_ask_for_a_batch_again(me: Process, other: Process, admin: Admin) -> None:
    """As after a new connection: the broker remembers a batch by its settler, not by the connection."""
    me.publish(job(1))
    batch = me.batch((me.consume(1)[0], Dead(job("new"))))
    assert list(me.broker.transport.settle(batch)) == list(other.broker.transport.settle(batch)) == [True]
    assert admin.stats().failed == 1


# --- paused queues


def test_paused_returns_a_queue_until_it_is_resumed(me: Process, other: Process, admin: Admin) -> None:
    assert set(other.broker.transport.paused()) == set()
    admin.pause("q")
    admin.pause("mail")
    assert set(other.broker.transport.paused()) == {"q", "mail"}
    admin.resume("q")
    assert set(other.broker.transport.paused()) == {"mail"}
