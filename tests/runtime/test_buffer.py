from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from waiting import eventually

from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.fetching.buffer import STOP, Buffer


def deliveries(*names: str, owner: str = "me") -> list[Delivery]:
    return [Delivery(name.encode(), "mail", owner) for name in names]


@contextmanager
def running(*threads: threading.Thread) -> Iterator[None]:
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_deliveries_come_out_in_the_order_they_were_fetched() -> None:
    buffer, jobs = Buffer(10), deliveries("a", "b", "c")
    buffer.put(jobs[:2])
    buffer.put(jobs[2:])
    assert [buffer.get() for _ in jobs] == jobs


def test_waiting_and_running_deliveries_take_up_room() -> None:
    buffer = Buffer(3)
    buffer.put(deliveries("a", "b"))
    assert (buffer.room(0), buffer.out, len(buffer)) == (1, 2, 2)
    taken = buffer.get()
    assert taken is not None
    assert (buffer.room(0), buffer.out, len(buffer)) == (1, 2, 1)
    buffer.done(taken)
    buffer.done(taken)  # may be said again
    assert (buffer.room(0), buffer.out, len(buffer)) == (2, 1, 1)


def test_a_full_buffer_has_no_room_and_says_so_at_the_time_limit() -> None:
    buffer = Buffer(1)
    buffer.put(deliveries("a"))
    assert buffer.room(0.01) == 0


def test_done_takes_no_lock_while_the_fetcher_does_not_wait_for_room() -> None:
    """Workers that met at a lock for each job would take turns at every one."""
    buffer, jobs = Buffer(2), deliveries("a")
    buffer.put(jobs)
    done = threading.Thread(target=buffer.done, args=jobs, daemon=True)
    with buffer._lock:
        done.start()
        done.join(20)
        assert not done.is_alive()
    assert buffer.out == 0


def test_the_fetcher_is_woken_however_the_threads_take_turns() -> None:
    buffer, interval = Buffer(3), sys.getswitchinterval()
    rounds = 3_000

    def work() -> None:
        while (delivery := buffer.get()) is not STOP:
            buffer.done(delivery)

    sys.setswitchinterval(1e-6)
    try:
        with running(*(threading.Thread(target=work, daemon=True) for _ in range(3))):
            for number in range(rounds):
                buffer.put(deliveries(*"abc"))
                assert buffer.room(20, at_least=1 + number % 3), "it slept on"
                assert buffer.room(20, at_least=3) == 3, "it slept on"
            buffer.stop_workers(3)
    finally:
        sys.setswitchinterval(interval)


def test_a_buffer_that_shrank_below_what_is_out_has_no_room() -> None:
    buffer = Buffer(5)
    buffer.put(deliveries("a", "b", "c"))
    buffer.resize(2)
    assert buffer.room(0) == 0


@pytest.mark.parametrize(
    ("event", "room"),
    [
        (lambda buffer: buffer.done(buffer.get()), 1),
        (lambda buffer: buffer.resize(3), 2),
        (Buffer.close, 0),
        (Buffer.take_back, 1),
    ],
    ids=["done", "resize", "close", "drain"],
)
def test_a_fetcher_that_waits_for_room_is_woken(event: object, room: int) -> None:
    buffer, seen = Buffer(1), []
    buffer.put(deliveries("a"))
    began = time.monotonic()
    with running(threading.Thread(target=lambda: seen.append(buffer.room(50)))):
        assert eventually(lambda: buffer._changed._waiters)
        event(buffer)
    assert seen == [room]
    assert time.monotonic() - began < 40


def test_a_closed_buffer_has_no_room_ever_again() -> None:
    buffer = Buffer(5)
    buffer.close()
    assert buffer.room(50) == 0
    buffer.resize(10)
    assert buffer.room(50) == 0


def test_deliveries_that_no_worker_has_taken_can_be_drained() -> None:
    buffer, jobs = Buffer(5), deliveries("a", "b", "c")
    buffer.put(jobs)
    buffer.get()
    assert buffer.take_back() == jobs[1:]
    assert (buffer.out, len(buffer)) == (1, 0)
    assert buffer.take_back() == []


def test_a_stop_marker_is_not_drained() -> None:
    buffer, jobs = Buffer(5), deliveries("a")
    buffer.put(jobs)
    buffer.stop_workers(2)
    assert buffer.take_back() == jobs
    assert buffer.out == 0


def test_workers_end_after_the_deliveries_before_the_stop_marker() -> None:
    buffer, seen = Buffer(5), []
    buffer.put(deliveries("a", "b"))
    buffer.stop_workers(2)

    def work() -> None:
        for delivery in iter(buffer.get, STOP):
            seen.append(delivery.payload)
            buffer.done(delivery)

    with running(*(threading.Thread(target=work) for _ in range(2))):
        pass
    assert sorted(seen) == [b"a", b"b"]
    assert buffer.out == 0


def test_room_is_waited_for_until_there_is_enough_of_it() -> None:
    buffer = Buffer(4)
    deliveries = [Delivery(b"", "q", "owner") for _ in range(4)]
    buffer.put(deliveries)
    seen: list[int] = []
    with running(threading.Thread(target=lambda: seen.append(buffer.room(50, at_least=2)))):
        buffer.done(deliveries[0])
        time.sleep(0.05)
        assert not seen
        buffer.done(deliveries[1])
    assert seen == [2]
    buffer.put([Delivery(b"", "q", "owner")])
    assert buffer.room(0.01, at_least=2) == 0


def test_one_worker_wakes_the_fetcher_and_the_others_take_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, jobs = Buffer(3), deliveries("a", "b", "c")
    buffer.put(jobs)
    woken: list[None] = []
    monkeypatch.setattr(buffer._changed, "notify_all", lambda: woken.append(None))
    buffer._awaited = 1
    for one in jobs:
        buffer.done(one)
    assert len(woken) == 1


def test_a_fetcher_that_finds_the_room_gone_when_it_wakes_is_woken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, jobs = Buffer(2), deliveries("a", "b")
    buffer.put(jobs)
    seen: list[int] = []
    wake = buffer._changed.notify_all

    def shrink_and_wake() -> None:
        monkeypatch.setattr(buffer._changed, "notify_all", wake)
        buffer.capacity = 1
        wake()

    monkeypatch.setattr(buffer._changed, "notify_all", shrink_and_wake)
    began = time.monotonic()
    with running(threading.Thread(target=lambda: seen.append(buffer.room(50)))):
        assert eventually(lambda: buffer._changed._waiters)
        buffer.done(jobs[0])
        assert eventually(lambda: buffer._awaited and buffer._changed._waiters)
        buffer.done(jobs[1])
    assert seen == [1]
    assert time.monotonic() - began < 40


# --- several queues


def of_queues(names: str) -> list[Delivery]:
    """A delivery of queue a, b or c for each letter."""
    return [Delivery(f"{name}{number}".encode(), name, "me") for number, name in enumerate(names)]


def by_queue(delivery: Delivery) -> int:
    return ord(delivery.queue)


def test_deliveries_are_put_before_those_of_a_lower_rank_and_behind_those_of_their_own() -> None:
    buffer, first, then = Buffer(9), of_queues("acc"), of_queues("abc")
    buffer.put(first)
    buffer.stop_workers(1)
    buffer.put_by_rank(then, by_queue)
    assert (buffer.out, len(buffer)) == (6, 6)
    assert [buffer.get() for _ in range(7)] == [first[0], then[0], then[1], first[1], first[2], then[2], STOP]


def test_the_deliveries_of_one_queue_can_be_taken_back() -> None:
    buffer, jobs = Buffer(9), of_queues("abcab")
    buffer.put(jobs)
    buffer.stop_workers(1)
    assert buffer.take_back(["b", "d"]) == [jobs[1], jobs[4]]
    assert buffer.out == 3
    assert [buffer.get() for _ in range(4)] == [jobs[0], jobs[2], jobs[3], STOP]


def test_workers_get_every_delivery_once_while_the_order_is_changed() -> None:
    """The order is changed by the fetcher's thread and by one that pauses a queue."""
    buffer, interval, taken, back = Buffer(10_000), sys.getswitchinterval(), [], []
    jobs = of_queues("abc" * 1_000)

    def work() -> None:
        while (delivery := buffer.get()) is not STOP:
            taken.append(delivery)
            buffer.done(delivery)

    def pause() -> None:
        for _ in range(300):
            back.extend(buffer.take_back(["b"]))

    sys.setswitchinterval(1e-6)
    try:
        pausing = threading.Thread(target=pause)
        with running(*(threading.Thread(target=work, daemon=True) for _ in range(3)), pausing):
            for number in range(0, len(jobs), 10):
                buffer.put_by_rank(jobs[number : number + 10], by_queue)
            pausing.join()
            buffer.stop_workers(3)
    finally:
        sys.setswitchinterval(interval)
    assert sorted(taken + back, key=jobs.index) == jobs
    assert buffer.out == 0
    assert {delivery.queue for delivery in back} <= {"b"}


def test_a_worker_rings_once_when_it_has_made_the_room_that_is_expected() -> None:
    buffer, jobs, rings = Buffer(3), deliveries("a", "b", "c"), []
    buffer.ring = lambda: rings.append(buffer.out)
    buffer.put(jobs)
    buffer.done(jobs[0])
    assert rings == [], "nobody expects room"
    assert buffer.expect_room(2) == 0
    buffer.done(jobs[1])
    buffer.done(jobs[2])
    assert rings == [1]
    assert buffer.expect_room(2) == 3
    buffer.put(jobs)
    assert buffer.expect_room(1) == 0
    for delivery in jobs:
        buffer.done(delivery)
    assert rings == [1, 2]
    buffer.close()
    assert buffer.expect_room(1) == 0


def test_an_exception_in_a_ring_makes_no_later_worker_silent() -> None:
    buffer, jobs, rings = Buffer(2), deliveries("a", "b"), []

    def ring() -> None:
        rings.append(1)
        if len(rings) == 1:
            raise KeyboardInterrupt

    buffer.ring = ring
    buffer.put(jobs)
    assert buffer.expect_room(1) == 0
    with pytest.raises(KeyboardInterrupt):
        buffer.done(jobs[0])
    buffer.done(jobs[0])
    assert len(rings) == 2


def test_draining_leaves_the_stop_markers_for_the_workers() -> None:
    buffer = Buffer(4)
    buffer.put(deliveries("a", "b"))
    buffer.stop_workers(2)
    assert [delivery.payload for delivery in buffer.take_back()] == [b"a", b"b"]
    assert buffer.out == 0
    assert [buffer.get(), buffer.get()] == [STOP, STOP]
