from __future__ import annotations

import threading
from itertools import product

import pytest

from goworkers_py.core.outcome import (
    CANCELLED,
    DISCARD,
    DONE,
    EXPIRED,
    LOST,
    REQUEUE,
    UNACKNOWLEDGED,
    Dead,
    Outcome,
    Park,
    Reschedule,
    Retry,
)
from goworkers_py.observe.executions import total
from goworkers_py.observe.run_stats import (
    BOUNDS_S,
    MOST_CLASSES,
    OTHERS,
    RESULTS,
    RUN,
    RUN_SUM,
    WAIT,
    WAIT_SUM,
    RunStats,
    sum_of,
)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [(DONE, "done"), (Retry(1.0, b""), "retried"), (Dead(b""), "dead"), (DISCARD, "discarded"),
     (REQUEUE, "requeued"), (Reschedule(1.0, b""), "requeued"), (Park("line"), "requeued"),
     (UNACKNOWLEDGED, "unacknowledged"), (LOST, "unacknowledged"),
     (CANCELLED, "cancelled")],
)  # fmt: skip
def test_each_outcome_is_counted_under_its_result(outcome: Outcome, result: str) -> None:
    stats = RunStats()
    stats.add("A", outcome, 0.2, None)
    row = stats.snapshot()["A"]
    assert [name for name, count in zip(RESULTS, row, strict=False) if count] == [result]
    assert sum(row[:RUN_SUM]) == sum(row[RUN:WAIT_SUM]) == 1
    assert sum(row[WAIT:]) == 0  # its time of enqueueing is unknown


def test_a_job_that_ended_without_a_run_is_counted_and_has_no_run_time() -> None:
    stats = RunStats()
    stats.add("A", DONE, 0.2, None)
    stats.add_unrun("A", EXPIRED)
    stats.add_unrun("B", CANCELLED)
    rows = stats.snapshot()
    assert [name for name, count in zip(RESULTS, rows["A"], strict=False) if count] == ["done", "expired"]
    assert [name for name, count in zip(RESULTS, rows["B"], strict=False) if count] == ["cancelled"]
    assert sum(rows["B"][RUN_SUM:]) == 0
    assert stats.ended == 1, "runs"


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (BOUNDS_S[0], 0), (BOUNDS_S[0] * 1.01, 1), (1.0, 7), (1e9, len(BOUNDS_S))]
)
def test_a_bucket_ends_with_its_bound(seconds: float, bucket: int) -> None:
    stats = RunStats()
    stats.add("A", DONE, seconds, seconds)
    row = stats.snapshot()["A"]
    assert row[RUN + bucket] == row[WAIT + bucket] == 1
    assert row[RUN_SUM] == row[WAIT_SUM] == seconds


def test_a_producers_clock_that_is_ahead_makes_no_negative_waiting_time() -> None:
    stats = RunStats()
    stats.add("A", DONE, 0.0, -5.0)
    row = stats.snapshot()["A"]
    assert (row[WAIT], row[WAIT_SUM]) == (1, 0)


def test_a_known_class_has_a_row_before_its_first_run() -> None:
    stats = RunStats(["A", "B"])
    stats.add("B", Dead(b""), 0.1, None)
    rows = stats.snapshot()
    assert [sum(rows[name][:RUN_SUM]) for name in ("A", "B")] == [0, 1]
    assert stats.executions()["A"].runs == 0


def test_the_number_of_classes_is_limited() -> None:
    stats = RunStats()
    for number in range(MOST_CLASSES + 10):
        stats.add(f"C{number}", DONE, 0.0, None)
    rows = stats.snapshot()
    assert len(rows) == MOST_CLASSES + 1
    assert rows[OTHERS][0] == 10
    assert stats.ended == MOST_CLASSES + 10


def test_the_length_of_a_class_name_is_limited() -> None:
    stats = RunStats()
    for number in range(3):
        stats.add("C" * 1_000_000 + str(number), DONE, 0.0, None)
    ((name, row),) = stats.snapshot().items()
    assert (len(name), row[0]) == (200, 3)


def test_the_number_of_classes_is_limited_on_sidekiqs_page_too() -> None:
    of_queues = [RunStats(), RunStats()]
    for stats in of_queues:
        for number in range(MOST_CLASSES + 10):
            stats.add(f"C{number}", DONE, 0.0, None)
    sums = total(stats.executions() for stats in of_queues)
    assert len(sums) == MOST_CLASSES + 1
    assert (sums["C0"].runs, sums[OTHERS].runs) == (2, 20)


def test_no_thread_loses_a_count() -> None:
    stats = RunStats()
    threads = [
        threading.Thread(target=lambda: [stats.add("A", DONE, 0.0, 0.0) for _ in range(5_000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats.ended == stats.snapshot()["A"][WAIT] == 20_000


def test_only_one_run_in_many_takes_the_lock() -> None:
    stats = RunStats()
    adding = threading.Thread(target=stats.add, args=("A", DONE, 0.0, None), daemon=True)
    with stats._lock:
        adding.start()
        adding.join(20)
        assert not adding.is_alive()
    assert stats.ended == 1


def test_rows_add_up_by_position() -> None:
    one, other = RunStats(), RunStats()
    for stats, name in product((one, other), ("A", "B")):
        stats.add(name, DONE, 1.0, None)
    other.add("C", UNACKNOWLEDGED, 1.0, None)
    sums = sum_of([one.snapshot(), other.snapshot()])
    assert {name: sum(row[:RUN_SUM]) for name, row in sums.items()} == {"A": 2, "B": 2, "C": 1}
    assert sums["A"][RUN_SUM] == 2.0


def test_the_number_of_classes_is_limited_in_sums_too() -> None:
    one, other = RunStats(), RunStats()
    for number in range(MOST_CLASSES):
        one.add(f"A{number}", DONE, 0.0, None)
        other.add(f"B{number}", DONE, 0.0, None)
    sums = sum_of([one.snapshot(), other.snapshot()])
    assert len(sums) == MOST_CLASSES + 1
    assert sums[OTHERS][0] == MOST_CLASSES
