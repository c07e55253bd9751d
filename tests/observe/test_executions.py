"""Percentiles of run times, from a histogram."""

from __future__ import annotations

import pytest

from goworkers_py.observe.executions import BOUNDS_S, percentile_s


def histogram(**buckets: int) -> list[int]:
    return [buckets.get(f"b{bucket}", 0) for bucket in range(len(BOUNDS_S) + 1)]


@pytest.mark.parametrize(
    ("buckets", "percent", "expected"),
    [
        ({"b0": 10}, 50, 0.010),
        ({"b0": 10}, 100, 0.020),
        ({"b1": 4}, 25, 0.0225),
        ({"b1": 1, "b9": 1}, 50, 0.030),
        ({"b1": 1, "b9": 1}, 51, 0.505),
        ({"b0": 90, "b24": 10}, 95, 280.0),
        ({"b0": 99, "b25": 1}, 99, 0.020),
        ({"b0": 98, "b25": 2}, 99, 335.0),
        ({"b25": 1}, 50, 335.0),
    ],
)
def test_a_percentile_is_within_its_bucket(buckets: dict[str, int], percent: float, expected: float) -> None:
    assert percentile_s(histogram(**buckets), percent) == pytest.approx(expected)


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_without_runs_there_is_no_percentile(percent: float) -> None:
    assert percentile_s(histogram(), percent) is None
