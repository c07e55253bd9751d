"""Which hints end the scheduler's sleep. With a scheduler: test_scheduler.py."""

from __future__ import annotations

import threading
import time

from goworkers_py.runtime.scheduling.due_hints import DueHints


def wakes(hints: DueHints) -> bool:
    began = time.monotonic()
    hints.wait(40)
    return time.monotonic() - began < 20  # the machine may stand still meanwhile


def sleeps(hints: DueHints) -> bool:
    began = time.monotonic()
    hints.wait(0.3)
    return time.monotonic() - began > 0.2


def asleep(until: float) -> DueHints:
    hints = DueHints()
    hints.begin_look()
    hints.sleep_until(until)
    return hints


def test_a_job_that_is_due_before_the_next_look_wakes_and_a_later_one_does_not() -> None:
    hints = asleep(until=100.0)
    hints.scheduled(100.0)
    assert sleeps(hints)
    hints.scheduled(99.9)
    assert wakes(hints)


def test_a_hint_during_a_look_is_not_missed_and_one_before_it_is_over_with_it() -> None:
    hints = asleep(until=100.0)
    hints.scheduled(1.0)
    hints.begin_look()
    hints.sleep_until(100.0)
    assert sleeps(hints)
    hints.begin_look()
    hints.scheduled(1_000.0)  # nobody knows yet until when it will sleep
    hints.sleep_until(100.0)
    assert wakes(hints)


def test_before_the_first_look_there_is_nobody_to_wake() -> None:
    hints = DueHints()
    hints.scheduled(0.0)
    assert sleeps(hints)


def test_after_the_last_look_there_is_nobody_to_wake() -> None:
    hints = asleep(until=100.0)
    hints.begin_look()  # an outage: this look never ends
    hints.end()
    hints.scheduled(1.0)
    assert sleeps(hints)


def test_a_wait_that_lasts_is_ended_from_any_thread() -> None:
    hints, began = asleep(until=100.0), time.monotonic()
    threading.Timer(0.05, hints.wake).start()
    hints.wait(30)
    assert time.monotonic() - began < 20
