"""Rates and growth, from counts that are looked at now and then."""

from __future__ import annotations

import dataclasses

import pytest

from goworkers_py.brokers.contracts.fleet import QueueStats, Stats
from goworkers_py.web.site.trends import MOST_POINTS, Trends


def stats(processed: int, size: int, failed: int = 0) -> Stats:
    queues = [QueueStats("mail", size, 0.0)]
    return dataclasses.replace(Stats.nothing(), processed=processed, failed=failed, queues=queues)


def test_rates_are_those_of_the_last_seconds() -> None:
    now = [0.0]
    trends = Trends(lambda: now[0])
    assert trends.rates("") == (None, None)
    for second in range(0, 100, 5):
        now[0] = float(second)
        trends.add("", stats(second * (10 if second < 50 else 30), 0, second))
    assert trends.rates("") == (pytest.approx(30.0), pytest.approx(1.0))
    assert trends.rates("other") == (None, None)


def test_the_growth_of_a_queue_is_told_by_the_minute_and_drawn() -> None:
    now = [0.0]
    trends = Trends(lambda: now[0])
    for second in range(0, 120, 5):
        now[0] = float(second)
        trends.add("", stats(0, second * 2))
    growth, sizes = trends.growth("", "mail")
    assert growth == pytest.approx(120.0)
    assert sizes[0] == 0
    assert sizes[-1] == 230


def test_many_looks_take_no_more_memory_and_the_last_one_counts() -> None:
    now = [0.0]
    trends = Trends(lambda: now[0])
    for tick in range(5_000):
        now[0] = tick / 5
        trends.add("", stats(tick, tick))
    assert len(trends._points[""]) <= MOST_POINTS
    assert trends.growth("", "mail")[1][-1] == 4_999
    assert trends.rates("").processed_per_s == pytest.approx(5.0, rel=0.05)


def test_counts_that_were_set_back_are_no_negative_rate() -> None:
    now = [0.0]
    trends = Trends(lambda: now[0])
    trends.add("", stats(100, 0))
    now[0] = 5.0
    trends.add("", stats(0, 0))
    assert trends.rates("").processed_per_s == 0
