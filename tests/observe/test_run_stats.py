from __future__ import annotations

import threading
from itertools import product

import pytest

from goworkers_py.core.outcome import DISCARD, DONE, KEEP, REQUEUE, Dead, Outcome, Retry
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
     (REQUEUE, "requeued"), (KEEP, "unacknowledged")],
)  # fmt: skip
def test_each_end_has_its_place(outcome: Outcome, result: str) -> None:
    tally = RunStats()
    tally.add("A", outcome, 0.2, None)
    row = tally.snapshot()["A"]
    assert [name for name, count in zip(RESULTS, row, strict=False) if count] == [result]
    assert sum(row[:RUN_SUM]) == sum(row[RUN:WAIT_SUM]) == 1
    assert sum(row[WAIT:]) == 0  # nobody knows when it was enqueued


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (BOUNDS_S[0], 0), (BOUNDS_S[0] * 1.01, 1), (1.0, 7), (1e9, len(BOUNDS_S))]
)
def test_a_bucket_ends_with_its_bound(seconds: float, bucket: int) -> None:
    tally = RunStats()
    tally.add("A", DONE, seconds, seconds)
    row = tally.snapshot()["A"]
    assert row[RUN + bucket] == row[WAIT + bucket] == 1
    assert row[RUN_SUM] == row[WAIT_SUM] == seconds


def test_a_clock_that_is_behind_makes_no_wait_below_zero() -> None:
    tally = RunStats()
    tally.add("A", DONE, 0.0, -5.0)
    row = tally.snapshot()["A"]
    assert (row[WAIT], row[WAIT_SUM]) == (1, 0)


def test_a_class_that_is_known_has_a_row_before_its_first_run() -> None:
    tally = RunStats(["A", "B"])
    tally.add("B", Dead(b""), 0.1, None)
    rows = tally.snapshot()
    assert [sum(rows[name][:RUN_SUM]) for name in ("A", "B")] == [0, 1]
    assert tally.executions()["A"].runs == 0


def test_strangers_cannot_name_classes_without_end() -> None:
    tally = RunStats()
    for number in range(MOST_CLASSES + 10):
        tally.add(f"C{number}", DONE, 0.0, None)
    rows = tally.snapshot()
    assert len(rows) == MOST_CLASSES + 1
    assert rows[OTHERS][0] == 10
    assert tally.ended == MOST_CLASSES + 10


def test_strangers_cannot_give_a_class_a_name_without_end() -> None:
    tally = RunStats()
    for number in range(3):
        tally.add("C" * 1_000_000 + str(number), DONE, 0.0, None)
    ((name, row),) = tally.snapshot().items()
    assert (len(name), row[0]) == (200, 3)


def test_strangers_cannot_name_classes_without_end_on_sidekiqs_page_either() -> None:
    of_queues = [RunStats(), RunStats()]
    for tally in of_queues:
        for number in range(MOST_CLASSES + 10):
            tally.add(f"C{number}", DONE, 0.0, None)
    sums = total(tally.executions() for tally in of_queues)
    assert len(sums) == MOST_CLASSES + 1
    assert (sums["C0"].runs, sums[OTHERS].runs) == (2, 20)


def test_no_count_of_any_thread_is_lost() -> None:
    tally = RunStats()
    threads = [
        threading.Thread(target=lambda: [tally.add("A", DONE, 0.0, 0.0) for _ in range(5_000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.ended == tally.snapshot()["A"][WAIT] == 20_000


def test_a_run_is_noted_without_a_lock_but_for_one_in_many() -> None:
    tally = RunStats()
    adding = threading.Thread(target=tally.add, args=("A", DONE, 0.0, None), daemon=True)
    with tally._lock:
        adding.start()
        adding.join(20)
        assert not adding.is_alive()
    assert tally.ended == 1


def test_rows_add_up_by_position() -> None:
    one, other = RunStats(), RunStats()
    for tally, name in product((one, other), ("A", "B")):
        tally.add(name, DONE, 1.0, None)
    other.add("C", KEEP, 1.0, None)
    sums = sum_of([one.snapshot(), other.snapshot()])
    assert {name: sum(row[:RUN_SUM]) for name, row in sums.items()} == {"A": 2, "B": 2, "C": 1}
    assert sums["A"][RUN_SUM] == 2.0


def test_the_bound_of_classes_holds_for_sums_too() -> None:
    one, other = RunStats(), RunStats()
    for number in range(MOST_CLASSES):
        one.add(f"A{number}", DONE, 0.0, None)
        other.add(f"B{number}", DONE, 0.0, None)
    sums = sum_of([one.snapshot(), other.snapshot()])
    assert len(sums) == MOST_CLASSES + 1
    assert sums[OTHERS][0] == MOST_CLASSES
