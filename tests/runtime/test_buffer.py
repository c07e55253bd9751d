from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from waiting import eventually

from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.buffer import STOP, Buffer


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


def test_draining_leaves_the_stop_markers_for_the_workers() -> None:
    buffer = Buffer(4)
    buffer.put(deliveries("a", "b"))
    buffer.stop_workers(2)
    assert [delivery.payload for delivery in buffer.take_back()] == [b"a", b"b"]
    assert buffer.out == 0
    assert [buffer.get(), buffer.get()] == [STOP, STOP]
