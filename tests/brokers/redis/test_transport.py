"""Publishing and consuming jobs on Redis."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
import redis as redis_py
from servers import RedisServer
from verbs import KEYS, OTHER, OWNER, Make, beat, consume, consume_all, held, job, promote_all, promoted, publish
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver import connection
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, LeaseGone


def test_a_fetch_takes_no_more_than_its_limit(broker: RedisBroker) -> None:
    publish(broker, *map(job, range(5)))
    assert [len(consume(broker, OWNER, "q", 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_fetch_with_a_very_large_limit_takes_a_part_and_the_next_fetch_the_rest(broker: RedisBroker) -> None:
    """Lua can pass only some thousand arguments to one command."""
    jobs = [job(n) for n in range(12_000)]
    publish(broker, *jobs)
    taken: list[bytes] = []
    while len(taken) < len(jobs):
        part = consume(broker, OWNER, "q", 10_000)
        assert len(part) > 1, "one by one, though there are many"
        taken += part
    assert taken == jobs
    assert held(broker) == jobs


@pytest.mark.parametrize("sizes", [(2_000, 2_000, 2_000), (2_000, 1, 1), (1, 2_000, 1), (1, 1, 1)])
def test_large_and_small_jobs_are_fetched_together_and_in_order(broker: RedisBroker, sizes: tuple[int, ...]) -> None:
    jobs = [job(n, filler="x" * size) for n, size in enumerate((*sizes, 1))]
    publish(broker, *jobs)
    assert consume(broker, OWNER, "q", 3) == jobs[:3]
    assert held(broker) == jobs[:3]
    assert consume(broker, OWNER, "q", 3) == jobs[3:]


@pytest.mark.parametrize("small_ones", [0, 1, 30])
def test_a_fetch_takes_few_large_jobs_at_a_time(broker: RedisBroker, small_ones: int) -> None:
    small = [job(n) for n in range(small_ones)]
    large = [job(n, text="x" * 100_000) for n in range(40)]
    publish(broker, *small, *large)
    first = consume(broker, OWNER, "q", 1_000)
    assert small_ones < len(first) <= small_ones + 12
    assert first + consume_all(broker) == small + large


def test_a_fetch_that_cannot_write_into_the_list_of_its_owner_takes_nothing(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    publish(broker, job(1), job(2))
    redis.set(KEYS.inprogress("q", OWNER), "broken")
    with pytest.raises(BrokerRefused, match="is a string"):
        consume(broker, OWNER, "q", 2)
    assert redis.lrange(KEYS.queue("q"), 0, -1) == [job(2), job(1)]


def test_fetched_jobs_are_in_the_in_progress_list_of_their_owner_only(broker: RedisBroker) -> None:
    publish(broker, *map(job, range(3)))
    publish(broker, job("m"), queue="mail")
    fetched = consume(broker, OWNER, "q", 2)
    assert held(broker) == fetched
    assert held(broker, OTHER) == held(broker, OWNER, "mail") == []


def test_two_processes_do_not_get_the_same_job(make: Make) -> None:
    brokers = [make() for _ in range(4)]
    jobs = [job(n) for n in range(500)]
    publish(brokers[0], *jobs)
    with ThreadPoolExecutor(4) as pool:
        taken = pool.map(consume_all, brokers, [f"owner{n}" for n in range(4)])
    assert sorted(payload for one in taken for payload in one) == sorted(jobs)


def test_a_fetch_that_waits_brings_the_job_that_comes(make: Make) -> None:
    broker = make(block_s=30)
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(consume, broker, OWNER, "q", 5)
        time.sleep(0.1)
        publish(make(), job(1))
        assert fetching.result(15) == [job(1)]
    assert held(broker) == [job(1)]


def test_a_wake_ends_a_fetch_that_waits_and_no_other(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def wake_until_done() -> bool:
        broker.transport.wake("q")
        return mine.done()

    monkeypatch.setattr(connection, "HASTE_S", 20.0)  # a wake must not fail on a busy machine
    broker = make(block_s=30)
    with ThreadPoolExecutor(2) as pool:
        mine, others = pool.submit(consume, broker, OWNER, "q", 5), pool.submit(consume, broker, OWNER, "mail", 5)
        assert eventually(wake_until_done)
        assert mine.result() == []
        assert not others.done()
        publish(broker, job(1), queue="mail")
        assert others.result(15) == [job(1)]


def test_a_wake_of_a_queue_that_was_never_fetched_does_nothing(broker: RedisBroker) -> None:
    broker.transport.wake("q")


def test_a_busy_queue_is_fetched_many_at_a_time_and_an_idle_one_by_waiting(
    own_broker: RedisBroker, own_redis: RedisServer
) -> None:
    def calls() -> dict[str, int]:
        stats = own_redis.client().info("commandstats")
        return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "brpoplpush")}

    publish(own_broker, *map(job, range(250)))
    assert [len(consume(own_broker, OWNER, "q", 100)) for _ in range(4)] == [100, 100, 50, 0]
    assert calls() == {"evalsha": 3, "brpoplpush": 1}
    assert [consume(own_broker, OWNER, "q", 100) for _ in range(2)] == [[], []]
    assert calls() == {"evalsha": 3, "brpoplpush": 3}
    publish(own_broker, job("a"), job("b"), job("c"))
    assert [len(consume(own_broker, OWNER, "q", 100)) for _ in range(2)] == [1, 2]
    assert calls() == {"evalsha": 4, "brpoplpush": 4}


def test_a_push_names_its_queues_and_is_one_step(broker: RedisBroker, redis: redis_py.Redis) -> None:
    with redis.monitor() as monitor:
        broker.transport.publish([Push("a", b"1"), Push("b", b"2"), Push("a", b"3"), Push("c", b"4", at=7.5)])
        seen = list(iter(lambda: monitor.next_command()["command"], "EXEC"))
    assert seen[seen.index("MULTI") :] == [
        "MULTI", "SADD queues a b", "LPUSH queue:a 1 3", "LPUSH queue:b 2", "ZADD schedule 7.5 4",
    ]  # fmt: skip


def test_a_job_for_later_is_in_no_queue_until_it_is_promoted(broker: RedisBroker) -> None:
    broker.transport.publish([Push("q", job("later"), at=1.0), Push("q", job("now"))])
    assert consume_all(broker) == [job("now")]
    promote_all(broker)
    assert consume_all(broker) == [promoted(job("later"))]


def test_a_process_whose_lease_is_gone_fetches_nothing_until_its_next_beat(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with closing(RedisBroker(redis_url, Config())) as broker:
        publish(broker, job(1))
        with pytest.raises(LeaseGone):
            consume(broker, OWNER, "q", 1)
        assert redis.llen(KEYS.queue("q")) == 1
        beat(broker, OWNER)
        assert consume(broker, OWNER, "q", 1) == [job(1)]
        redis.delete(KEYS.lease(OWNER))
        with pytest.raises(LeaseGone):
            consume(broker, OWNER, "q", 1)


def test_a_waiting_fetch_gets_no_job_from_a_server_that_lost_the_lease(own_redis: RedisServer) -> None:
    """The server came back with a state from before the process began: no recovery would look at its list."""
    client = own_redis.client()
    with closing(RedisBroker(own_redis.url, Config())) as broker:
        broker.transport.block_s = 1
        beat(broker, OWNER)
        assert consume(broker, OWNER, "q", 1) == []  # from here on it waits
        client.flushall()
        client.client_kill_filter(_type="normal", skipme=True)
        publish(broker, job(1))
        for _ in range(3):
            with suppress(BrokerUnavailable):
                assert consume(broker, OWNER, "q", 1) == []
        assert client.llen(KEYS.queue("q")) == 1
        beat(broker, OWNER)
        assert eventually(lambda: consume(broker, OWNER, "q", 1) == [job(1)])
