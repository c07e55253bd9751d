from __future__ import annotations

import math
import threading
import time

import pytest
from waiting import eventually

from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.machine import awake_and_asleep


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


def test_the_clock_of_leases_is_not_the_one_that_people_set() -> None:
    of_the_machine = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    assert time.clock_gettime(of_the_machine) <= awake_and_asleep() <= time.clock_gettime(of_the_machine)


# --- the server's clock, as this process guesses it


class Machine:
    """This machine's clock that goes on while it sleeps, set by hand, and a server whose clock is `ahead_s` of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.ahead_s, self.clock = 1_000.0, 4_000.0, Clock()
        monkeypatch.setattr("goworkers_py.core.machine.awake_and_asleep", lambda: self.now)

    def ask(self, there_s: float, back_s: float) -> None:
        """The question takes `there_s` to the server, and its answer `back_s`."""
        asked_at = self.now
        server_time = asked_at + there_s + self.ahead_s
        self.now += there_s + back_s
        self.clock.synchronize(server_time, asked_at, self.now)

    @property
    def error_s(self) -> tuple[float, float]:
        """How much more than the server's clock `wall` and `at_latest` show."""
        there = self.now + self.ahead_s
        return round(self.clock.wall() - there, 9), round(self.clock.at_latest() - there, 9)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("there_s", [0.0, 0.25, 0.5])
def test_behind_a_slow_link_the_first_guess_is_on_the_safe_side(machine: Machine, there_s: float) -> None:
    machine.ask(there_s, 0.5 - there_s)
    slowest, fastest = machine.error_s
    assert slowest == there_s - 0.5 <= 0 <= fastest == there_s


def test_later_answers_narrow_the_guess(machine: Machine) -> None:
    machine.ask(0.5, 0.125)
    machine.ask(0.125, 0.5)
    slowest, fastest = machine.error_s
    assert -0.126 < slowest <= -0.125
    assert 0.125 <= fastest < 0.126


def test_a_beat_that_took_long_moves_the_clock_no_further_than_clocks_drift(machine: Machine) -> None:
    """The process was stopped in the middle of it."""
    machine.ask(0.0, 0.0)
    machine.ask(1.0, 29.0)
    slowest, fastest = machine.error_s
    assert -0.016 < slowest < 0 < fastest < 0.016


@pytest.mark.parametrize("step_s", [-600.0, -2.0, 2.0, 600.0])
def test_a_step_of_the_servers_clock_is_followed_at_once_to_the_safe_side(machine: Machine, step_s: float) -> None:
    machine.ask(0.125, 0.125)
    machine.ahead_s += step_s
    machine.ask(0.25, 0.5)
    assert machine.error_s == (-0.5, 0.25)


def test_a_server_whose_clock_drifts_stays_within_the_guess(machine: Machine) -> None:
    machine.ask(0.001, 0.001)
    for _ in range(1_000):
        machine.now += 5.0
        machine.ahead_s -= 5.0 * 200e-6
        machine.ask(0.001, 0.3)
        slowest, fastest = machine.error_s
        assert slowest <= 1e-6
        assert fastest >= -1e-6
