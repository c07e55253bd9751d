"""The runs of each class, summed up over shards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone

import pytest
from harness_shards import ShardServers

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.metrics import CountedSpan, DeployMark, RunCounts
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.observe.executions import Executions

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]

AT = datetime(2025, 2, 4, 8, 0, tzinfo=timezone.utc).timestamp()
OURS = Executions(5, 1, 100, (4, *(0,) * 25))


@pytest.fixture
def broker(servers: ShardServers) -> Iterator[Broker]:
    with closing(open_broker(Config(broker=servers.address))) as broker:
        yield broker


def ruby_ran_on_each_shard(servers: ShardServers) -> None:
    for number, server in enumerate(servers.servers):
        with closing(server.client()) as redis:
            redis.hset("j|250204|8:00", mapping={"Mail|p": 10, "Mail|ms": 1_000, f"Of{number}|p": 1})
            redis.hset("j|250204|8:0", mapping={"Mail|p": 20, "Mail|ms": 2_000})
            redis.execute_command("BITFIELD", "h|Mail-4-8:0", "SET", "u16", "#3", 10)


def test_runs_on_all_shards_are_added_up(servers: ShardServers, broker: Broker) -> None:
    ruby_ran_on_each_shard(servers)
    broker.control.record({"q": {"Ours": OURS}}, AT)
    once = {f"Of{number}": RunCounts(1) for number in range(3)}
    assert broker.metrics.minutes(AT, AT + 60) == [
        CountedSpan(AT, {"Mail": RunCounts(30, 0, 3_000), "Ours": RunCounts(5, 1, 100), **once}),
        CountedSpan(AT + 60, {}),
    ]
    assert broker.metrics.minutes(AT, AT, "Mail") == [CountedSpan(AT, {"Mail": RunCounts(30, 0, 3_000)})]
    assert broker.metrics.ten_minutes(AT, AT, "Mail") == [CountedSpan(AT, {"Mail": RunCounts(60, 0, 6_000)})]
    assert broker.metrics.histogram("Mail", AT, AT) == [0, 0, 0, 30, *(0,) * 22]
    assert broker.metrics.histogram("Ours", AT, AT) == [4, *(0,) * 25]


def test_a_deploy_that_is_marked_on_all_shards_is_one_mark(servers: ShardServers, broker: Broker) -> None:
    for number, server in enumerate(servers.servers):
        with closing(server.client()) as redis:
            redis.hset(
                "20250204-marks", mapping={"2025-02-04T08:00:00Z": "v2", f"2025-02-04T08:0{number + 1}:00Z": "x"}
            )
    assert broker.metrics.marks(AT, AT + 120) == [
        DeployMark(AT, "v2"), DeployMark(AT + 60, "x"), DeployMark(AT + 120, "x"),
    ]  # fmt: skip


def test_the_shards_that_serve_tell_their_runs(servers: ShardServers, broker: Broker) -> None:
    ruby_ran_on_each_shard(servers)
    servers.servers[1].stop()
    assert broker.metrics.minutes(AT, AT, "Mail") == [CountedSpan(AT, {"Mail": RunCounts(20, 0, 2_000)})]
