"""Consuming from the queues of a pool on Redis: one script call for all of them, and a wait for each."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from servers import RedisServer
from verbs import KEYS, OTHER, OWNER, beat, held, job, publish
from waiting import eventually

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.waiting_line import WaitingLine
from goworkers_py.brokers.redis.queues.pool_consumer import PoolConsumer
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerFull, BrokerRefused, BrokerUnavailable, LeaseGone

POOL = ("a", "b", "c")


class Consuming:
    """A process that consumes from the three queues."""

    def __init__(self, server: RedisServer, identity: str = OWNER, block_s: float = 30.0) -> None:
        self.broker, self.identity = RedisBroker(server.url, Config()), identity
        self.broker._transport.block_s = block_s
        self.broker.connections.reply_margin_s = 20.0  # a server that stands still for seconds is not gone
        beat(self.broker, identity)

    def __call__(self, limit: int = 5, wait_s: float = math.inf, most: int = 5, but: str = "") -> list[bytes]:
        return [one.payload for one in self.deliveries(limit, wait_s, most, but)]

    def deliveries(self, limit: int, wait_s: float, most: int, but: str = "") -> list[Delivery]:
        asks = [(queue, 0 if queue in but else most) for queue in POOL]
        return self.broker.transport.consume(self.identity, asks, limit, wait_s)

    def end_waits(self) -> list[bytes]:
        return [one.payload for one in self.broker.transport.end_waits(POOL)]

    @property
    def consumer(self) -> PoolConsumer:
        [consumer] = self.broker._transport._consumers.values()
        assert isinstance(consumer, PoolConsumer)
        return consumer


@pytest.fixture
def consume(own_redis: RedisServer) -> Iterator[Consuming]:
    consuming = Consuming(own_redis)
    with closing(consuming.broker):
        yield consuming


def blocked(server: RedisServer) -> int:
    return int(server.client().info("clients")["blocked_clients"])


def calls(server: RedisServer, command: str) -> int:
    return int(server.client().info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def wait_in_all(consume: Consuming, server: RedisServer) -> None:
    assert consume(wait_s=0.01) == []
    assert blocked(server) == 3


def test_all_queues_are_asked_in_one_call_of_the_script(consume: Consuming, own_redis: RedisServer) -> None:
    for queue in POOL:
        publish(consume.broker, job(queue), queue=queue)
    before = calls(own_redis, "evalsha") + calls(own_redis, "eval")
    assert consume(limit=3) == [job(queue) for queue in POOL]
    assert calls(own_redis, "evalsha") - before <= 1
    assert [held(consume.broker, OWNER, queue) for queue in POOL] == [[job(queue)] for queue in POOL]


def test_when_one_queue_brings_a_job_the_waits_for_the_others_go_on(consume: Consuming, own_redis: RedisServer) -> None:
    wait_in_all(consume, own_redis)
    for number in range(3):
        publish(consume.broker, job(number), queue="b")
        assert consume() == [job(number)]
        assert blocked(own_redis) == 2
        assert consume(wait_s=0.01) == []
        assert blocked(own_redis) == 3
    assert consume.end_waits() == []  # newer servers count a wait when it ends
    assert calls(own_redis, "brpoplpush") == 3 + 3, "waits that went on were begun again"


def test_a_queue_with_a_wait_is_not_asked_again(consume: Consuming, own_redis: RedisServer) -> None:
    wait_in_all(consume, own_redis)
    publish(consume.broker, job(1), job(2), queue="b")
    with own_redis.client().monitor() as monitor:
        assert consume() + consume() == [job(1), job(2)]
        own_redis.client().ping()
        seen = list(iter(lambda: monitor.next_command()["command"], "PING"))
    [asked] = [command for command in seen if command.startswith("EVALSHA")]
    assert KEYS.queue("b") in asked
    assert KEYS.queue("a") not in asked


def test_jobs_that_several_waits_catch_at_once_come_together_beyond_the_limit(
    consume: Consuming, own_redis: RedisServer
) -> None:
    wait_in_all(consume, own_redis)
    own_redis.client().pipeline().lpush(KEYS.queue("c"), job("c")).lpush(KEYS.queue("a"), job("a")).execute()
    assert blocked(own_redis) == 1, "by now the server has sent both jobs"
    assert consume(limit=1) == [job("a"), job("c")]
    assert blocked(own_redis) == 1


def test_a_wait_takes_its_job_under_the_identity_that_it_began_with(consume: Consuming, own_redis: RedisServer) -> None:
    wait_in_all(consume, own_redis)
    beat(consume.broker, OTHER)
    publish(consume.broker, job(1), queue="b")
    asks = [(queue, 5) for queue in POOL]
    [delivery] = consume.broker.transport.consume(OTHER, asks, 5)
    assert delivery.identity == OWNER
    assert held(consume.broker, OWNER, "b") == [job(1)]


def test_a_wait_that_ends_by_itself_is_begun_again_without_the_script(own_redis: RedisServer) -> None:
    consume = Consuming(own_redis, block_s=0.1)
    with closing(consume.broker):
        assert consume() == []
        asked = calls(own_redis, "evalsha")
        for _ in range(4):
            assert consume() == []
        assert calls(own_redis, "evalsha") == asked
        publish(consume.broker, job(1), queue="c")
        assert eventually(lambda: consume() == [job(1)])


def test_the_end_of_the_waits_leaves_nothing_that_could_take_a_job(consume: Consuming, own_redis: RedisServer) -> None:
    wait_in_all(consume, own_redis)
    publish(consume.broker, job(1), queue="a")
    assert consume.end_waits() == [job(1)]
    assert blocked(own_redis) == 0
    publish(consume.broker, job(2), queue="b")
    assert own_redis.client().llen(KEYS.queue("b")) == 1
    assert consume.broker._transport.end_lines(), "nothing that was sent can still arrive"


def test_waits_end_by_themselves_where_the_access_rules_do_not_allow_to_end_them(own_redis: RedisServer) -> None:
    own_redis.client().execute_command("ACL", "SETUSER", "default", "-client|unblock")
    consume = Consuming(own_redis)
    with closing(consume.broker):
        assert consume(wait_s=0.01, but="ac") == []
        publish(consume.broker, job(1), queue="b")  # the wait for it catches the job, however late this is
        consume.consumer._block_s = 0.2
        assert consume.consumer.begin_waits(OWNER, POOL)
        assert consume.end_waits() == [job(1)]
        assert blocked(own_redis) == 0


def test_no_wait_takes_a_job_on_a_server_that_lost_the_lease(own_redis: RedisServer) -> None:
    """The server came back with a state from before the process began: no recovery would look at its lists."""
    consume, client = Consuming(own_redis), own_redis.client()
    with closing(consume.broker):
        wait_in_all(consume, own_redis)
        client.flushall()
        client.client_kill_filter(_type="normal", skipme=True)
        for queue in POOL:
            publish(consume.broker, job(queue), queue=queue)
        for _ in range(5):
            with suppress(BrokerUnavailable, LeaseGone):
                assert consume(wait_s=0.01) == []
        assert [client.llen(KEYS.queue(queue)) for queue in POOL] == [1, 1, 1]
        beat(consume.broker, OWNER)
        taken: list[bytes] = []
        assert eventually(lambda: taken.extend(consume(wait_s=0.01)) or len(taken) == 3)


def test_a_new_connection_waits_only_after_it_has_seen_the_lease(consume: Consuming, own_redis: RedisServer) -> None:
    wait_in_all(consume, own_redis)
    consume.end_waits()
    client = own_redis.client()
    for line in consume.consumer._waits.values():
        client.client_kill_filter(_id=line.client_id)
    client.delete(KEYS.lease(OWNER))
    with pytest.raises(LeaseGone):
        consume(wait_s=0.01)
    assert blocked(own_redis) == 0


def test_when_one_wait_fails_the_jobs_of_the_others_are_found_as_lost_replies(
    consume: Consuming, own_redis: RedisServer
) -> None:
    wait_in_all(consume, own_redis)
    client = own_redis.client()
    client.client_kill_filter(_id=consume.consumer._waits["a"].client_id)
    publish(consume.broker, job(2), queue="b")
    assert eventually(lambda: client.llen(KEYS.inprogress("b", OWNER)) == 1)
    with pytest.raises(BrokerUnavailable):
        consume()
    consume.end_waits()
    assert held(consume.broker, OWNER, "b") == [job(2)]
    assert [consume(wait_s=0.01) for _ in range(2)] == [[], []]
    assert blocked(own_redis) == 3


def test_after_the_death_of_the_server_no_wait_is_left(consume: Consuming, own_redis: RedisServer) -> None:
    wait_in_all(consume, own_redis)
    own_redis.kill()
    for _ in range(3):
        with suppress(BrokerUnavailable):
            consume.end_waits()
    assert not any(line.waits for line in consume.consumer._waits.values())
    own_redis.start()
    beat(consume.broker, OWNER)
    publish(consume.broker, job(1), queue="b")
    assert consume() == [job(1)]


def test_a_wait_whose_reply_does_not_come_is_given_up(
    consume: Consuming, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_in_all(consume, own_redis)
    monkeypatch.setattr(consume.consumer, "_longest_s", 0.0)
    with pytest.raises(BrokerUnavailable, match="does not answer"):
        consume(wait_s=0.01)


def test_a_full_server_is_emptied_all_the_same(consume: Consuming, own_redis: RedisServer) -> None:
    client = own_redis.client()
    assert consume(wait_s=0.01) == []
    consume.end_waits()
    client.config_set("maxmemory", "1")
    with pytest.raises(BrokerFull):
        consume(wait_s=20)
    client.config_set("maxmemory", "0")
    publish(consume.broker, job(1), queue="b")
    client.config_set("maxmemory", "1")
    taken: list[bytes] = []
    for _ in range(3):
        with suppress(BrokerFull):
            taken += consume(wait_s=0)
    assert taken == [job(1)]


def test_a_queue_of_a_wrong_type_keeps_no_job_of_the_others_back(consume: Consuming, own_redis: RedisServer) -> None:
    own_redis.client().set(KEYS.queue("b"), "broken")
    publish(consume.broker, job(1), job(2), queue="a")
    assert consume(limit=5) == [job(1), job(2)]
    assert held(consume.broker, OWNER, "a") == [job(1), job(2)]
    with pytest.raises(BrokerRefused, match=r"queue:b is a string"):
        consume(limit=5)


def test_large_jobs_of_one_queue_leave_the_others_for_the_next_fetch(consume: Consuming) -> None:
    large = [job(number, filler="x" * 100_000) for number in range(15)]
    publish(consume.broker, *large, queue="a")
    publish(consume.broker, job("b"), queue="b")
    first = consume(limit=100, most=100)
    assert 0 < len(first) < 15
    taken = first
    while len(taken) < 16:
        taken = taken + consume(limit=100, most=100, wait_s=0)
    assert taken == [*large, job("b")]


def test_a_wake_ends_the_consume_and_not_the_waits(consume: Consuming, own_redis: RedisServer) -> None:
    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume)
        assert eventually(lambda: blocked(own_redis) == 3)
        consume.broker.transport.wake("c")
        assert consuming.result() == []
    assert blocked(own_redis) == 3
    consume.broker.transport.wake("c")
    assert consume(wait_s=2) == []  # the wake came before
    publish(consume.broker, job(1), queue="c")
    assert consume() == [job(1)]


def test_a_line_is_free_before_it_waits(consume: Consuming, own_redis: RedisServer) -> None:
    line = consume.broker._transport._connections.waiting_line(2)
    with closing(line):
        trusted: list[WaitingLine] = []

        def trust(one: WaitingLine) -> None:
            trusted.append(one)
            one.trusted = True

        for _ in range(2):
            line.connect(trust)
        assert trusted == [line], "asked again, though the connection is the same"
        line.begin("BRPOPLPUSH", "list", "other", 5)
        assert (line.waits, line.end()) == (True, False)
        line.connect(trust)
        line.begin("BRPOPLPUSH", "list", "other", 0.01)
        assert line.answer() is None
        assert not line.waits
        assert line.call("PING") == b"PONG"


def test_a_job_that_a_wait_brought_is_not_lost_when_the_lease_is_gone(
    consume: Consuming, own_redis: RedisServer
) -> None:
    """LeaseGone is no lost reply, so nobody would look for the job."""
    wait_in_all(consume, own_redis)
    publish(consume.broker, job(1), queue="b")
    own_redis.client().delete(KEYS.lease(OWNER))
    assert consume() == [job(1)]
    with pytest.raises(LeaseGone):
        consume()


def test_a_consume_after_the_end_says_so(own_redis: RedisServer) -> None:
    consume = Consuming(own_redis)
    wait_in_all(consume, own_redis)
    consume.broker.close()
    with pytest.raises(BrokerUnavailable):
        consume(most=0)


def test_a_wake_ends_one_consume_only(own_redis: RedisServer) -> None:
    consume = Consuming(own_redis, block_s=30)
    with closing(consume.broker), ThreadPoolExecutor(1) as pool:
        assert consume(wait_s=0.01) == []
        consume.broker.transport.wake("a")
        assert consume() == []
        consuming = pool.submit(consume)
        time.sleep(0.05)
        assert not consuming.done()
        publish(consume.broker, job(1), queue="c")
        assert consuming.result() == [job(1)]
