from __future__ import annotations

import sys
import threading

import pytest

from goworkers_py.observe.counters import Counters
from goworkers_py.policy.prefetch import AdaptivePrefetch


def test_counters_count_what_is_added() -> None:
    counters = Counters()
    counters.add("processed")
    counters.add("processed", 4)
    counters.add("failed", 0)
    assert counters.snapshot() == {"processed": 5, "failed": 0}


def test_a_snapshot_of_the_counters_does_not_change() -> None:
    counters = Counters()
    before = counters.snapshot()
    counters.add("processed")
    assert before == {}


def test_no_count_is_lost_between_threads() -> None:
    counters = Counters()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [counters.add("processed") for _ in range(5_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert counters.snapshot() == {"processed": 20_000}


# --- pace


@pytest.mark.parametrize("fixed", [0, 7, 500])
def test_a_fixed_prefetch_does_not_depend_on_the_jobs(fixed: int) -> None:
    pace = AdaptivePrefetch(fixed, 1)
    assert pace.reserve() == fixed
    pace.record(10.0)
    assert pace.reserve() == fixed


def test_nothing_is_held_in_reserve_until_something_is_known() -> None:
    assert AdaptivePrefetch(None, 1).reserve() == 0


@pytest.mark.parametrize(
    ("seconds", "reserve"),
    [(0.1, 0), (0.021, 0), (0.02, 1), (0.01, 2), (0.001, 20), (0.0001, 100), (0.0, 100)],
)
def test_about_twenty_milliseconds_of_work_are_held_in_reserve(seconds: float, reserve: int) -> None:
    pace = AdaptivePrefetch(None, 1)
    for _ in range(3):
        pace.record(seconds)
    assert pace.reserve() == reserve


@pytest.mark.parametrize(("seconds", "reserve"), [(0.1, 0), (0.021, 0), (0.02, 25), (0.01, 50), (0.001, 100)])
def test_many_workers_get_through_more_in_that_time(seconds: float, reserve: int) -> None:
    pace = AdaptivePrefetch(None, 25)
    pace.record(seconds)
    assert pace.reserve() == reserve


def test_the_reserve_is_capped() -> None:
    pace = AdaptivePrefetch(None, 1, longest_reserve=8)
    pace.record(0.0)
    assert pace.reserve() == 8


def test_the_average_forgets() -> None:
    pace = AdaptivePrefetch(None, 1)
    pace.record(0.001)
    pace.record(10.0)
    assert pace.reserve() == 0
    for _ in range(200):
        pace.record(0.001)
    assert pace.reserve() == 19  # the average comes near, never below


def test_one_slow_job_among_quick_ones_weighs_a_tenth() -> None:
    pace = AdaptivePrefetch(None, 1)
    pace.record(0.001)
    pace.record(0.011)
    assert pace.reserve() == 10
