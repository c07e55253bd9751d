"""The fetcher of a queue on shards, while its buffer is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from apps import fresh_lease, shared
from harness import Process, job
from harness_shards import ShardServers
from waiting import eventually

from goworkers_py.brokers.shards.placement import Placement
from goworkers_py.config.options import Config, PoolConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.pool_fetcher import PoolFetcher

PLACEMENT = Placement(["a", "b", "c"])
GiveBack = Callable[[Sequence[Delivery]], None]

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


@pytest.fixture
def me(servers: ShardServers) -> Iterator[Process]:
    process = Process(Config(broker=servers.address)).begin()
    yield process
    process.broker.close()


@pytest.fixture
def asked(me: Process, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each call of `consume`, by its asks."""
    asked: list[object] = []
    consume: Callable[..., list[Delivery]] = me.broker.transport.consume

    def noted(identity: str, asks: object, *more: Any) -> list[Delivery]:
        asked.append(asks)
        return consume(identity, asks, *more)

    monkeypatch.setattr(me.broker.transport, "consume", noted)
    return asked


def fetcher_of(me: Process, give_back: GiveBack = lambda deliveries: None) -> PoolFetcher:
    pool, lease = Pool(PoolConfig("q", ("q",), concurrency=2, prefetch=0)), fresh_lease()
    lease.identity = me.identity
    fetcher = PoolFetcher(me.broker.transport, pool, shared(lease), give_back)
    fetcher.room_wait_s = 0.05
    return fetcher


def publish(me: Process, home: int, count: int) -> None:
    jids = [jid for jid in (f"{number:08x}" for number in range(1_000)) if PLACEMENT.home(jid) == home]
    me.publish(*map(job, jids[:count]))


def test_a_full_buffer_is_no_reason_to_ask_a_shard(me: Process, asked: list[object]) -> None:
    for home in range(3):
        publish(me, home, 5)
    fetcher = fetcher_of(me)
    fetcher.run_once()
    assert len(asked) == 1
    for _ in range(3):
        fetcher.run_once()
    assert len(asked) == 1, "its workers are busy, and nobody waits at a server"


def test_a_job_that_a_wait_takes_while_the_buffer_is_full_goes_back(me: Process) -> None:
    given_back: list[Delivery] = []
    fetcher = fetcher_of(me, given_back.extend)
    for _ in range(2):
        publish(me, 0, 1)
        fetcher.run_once()  # the first one finds nothing on the other shards, and waits there
    assert not given_back
    publish(me, 1, 1)
    assert eventually(lambda: fetcher.run_once() == 0.0 and len(given_back) == 1)
    assert given_back[0].receipt == 1
