"""The fence of a leader on a real server: every way to write passes it, and reads do not pay for it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
from apps import job

from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.fencing import FencedConnections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import Fenced, WrongType
from goworkers_py.core.fence import Fence
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Standing

LEASE = Keys().fence("billing")
NOBODY = Standing(None, 0, "")


@pytest.fixture
def fence(redis_url: str) -> Fence:
    fence = Fence("billing", secrets.token_hex(8))
    with closing(RedisBroker(redis_url, Config())) as broker:
        fence.epoch = broker.require_part(Leadership).win("billing", Bid("me", fence.token, False, NOBODY), 600)
    fence.hold(awake_and_asleep() + 600)
    return fence


@pytest.fixture
def connections(redis_url: str, fence: Fence) -> Iterator[FencedConnections]:
    with closing(FencedConnections(redis_url, fence, LEASE)) as connections:
        yield connections


COMMANDS = [("LPUSH", "list", "a"), ("LRANGE", "list", 0, -1), ("HSET", "hash", "f", b"\xff"), ("HGET", "hash", "no")]


def test_commands_are_answered_as_without_a_fence(connections: FencedConnections, redis: redis_py.Redis) -> None:
    assert connections.exchange(COMMANDS) == [1, [b"a"], 1, None]
    assert connections.transaction(COMMANDS) == [2, [b"a", b"a"], 0, None]
    assert connections.call("SET", "text", "x", "NX") == b"OK"
    assert connections.call("SET", "text", "x", "NX") is None
    assert redis.hget("hash", "f") == b"\xff"


def test_an_error_of_one_command_is_told_as_without_a_fence(connections: FencedConnections) -> None:
    connections.call("SET", "text", "x")
    with pytest.raises(WrongType, match="text is a string"):
        connections.call("LPUSH", "text", "x")
    assert connections.answers([("LPUSH", "list", "a"), ("LPUSH", "text", "a")]) == [1, None]
    with pytest.raises(WrongType):
        connections.transaction([("LPUSH", "text", "a"), ("LPUSH", "list", "b")])
    assert connections.call("LLEN", "list") == 1


def test_reads_are_sent_as_they_are_and_pass_when_the_term_is_over(
    connections: FencedConnections, fence: Fence, redis: redis_py.Redis
) -> None:
    redis.delete(LEASE)
    fence.fall("over")
    assert connections.call("LLEN", "list") == 0
    assert connections.exchange([("EXISTS", "list"), ("HGETALL", "hash")]) == [0, []]


@pytest.mark.parametrize("over", ["expired", "of another term"])
def test_no_command_is_done_when_the_term_is_over(
    connections: FencedConnections, fence: Fence, redis: redis_py.Redis, over: str
) -> None:
    if over == "expired":
        redis.delete(LEASE)
    else:
        redis.hset(LEASE, "token", "another")
    for write in (
        lambda: connections.exchange(COMMANDS),
        lambda: connections.transaction(COMMANDS),
        lambda: connections.only_last([("SADD", "set", "a"), ("LPUSH", "list", "a")]),
        lambda: connections.answers(COMMANDS),
        lambda: connections.call("DEL", "list"),
        lambda: connections.call("UNKNOWN", "list"),
    ):
        fence._fallen = ""
        with pytest.raises(Fenced):
            write()
        assert fence.fallen
    assert redis.exists("list", "hash", "set") == 0


def test_a_write_is_not_sent_at_all_when_the_clock_of_this_machine_has_passed_the_lease(
    connections: FencedConnections, fence: Fence, redis: redis_py.Redis
) -> None:
    connections.call("LPUSH", "list", "a")
    fence.hold(awake_and_asleep())
    sent = redis.info("stats")["total_commands_processed"]
    with pytest.raises(Fenced, match="was not renewed in time"):
        connections.call("LPUSH", "list", "a")
    assert redis.info("stats")["total_commands_processed"] == sent + 1  # this INFO


def test_a_leader_never_waits_on_the_server(redis_url: str, fence: Fence, redis: redis_py.Redis) -> None:
    with closing(RedisBroker(redis_url, Config(), fence)) as broker:
        broker.transport.publish([Push("q", job())])
        broker.recoverable.beat(Presence("me", {"q": 1}))
        redis.config_resetstat()
        assert len(broker.transport.consume("me", [("q", 5)], 5)) == 1
        assert broker.transport.consume("me", [("q", 5)], 5, wait_s=0.2) == []
        assert "cmdstat_brpoplpush" not in redis.info("commandstats")
