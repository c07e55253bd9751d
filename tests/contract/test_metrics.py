"""The runs of each class, read as `Control.record` has written them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness import Process, can

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.contracts.metrics import CountedSpan, Metrics, RunCounts
from goworkers_py.observe.executions import BOUNDS_S, Executions

BUCKETS = len(BOUNDS_S) + 1
NOTHING = (0,) * BUCKETS
# Twenty minutes ago, at a full ten minutes.
AT = float(time.time() // 600 * 600 - 1200)

Record = Callable[[float, dict[str, dict[str, Executions]]], None]


@pytest.fixture
def metrics(me: Process) -> Metrics:
    return can(me.broker, Capability.METRICS).metrics


@pytest.fixture
def record(metrics: Metrics, control: Control) -> Record:
    return lambda at, total: control.record(total, at)


def executions(runs: int, failures: int, total_ms: int, first: int = 0, last: int = 0) -> Executions:
    return Executions(runs, failures, total_ms, (first, *NOTHING[2:], last))


def test_runs_are_in_their_minute_and_count_once(metrics: Metrics, record: Record) -> None:
    mail, ping = executions(5, 1, 1234), executions(1, 0, 7)
    record(AT + 59, {"a": {"Mail": mail}})
    record(AT + 60, {"a": {"Mail": executions(6, 2, 1234), "Ping": ping}, "b": {"Mail": executions(2, 0, 10)}})
    assert metrics.minutes(AT, AT + 120) == [
        CountedSpan(AT, {"Mail": RunCounts(5, 1, 1234)}),
        CountedSpan(AT + 60, {"Mail": RunCounts(3, 1, 10), "Ping": RunCounts(1, 0, 7)}),
        CountedSpan(AT + 120, {}),
    ]


def test_runs_of_several_processes_are_added_up(me: Process, other: Process, metrics: Metrics) -> None:
    for one in (me, other):
        one.broker.control.record({"q": {"Mail": executions(5, 1, 1234, first=4)}}, AT)
    assert metrics.minutes(AT, AT) == [CountedSpan(AT, {"Mail": RunCounts(10, 2, 2468)})]
    assert list(metrics.histogram("Mail", AT, AT)) == [8, *NOTHING[1:]]


def test_a_span_begins_in_the_minute_of_its_begin(metrics: Metrics, record: Record) -> None:
    record(AT, {"q": {"Mail": executions(1, 0, 5)}})
    assert [span.at for span in metrics.minutes(AT + 59.9, AT + 60)] == [AT, AT + 60]
    assert metrics.minutes(AT + 59.9, AT + 60)[0].classes == {"Mail": RunCounts(1, 0, 5)}
    assert metrics.minutes(AT + 60, AT) == []


def test_of_one_class_no_other_is_read(metrics: Metrics, record: Record) -> None:
    record(AT, {"q": {"Mail": executions(5, 1, 1234), "Mail::Late": executions(2, 0, 3)}})
    [minute] = metrics.minutes(AT, AT, "Mail")
    assert minute.classes == {"Mail": RunCounts(5, 1, 1234)}
    [ten] = metrics.ten_minutes(AT, AT, "Mail")
    assert ten.classes == {"Mail": RunCounts(5, 1, 1234)}
    assert metrics.minutes(AT, AT, "Nobody") == [CountedSpan(AT, {})]


def test_ten_minutes_are_the_sums_of_their_minutes(metrics: Metrics, record: Record) -> None:
    record(AT, {"q": {"Mail": executions(1, 1, 0)}})
    record(AT + 599, {"q": {"Mail": executions(3, 1, 20)}})
    record(AT + 600, {"q": {"Mail": executions(4, 1, 25)}})
    assert metrics.ten_minutes(AT, AT + 660) == [
        CountedSpan(AT, {"Mail": RunCounts(3, 1, 20)}),
        CountedSpan(AT + 600, {"Mail": RunCounts(1, 0, 5)}),
    ]


def test_a_histogram_is_the_sum_of_its_minutes(metrics: Metrics, record: Record) -> None:
    record(AT, {"q": {"Mail": executions(3, 0, 9, first=3), "Ping": executions(1, 0, 1, first=1)}})
    record(AT + 60, {"q": {"Mail": executions(5, 0, 999_999, first=4, last=1), "Ping": executions(1, 0, 1, first=1)}})
    record(AT + 120, {"q": {"Mail": executions(6, 0, 999_999, first=5, last=1)}})
    assert list(metrics.histogram("Mail", AT, AT + 60)) == [4, *NOTHING[2:], 1]
    assert list(metrics.histogram("Nobody", AT, AT + 60)) == list(NOTHING)


def test_of_a_span_that_is_too_long_the_newest_part_is_read(metrics: Metrics, record: Record) -> None:
    record(AT, {"q": {"Mail": executions(1, 0, 5, first=1)}})
    until = AT + 479 * 60
    assert len(metrics.minutes(AT - 999_999, until)) == 480
    assert metrics.minutes(AT - 999_999, until)[0] == CountedSpan(AT, {"Mail": RunCounts(1, 0, 5)})
    assert sum(metrics.histogram("Mail", AT - 999_999, until)) == 1
    assert sum(metrics.histogram("Mail", AT - 999_999, until + 60)) == 0
    assert len(metrics.ten_minutes(AT - 999_999, AT)) == 432
    assert metrics.ten_minutes(AT - 999_999, AT)[-1] == CountedSpan(AT, {"Mail": RunCounts(1, 0, 5)})


@pytest.mark.parametrize("name", ["Größe::Auftrag", "a b-c:d", "\ud800", "", "a|b"])
def test_any_name_of_a_class_may_be_asked_for(metrics: Metrics, record: Record, name: str) -> None:
    record(AT, {"q": {name: executions(1, 0, 5, first=1), "Mail": executions(1, 0, 5, first=1)}})
    written = name not in ("\ud800", "", "a|b")  # these would break Sidekiq's page
    [minute] = metrics.minutes(AT, AT)
    assert (name in minute.classes) == written
    [minute] = metrics.minutes(AT, AT, name)
    assert minute.classes == ({name: RunCounts(1, 0, 5)} if written else {})
    assert sum(metrics.histogram(name, AT, AT)) == written


def test_without_marks_there_are_none(metrics: Metrics) -> None:
    assert metrics.marks(AT - 999_999_999, AT) == []
