from __future__ import annotations

import pytest

from goworkers_py.policy.prefetch import AdaptivePrefetch


@pytest.mark.parametrize("fixed", [0, 7, 500])
def test_a_fixed_prefetch_does_not_depend_on_the_jobs(fixed: int) -> None:
    prefetch = AdaptivePrefetch(fixed, 1)
    assert prefetch.reserve() == fixed
    prefetch.record(10.0)
    assert prefetch.reserve() == fixed


def test_nothing_is_prefetched_before_the_first_run() -> None:
    assert AdaptivePrefetch(None, 1).reserve() == 0


@pytest.mark.parametrize(
    ("seconds", "reserve"),
    [(0.1, 0), (0.021, 0), (0.02, 1), (0.01, 2), (0.001, 20), (0.0001, 200), (0.0, 200)],
)
def test_about_twenty_milliseconds_of_work_are_prefetched(seconds: float, reserve: int) -> None:
    prefetch = AdaptivePrefetch(None, 1)
    for _ in range(3):
        prefetch.record(seconds)
    assert prefetch.reserve() == reserve


@pytest.mark.parametrize(("seconds", "reserve"), [(0.1, 0), (0.021, 0), (0.02, 25), (0.01, 50), (0.001, 200)])
def test_more_workers_prefetch_more(seconds: float, reserve: int) -> None:
    prefetch = AdaptivePrefetch(None, 25)
    prefetch.record(seconds)
    assert prefetch.reserve() == reserve


def test_the_prefetch_has_a_maximum() -> None:
    prefetch = AdaptivePrefetch(None, 1, longest_reserve=8)
    prefetch.record(0.0)
    assert prefetch.reserve() == 8


def test_old_runs_lose_their_weight_in_the_average() -> None:
    prefetch = AdaptivePrefetch(None, 1)
    prefetch.record(0.001)
    prefetch.record(10.0)
    assert prefetch.reserve() == 0
    for _ in range(200):
        prefetch.record(0.001)
    assert prefetch.reserve() == 19  # the average approaches 0.001 s from above


def test_one_slow_job_among_quick_ones_weighs_a_tenth() -> None:
    prefetch = AdaptivePrefetch(None, 1)
    prefetch.record(0.001)
    prefetch.record(0.011)
    assert prefetch.reserve() == 10
