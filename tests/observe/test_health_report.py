"""A health report says whether a process fetches jobs, and whether somebody should restart it."""

from __future__ import annotations

from typing import Any

import pytest

from goworkers_py.observe.health_report import (
    QUIET,
    STARTING,
    STOPPING,
    WORKING,
    HealthReport,
    QueueReport,
    merged,
    not_live,
    not_ready,
)

CUT_OFF = "no beat has reached the server for 70 s"
STALE = "fetcher:q stands still for 130 s"


def report(state: str = WORKING, stuck: int = 0, **fields: Any) -> HealthReport:
    """The report of one process with one queue of two threads."""
    queues = {"q": QueueReport(busy=2, capacity=2, waiting=0, stuck=stuck)}
    return {**merged(state, []), "processes": 1, "queues": queues, **fields}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (report(), ""),
        (report(STARTING), STARTING),
        (report(QUIET), QUIET),
        (report(STOPPING), STOPPING),
        (report(processes=0), "no process is running"),
        (report(stale=STALE), STALE),
        (report(cut_off=CUT_OFF), CUT_OFF),
        (report(stuck=1), ""),
        (report(stuck=2), "stuck jobs hold all threads of queue q"),
    ],
)
def test_a_process_is_ready_while_it_fetches_jobs(told: HealthReport, why: str) -> None:
    assert not_ready(told) == why


def test_only_a_loop_that_stands_still_is_a_reason_to_restart() -> None:
    assert not_live(report(stale=STALE)) == STALE
    assert not_live(report(QUIET, stuck=2, cut_off=CUT_OFF)) == ""
