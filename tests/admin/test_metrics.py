"""The runs of each class, as the inspector shows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
import simplejson
from apps import own_broker

from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.metrics import BOUNDS_MS
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.metrics import DeployMark
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.observe.executions import Executions

NOW = 1_795_000_230.5  # half a minute after full ten minutes
MINUTE = 1_795_000_200.0
NONE = (0,) * 26


@pytest.fixture
def broker(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with own_broker(redis_url) as broker:
        monkeypatch.setattr(broker.admin, "now", lambda: NOW)
        yield broker


@pytest.fixture
def inspector(broker: Broker) -> Inspector:
    return Inspector(lambda: broker)


def record(broker: Broker, at: float, **classes: Executions) -> None:
    broker.control.record({"q": classes}, at)


def ruby(redis: redis_py.Redis, at: float, job_class: str, runs: int, failures: int, total_ms: int) -> None:
    """As Sidekiq 8.1 does, by its patterns for strftime."""
    for key in (
        time.strftime("j|%y%m%d|%-H:%M", time.gmtime(at)),
        time.strftime("j|%y%m%d|%-H:%M", time.gmtime(at))[:-1],
    ):
        for what, count in (("p", runs), ("f", failures), ("ms", total_ms)):
            redis.hincrby(key, f"{job_class}|{what}", count)


def test_classes_of_python_and_ruby_come_with_the_longest_run_time_first(
    broker: Broker, inspector: Inspector, redis: redis_py.Redis
) -> None:
    record(broker, NOW, Quick=Executions(100, 0, 50, NONE), Slow=Executions(2, 1, 9_000, NONE))
    ruby(redis, NOW - 60, "Billing::InvoiceJob", 4, 1, 600)
    ruby(redis, NOW - 120, "Billing::InvoiceJob", 2, 0, 400)
    told = inspector.metrics()
    assert [(one.job_class, one.runs, one.failures, one.total_ms, one.mean_ms) for one in told] == [
        ("Slow", 2, 1, 9_000, 9_000.0), ("Billing::InvoiceJob", 6, 1, 1_000, 200.0), ("Quick", 100, 0, 50, 0.5),
    ]  # fmt: skip


def test_a_series_has_a_step_for_each_minute(broker: Broker, inspector: Inspector, redis: redis_py.Redis) -> None:
    ruby(redis, NOW - 3600, "Mail", 9, 9, 0)  # a minute too early
    ruby(redis, NOW - 3540, "Mail", 1, 0, 5)
    ruby(redis, NOW, "Mail", 4, 3, 5)
    [mail] = inspector.metrics(hours=1)
    assert mail.series.step_s == 60
    assert list(mail.series.starts) == [MINUTE - 60 * back for back in range(59, -1, -1)]
    assert list(mail.series.runs) == [1, *(0,) * 58, 4]
    assert list(mail.series.failures) == [0, *(0,) * 58, 3]


@pytest.mark.parametrize(
    ("hours", "step_s", "steps"),
    [(1, 60, 60), (2, 60, 120), (4, 60, 240), (8, 60, 480), (24, 600, 144), (72, 600, 432)],
)
def test_each_number_of_hours_is_told_in_its_steps(
    broker: Broker, inspector: Inspector, redis: redis_py.Redis, hours: int, step_s: int, steps: int
) -> None:
    first = NOW // step_s * step_s - (steps - 1) * step_s
    ruby(redis, first - 1, "Mail", 9, 9, 0)
    ruby(redis, first, "Mail", 1, 0, 5)
    ruby(redis, NOW, "Mail", 2, 0, 5)
    [mail] = inspector.metrics(hours)
    assert (mail.series.step_s, mail.series.starts[0], len(mail.series.starts)) == (step_s, first, steps)
    assert (mail.runs, mail.series.runs[0], mail.series.runs[-1]) == (3, 1, 2)
    assert inspector.metrics_of("Mail", hours).series == mail.series


def test_a_class_of_which_all_runs_failed_has_no_mean(broker: Broker, inspector: Inspector) -> None:
    record(broker, NOW, Mail=Executions(3, 3, 0, NONE))
    [mail] = inspector.metrics()
    assert (mail.runs, mail.failures, mail.mean_ms) == (3, 3, None)


def test_one_class_is_told_with_the_percentiles_of_its_runs(broker: Broker, inspector: Inspector) -> None:
    histogram = (*NONE[:3], 50, 40, 10, *NONE[6:])  # 45 to 65, to 100, to 150 ms
    record(broker, NOW, Mail=Executions(101, 1, 7_000, histogram), Other=Executions(1, 0, 9, (1, *NONE[1:])))
    told = inspector.metrics_of("Mail")
    assert (told.job_class, told.runs, told.failures, told.mean_ms) == ("Mail", 101, 1, 70.0)
    assert tuple(told.histogram) == histogram
    assert (told.p50_ms, told.p95_ms, told.p99_ms) == pytest.approx((65, 125, 145))
    assert told.histogram_since == MINUTE - 59 * 60
    assert (len(told.bounds_ms), told.bounds_ms[0], told.bounds_ms[-1]) == (25, 20, 335_000)


def test_a_class_that_has_not_run_has_no_percentiles(inspector: Inspector) -> None:
    told = inspector.metrics_of("Nobody", hours=8)
    assert (told.runs, told.mean_ms, told.p50_ms, told.p99_ms, sum(told.histogram)) == (0, None, None, None, 0)
    assert len(told.series.starts) == 480
    assert inspector.metrics(hours=8) == []


@pytest.mark.parametrize("hours", [24, 72])
def test_percentiles_of_days_are_those_of_the_last_eight_hours(
    broker: Broker, inspector: Inspector, hours: int
) -> None:
    first = MINUTE - 479 * 60
    record(broker, first - 1, Mail=Executions(1, 0, 9, (1, *NONE[1:])))
    record(broker, first, Mail=Executions(3, 0, 400_009, (1, *NONE[2:], 2)))
    told = inspector.metrics_of("Mail", hours)
    assert (told.runs, told.histogram_since, told.histogram[0], told.histogram[-1]) == (3, first, 0, 2)
    assert told.p50_ms == 335_000


def test_what_is_told_can_be_json(broker: Broker, inspector: Inspector) -> None:
    record(broker, NOW, Mail=Executions(2, 1, 30, (0, 1, *NONE[2:])))
    [mail] = inspector.metrics()
    told = simplejson.loads(simplejson.dumps(mail.as_dict()))
    assert {**told, "series": sorted(told["series"])} == {
        "job_class": "Mail", "runs": 2, "failures": 1, "total_ms": 30, "mean_ms": 30.0,
        "series": ["failures", "runs", "starts", "step_s"],
    }  # fmt: skip
    detail = simplejson.loads(simplejson.dumps(inspector.metrics_of("Mail").as_dict()))
    assert {"p50_ms", "p95_ms", "p99_ms", "histogram", "histogram_since", *told} < detail.keys()
    assert detail["bounds_ms"] == list(BOUNDS_MS)


def test_marks_of_deploys_are_those_of_the_hours(broker: Broker, inspector: Inspector) -> None:
    assert broker.neighbours is not None
    for label, at in (("old", NOW - 3600), ("first", NOW - 3540), ("last", NOW)):
        assert broker.neighbours.mark_deploy(label, at) is None
    assert inspector.deploy_marks() == [DeployMark(MINUTE - 3540, "first"), DeployMark(MINUTE, "last")]
    assert [mark.label for mark in inspector.deploy_marks(hours=24)] == ["old", "first", "last"]


@pytest.mark.parametrize("hours", [0, 3, -1, 48, 1.5])
def test_other_hours_are_refused(inspector: Inspector, hours: int) -> None:
    told = r"hours: one of 1, 2, 4, 8, 24, 72, not "
    for ask in (inspector.metrics, lambda hours: inspector.metrics_of("Mail", hours), inspector.deploy_marks):
        with pytest.raises(ArgumentError, match=told):
            ask(hours)


def test_the_time_is_that_of_the_broker(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url) as broker:
        inspector = Inspector(lambda: broker, wall=lambda: 0.0)
        assert inspector.knows_metrics
        record(broker, inspector.now(), Mail=Executions(1, 0, 5, NONE))
        assert [one.job_class for one in inspector.metrics()] == ["Mail"]


def test_a_broker_without_metrics_says_so() -> None:
    with closing(open_broker(Config(broker="memory://metrics"))) as broker:
        inspector = Inspector(lambda: broker)
        assert not inspector.knows_metrics
        for ask in (inspector.metrics, lambda: inspector.metrics_of("Mail"), inspector.deploy_marks):
            with pytest.raises(ConfigError, match="memory has no runs of each class by the minute"):
                ask()
    forget("memory://metrics")
