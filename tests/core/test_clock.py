from __future__ import annotations

import math
import threading
import time

from waiting import eventually

from goworkers_py.core.clock import Clock, Deadline, awake_and_asleep


class FakeClock(Clock):
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_deadline_counts_down_to_zero() -> None:
    clock = FakeClock()
    deadline = Deadline(25.0, clock)
    assert deadline.left() == 25.0
    clock.now += 10
    assert deadline.left() == 15.0
    clock.now += 100
    assert deadline.left() == 0.0


def test_a_shortened_deadline_ends_at_once() -> None:
    clock = FakeClock()
    deadline = Deadline(25.0, clock)
    clock.now += 1
    deadline.shorten(0)
    assert deadline.left() == 0.0


def test_of_two_threads_that_shorten_a_deadline_the_shorter_one_counts() -> None:
    class Interrupted(FakeClock):
        other: threading.Thread | None = None

        def monotonic(self) -> float:
            if self.other is not None:
                thread, self.other = self.other, None
                thread.start()
                thread.join(0.2)  # it waits for the lock until this thread has stored its own time
            return super().monotonic()

    clock = Interrupted()
    deadline = Deadline(math.inf, clock)
    clock.other = hurry = threading.Thread(target=lambda: deadline.shorten(0))
    deadline.shorten(25)
    hurry.join(10)
    assert deadline.left() == 0.0


def test_a_clock_shows_the_systems_times() -> None:
    before, after = (time.time(), time.monotonic()), (Clock().wall(), Clock().monotonic())
    assert 0 <= after[0] - before[0] < 60
    assert 0 <= after[1] - before[1] < 60
    assert 0 < Deadline(60).left() <= 60


def test_the_clock_of_leases_advances() -> None:
    before = awake_and_asleep()
    assert eventually(lambda: awake_and_asleep() > before)
