"""Connections of a process that forks."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as redis_py
from forks import ended_well, in_child
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver.connection import Connections


def ids(redis: redis_py.Redis) -> set[str]:
    """The numbers of our connections at the server."""
    return {client["id"] for client in redis.client_list() if client["name"] == "pyworkers"}


def echo_alone(connections: Connections, who: str) -> None:
    for number in range(200):
        word = f"{who}:{number}".encode()
        assert connections.exchange([("ECHO", word), ("ECHO", word * 2)]) == [word, word * 2]


def test_after_a_fork_parent_and_children_have_connections_of_their_own(
    connections: Connections, redis: redis_py.Redis
) -> None:
    with ThreadPoolExecutor(4) as pool:  # leaves several connections in the list
        list(pool.map(lambda n: connections.call("BLPOP", f"nothing:{n}", 0.2), range(4)))
    before = ids(redis)
    children = [in_child(lambda n=n: echo_alone(connections, f"child {n}")) for n in range(2)]
    echo_alone(connections, "parent")
    assert [ended_well(child) for child in children] == [True, True]
    assert eventually(lambda: ids(redis) == before)


def test_a_child_that_closes_and_ends_leaves_the_parents_connections_alone(
    connections: Connections, redis: redis_py.Redis
) -> None:
    connections.call("PING")
    before = ids(redis)
    assert ended_well(in_child(connections.close))
    connections.call("PING")
    assert ids(redis) == before


@pytest.mark.parametrize("use", [Connections.close, lambda connections: connections.call("PING")])
def test_a_child_does_not_wait_for_a_lock_that_another_thread_held_when_it_was_forked(
    connections: Connections, use: Callable[[Connections], object]
) -> None:
    connections.call("PING")
    with connections._lock:
        child = in_child(lambda: use(connections))
    assert ended_well(child)


def test_a_fork_in_the_middle_of_an_exchange_leaves_the_reply_to_the_parent(own_redis: RedisServer) -> None:
    def block() -> None:
        came.append(connections.call("BLPOP", "list", 40))

    redis, came = own_redis.client(), list[Any]()
    connections = Connections(f"{own_redis.url}?socket_timeout=50")  # longer than a child may take
    thread = threading.Thread(target=block)
    thread.start()
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, from Python 3.12 on
        child = in_child(lambda: echo_alone(connections, "child"))
    assert ended_well(child)
    redis.lpush("list", "job")
    thread.join()
    connections.close()
    assert came == [[b"list", b"job"]]
