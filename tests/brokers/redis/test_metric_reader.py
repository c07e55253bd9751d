"""Executions, read from the keys that Sidekiq 7.3, Sidekiq 8.1 and our own writer make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
import redis as redis_py
from apps import own_broker

from goworkers_py.brokers.contracts.metrics import CountedSpan, DeployMark, RunCounts
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import RedisCommand
from goworkers_py.brokers.redis.fleet.metric_reader import MetricReader
from goworkers_py.brokers.redis.fleet.sidekiq_metrics import SidekiqMetrics
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.neighbours import RedisNeighbours
from goworkers_py.observe.executions import Executions


def utc(*when: int) -> float:
    return datetime(*when, tzinfo=timezone.utc).timestamp()  # type: ignore[arg-type,misc]


# A day, an hour and a minute of one digit: each layout writes them in its own way.
AT = utc(2025, 2, 4, 8, 3)
NOTHING = (0,) * 26


class Counting(Connections):
    """Counts what is asked of the server."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.exchanges: list[Sequence[RedisCommand]] = []

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        self.exchanges.append(commands)
        return super().replies(commands)


@pytest.fixture
def connections(redis_url: str) -> Iterator[Counting]:
    connections = Counting(redis_url)
    yield connections
    connections.close()


@pytest.fixture
def reader(connections: Connections) -> MetricReader:
    return MetricReader(connections, Keys())


def ran(redis: redis_py.Redis, key: str, job_class: str, runs: int, failures: int = 0, total_ms: int = 0) -> None:
    """Counts as Sidekiq does: what is zero has no field."""
    for what, count in (("p", runs), ("f", failures), ("ms", total_ms)):
        if count:
            redis.hincrby(key, f"{job_class}|{what}", count)


def took(redis: redis_py.Redis, key: str, **buckets: int) -> None:
    for bucket, count in buckets.items():
        redis.execute_command("BITFIELD", key, "OVERFLOW", "SAT", "INCRBY", "u16", f"#{bucket[1:]}", count)


def histogram(**buckets: int) -> list[int]:
    return [buckets.get(f"b{bucket}", 0) for bucket in range(26)]


# --- what Sidekiq writes


def test_the_keys_of_sidekiq_7_are_read(reader: MetricReader, redis: redis_py.Redis) -> None:
    ran(redis, "j|20250204|8:3", "Billing::InvoiceJob", 7, 2, 4321)
    ran(redis, "j|20250204|8:13", "Billing::InvoiceJob", 1, 1)
    took(redis, "Billing::InvoiceJob-04-08:3", b0=3, b7=2)
    took(redis, "Billing::InvoiceJob-04-08:13", b25=70_000)
    minutes = reader.minutes(AT, AT + 600)
    assert [(span.at, span.classes) for span in minutes if span.classes] == [
        (AT, {"Billing::InvoiceJob": RunCounts(7, 2, 4321)}),
        (AT + 600, {"Billing::InvoiceJob": RunCounts(1, 1, 0)}),
    ]
    assert len(minutes) == 11
    assert reader.ten_minutes(AT, AT + 600) == [
        CountedSpan(AT - 180, {"Billing::InvoiceJob": RunCounts(7, 2, 4321)}),
        CountedSpan(AT + 420, {"Billing::InvoiceJob": RunCounts(1, 1, 0)}),
    ]
    assert reader.histogram("Billing::InvoiceJob", AT, AT) == histogram(b0=3, b7=2)
    assert reader.histogram("Billing::InvoiceJob", AT, AT + 600) == histogram(b0=3, b7=2, b25=65_535)


def test_the_keys_of_sidekiq_8_are_read(reader: MetricReader, redis: redis_py.Redis) -> None:
    ran(redis, "j|250204|8:03", "Billing::InvoiceJob", 7, 2, 4321)
    ran(redis, "j|250204|8:0", "Billing::InvoiceJob", 9, 3, 5000)
    took(redis, "h|Billing::InvoiceJob-4-8:3", b0=3, b7=2)
    assert reader.minutes(AT, AT) == [CountedSpan(AT, {"Billing::InvoiceJob": RunCounts(7, 2, 4321)})]
    assert reader.ten_minutes(AT, AT) == [CountedSpan(AT - 180, {"Billing::InvoiceJob": RunCounts(9, 3, 5000)})]
    assert reader.histogram("Billing::InvoiceJob", AT, AT) == histogram(b0=3, b7=2)


@pytest.mark.parametrize(
    ("when", "seven", "eight", "ten"),
    [
        ((2025, 12, 31, 23, 59), "j|20251231|23:59", "j|251231|23:59", "j|251231|23:5"),
        ((2026, 1, 1, 0, 0), "j|20260101|0:0", "j|260101|0:00", "j|260101|0:0"),
        ((2025, 2, 14, 10, 9), "j|20250214|10:9", "j|250214|10:09", "j|250214|10:0"),
    ],
)
def test_each_padding_is_found(
    reader: MetricReader, redis: redis_py.Redis, when: tuple[int, ...], seven: str, eight: str, ten: str
) -> None:
    at = utc(*when)
    ran(redis, seven, "Seven", 1)
    ran(redis, eight, "Eight", 2)
    ran(redis, ten, "Eight", 3)
    assert reader.minutes(at, at)[0].classes == {"Seven": RunCounts(1), "Eight": RunCounts(2)}
    assert reader.ten_minutes(at, at)[0].classes == {"Seven": RunCounts(1), "Eight": RunCounts(3)}


def test_ten_minutes_of_sidekiq_7_are_those_of_the_last_eight_hours(
    reader: MetricReader, redis: redis_py.Redis
) -> None:
    ran(redis, "j|20250204|8:3", "Seven", 1)
    ran(redis, "j|250204|8:0", "Eight", 1)
    for later, seen in ((47, {"Seven", "Eight"}), (48, {"Eight"})):
        spans = reader.ten_minutes(AT, AT + later * 600)
        assert (len(spans), set(spans[0].classes)) == (later + 1, seen)


# --- both layouts


def test_for_each_class_and_minute_the_layout_with_more_runs_counts(
    reader: MetricReader, redis: redis_py.Redis
) -> None:
    ran(redis, "j|20250204|8:3", "Both", 5, 1, 100)
    ran(redis, "j|250204|8:03", "Both", 5, 1, 100)
    ran(redis, "j|20250204|8:3", "MoreInSeven", 6, 0, 10)
    ran(redis, "j|250204|8:03", "MoreInSeven", 2, 2, 99)
    ran(redis, "j|20250204|8:4", "MoreInSeven", 1, 0, 1)
    ran(redis, "j|250204|8:04", "MoreInSeven", 3, 0, 3)
    took(redis, "MoreInSeven-04-08:3", b3=6)
    took(redis, "h|MoreInSeven-4-8:3", b2=2)
    took(redis, "h|MoreInSeven-4-8:4", b2=3)
    assert reader.minutes(AT, AT + 60) == [
        CountedSpan(AT, {"Both": RunCounts(5, 1, 100), "MoreInSeven": RunCounts(6, 0, 10)}),
        CountedSpan(AT + 60, {"MoreInSeven": RunCounts(3, 0, 3)}),
    ]
    assert reader.histogram("MoreInSeven", AT, AT + 60) == histogram(b3=6, b2=3)


@pytest.mark.parametrize("choice", ["7", "8", "auto"])
def test_our_own_writer_is_read_alike_in_each_layout(
    connections: Connections, reader: MetricReader, redis: redis_py.Redis, choice: str
) -> None:
    writer = SidekiqMetrics(connections, Keys(), choice)
    writer.write({"Mail": Executions(5, 1, 1234, (3, *NOTHING[2:], 1))}, AT + 59)
    writer.write({"Mail": Executions(6, 1, 1300, (3, 1, *NOTHING[3:], 1))}, AT + 61)
    assert bool(redis.keys("j|????????|*")) == (choice != "8")
    assert bool(redis.keys("j|??????|*")) == (choice != "7")
    assert reader.minutes(AT, AT + 60) == [
        CountedSpan(AT, {"Mail": RunCounts(5, 1, 1234)}), CountedSpan(AT + 60, {"Mail": RunCounts(1, 0, 66)}),
    ]  # fmt: skip
    assert reader.ten_minutes(AT, AT) == [CountedSpan(AT - 180, {"Mail": RunCounts(6, 1, 1300)})]
    assert reader.histogram("Mail", AT, AT + 60) == histogram(b0=3, b1=1, b25=1)


def test_a_namespace_is_before_every_key(connections: Connections, redis: redis_py.Redis) -> None:
    reader = MetricReader(connections, Keys("app"))
    ran(redis, "j|20250204|8:3", "Other", 9)
    ran(redis, "app:j|20250204|8:3", "Mail", 1)
    took(redis, "app:Mail-04-08:3", b2=1)
    redis.hset("app:20250204-marks", "2025-02-04T08:03:00Z", "v2")
    assert reader.minutes(AT, AT)[0].classes == {"Mail": RunCounts(1)}
    assert reader.histogram("Mail", AT, AT) == histogram(b2=1)
    assert reader.marks(AT, AT) == [DeployMark(AT, "v2")]


# --- what is damaged


def test_a_damaged_key_hides_no_other_one(reader: MetricReader, redis: redis_py.Redis) -> None:
    redis.set("j|20250204|8:3", "no hash")
    redis.lpush("Mail-04-08:3", "no string")
    redis.set("20250203-marks", "no hash")
    redis.hset(
        "j|250204|8:03", mapping={"Mail|p": "x", "Mail|ms": 5, "Mail|other": 7, "Bare": 1, b"\xff|p": 2, "a|b|p": 3}
    )
    redis.set("h|Mail-4-8:3", b"\0\1" * 40)
    assert reader.minutes(AT, AT)[0].classes == {
        "Mail": RunCounts(0, 0, 5), "\ufffd": RunCounts(2), "a|b": RunCounts(3),
    }  # fmt: skip
    assert reader.minutes(AT, AT, "Mail")[0].classes == {"Mail": RunCounts(0, 0, 5)}
    assert reader.histogram("Mail", AT, AT) == [1] * 26
    assert reader.marks(AT - 86_400, AT) == []


# --- how much is asked


@pytest.mark.parametrize("span", ["minutes", "ten_minutes"])
def test_hours_of_many_classes_are_read_in_few_exchanges_of_bounded_size(
    reader: MetricReader, connections: Counting, redis: redis_py.Redis, span: str
) -> None:
    keys, mail = Keys(), {f"Class{number}|{what}": 1 for number in range(50) for what in ("p", "f", "ms")}
    with redis.pipeline(transaction=False) as pipeline:
        for minute in range(480):
            at = datetime.fromtimestamp(AT + minute * 60, timezone.utc)
            for key in {keys.minute_of_seven(at), keys.minute_of_eight(at), keys.ten_minutes_of_eight(at)}:
                pipeline.hset(key, mapping=mail)
        pipeline.execute()
    spans = getattr(reader, span)(AT, AT + 479 * 60)
    assert {len(one.classes) for one in spans} == {50}
    assert len(connections.exchanges) <= 20
    assert max(map(len, connections.exchanges)) <= 1_000
    connections.exchanges.clear()
    assert len(getattr(reader, span)(AT, AT + 479 * 60, "Class7")) == len(spans)
    reader.histogram("Class7", AT, AT + 479 * 60)
    assert len(connections.exchanges) == 2
    assert max(map(len, connections.exchanges)) <= 1_000


def test_a_minute_of_very_many_classes_is_read_in_parts(
    reader: MetricReader, connections: Counting, redis: redis_py.Redis
) -> None:
    redis.hset("j|250204|8:03", mapping={f"Class{number}|p": number + 1 for number in range(3_000)})
    ran(redis, "j|250204|8:04", "Mail", 1)
    many, one = reader.minutes(AT, AT + 60)
    assert many.classes == {f"Class{number}": RunCounts(number + 1) for number in range(3_000)}
    assert one.classes == {"Mail": RunCounts(1)}
    sent = [command[:2] for commands in connections.exchanges for command in commands]
    assert sent.count(("HSCAN", "j|250204|8:03")) >= 3
    assert ("HGETALL", "j|250204|8:03") not in sent


# --- marks


def test_marks_of_deploys_are_read_in_their_span(
    connections: Connections, reader: MetricReader, redis: redis_py.Redis
) -> None:
    redis.hset("20250203-marks", mapping={"2025-02-03T23:59:00Z": "of Sidekiq", "2025-02-03T00:00:00Z": "before"})
    redis.hset("20250204-marks", mapping={"soon": "no time", "2025-02-04T09:00:00Z": "after"})
    assert RedisNeighbours(connections, Keys()).mark_deploy("größer", AT + 30) is None
    assert reader.marks(utc(2025, 2, 3, 23, 59) + 59, AT + 60) == [
        DeployMark(utc(2025, 2, 3, 23, 59), "of Sidekiq"), DeployMark(AT, "größer"),
    ]  # fmt: skip


def test_marks_of_ninety_days_are_read(reader: MetricReader, redis: redis_py.Redis) -> None:
    redis.hset("20250204-marks", "2025-02-04T08:03:00Z", "v2")
    assert reader.marks(AT, AT + 90 * 86_400) == [DeployMark(AT, "v2")]


# --- the broker


def test_a_broker_on_redis_reads_what_it_has_recorded(redis_url: str) -> None:
    with own_broker(redis_url) as broker:
        broker.control.record({"q": {"Mail": Executions(5, 1, 1234, NOTHING)}}, AT)
        assert broker.metrics.minutes(AT, AT) == [CountedSpan(AT, {"Mail": RunCounts(5, 1, 1234)})]
