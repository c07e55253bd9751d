"""Settling large jobs by their places, while others change the in-progress list."""

from __future__ import annotations

import itertools
import threading

import pytest
import redis as redis_py
from verbs import KEYS, OWNER, job, publish

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues.places import LARGE
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import DONE

LIST = KEYS.inprogress("q", OWNER)


def large(number: int) -> bytes:
    return job(number, text="x" * (LARGE + 1_000))


@pytest.mark.parametrize("command", ["lpos", "lset"])
def test_without_the_access_rules_for_it_large_jobs_are_settled_all_the_same(
    redis_url: str, redis: redis_py.Redis, broker: RedisBroker, command: str
) -> None:
    redis.execute_command("ACL", "SETUSER", "default", f"-{command}")
    try:
        publish(broker, *map(large, range(5)))
        held = broker.transport.consume(OWNER, [("q", 5)], 5)
        batch = SettlementBatch("settler", 1, [(held[1], DONE), (held[3], DONE)], held)
        assert broker.transport.settle(batch) == [True, True]
        assert redis.lrange(LIST, 0, -1) == [large(4), large(2), large(0)]
    finally:
        redis.execute_command("ACL", "SETUSER", "default", "+@all")


def test_large_jobs_are_settled_once_while_others_are_fetched(broker: RedisBroker, redis: redis_py.Redis) -> None:
    jobs, numbers, fetched = list(map(large, range(600))), itertools.count(1), threading.Event()
    held: list[Delivery] = []
    publish(broker, *jobs)

    def fetch() -> None:
        while taken := broker.transport.consume(OWNER, [("q", 2)], 2, wait_s=0):
            held.extend(taken)
        fetched.set()

    thread = threading.Thread(target=fetch)
    thread.start()
    left = 600
    while left:
        batch = [(one, DONE) for one in held[:5:2]]
        if batch:
            assert set(broker.transport.settle(SettlementBatch("settler", next(numbers), batch, held[:]))) == {True}
            for one, _ in batch:
                held.remove(one)
            left -= len(batch)
    thread.join()
    assert fetched.is_set()
    assert redis.exists(LIST) == 0
    assert int(redis.get(KEYS.processed) or 0) == 600
