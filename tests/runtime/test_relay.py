"""Pushes of atomic jobs to another server: posted in the outbox, relayed, and removed from it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping

import pytest
import redis as redis_py
from apps import own_app, own_broker, queue, working
from servers import RedisServer
from verbs import OWNER, batch_of, job, publish
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import Deadline
from goworkers_py.core.effect import PostJobs, Push
from goworkers_py.core.held_pushes import Destination
from goworkers_py.core.outcome import Done
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.relay import AT_ONCE, Relay

FAR = "far"


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


@pytest.fixture
def far(own_redis: RedisServer) -> Iterator[App]:
    with own_app(own_redis.url) as app:
        yield app


def post(broker: RedisBroker, *payloads: bytes, queue: str = "children") -> None:
    publish(broker, job("parent"))
    [parent] = broker.transport.consume(OWNER, [("q", 1)], 1)
    pushes = tuple(Push(queue, payload, id=payload.hex()) for payload in payloads)
    assert broker.transport.settle(batch_of((parent, Done(effects=(PostJobs("parent", FAR, pushes),))))) == [True]


def relay_of(broker: RedisBroker, known: Mapping[str, Destination]) -> Relay:
    return Relay(broker.store, lambda: known, "here", Outage("Redis"))


def waiting(server: RedisServer, name: str = "children") -> list[bytes]:
    return queue(server.client(), name)


def test_pushes_go_to_the_other_server_in_order_and_leave_the_outbox(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    children = [job(number) for number in range(2 * AT_ONCE + 5)]
    post(broker, *children)
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == children
    assert broker.store.outboxes() == []


def test_a_process_that_was_killed_before_the_removal_makes_no_second_job(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    post(broker, job(1), job(2))
    far.client.publish([one.push for one in broker.store.posted(FAR, 9)])  # and then it was killed
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == [job(1), job(2)]
    assert broker.store.outboxes() == []


def test_processes_that_relay_at_the_same_time_make_each_job_once(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    children = [job(number) for number in range(1_000)]
    post(broker, *children)
    relays = [relay_of(broker, {FAR: far.client}) for _ in range(3)]
    threads = [threading.Thread(target=relay.run_once) for relay in relays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(waiting(own_redis)) == sorted(children)
    assert broker.store.outboxes() == []


def test_a_refused_push_waits_and_holds_up_no_other(broker: RedisBroker, far: App, own_redis: RedisServer) -> None:
    own_redis.client().set("queue:broken", "no list")
    children = [job(number) for number in range(AT_ONCE + 5)]
    post(broker, job("refused"), queue="broken")
    post(broker, *children)
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == children
    assert [one.push.payload for one in broker.store.posted(FAR, 9)] == [job("refused")]
    own_redis.client().delete("queue:broken")
    relay_of(broker, {FAR: far.client}).run_once()
    assert (waiting(own_redis, "broken"), broker.store.outboxes()) == ([job("refused")], [])


def test_when_all_are_refused_the_relay_does_not_try_the_whole_outbox(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    own_redis.client().set("queue:children", "no list")
    post(broker, *(job(number) for number in range(3 * AT_ONCE)))
    relay_of(broker, {FAR: far.client}).run_once()
    calls = own_redis.client().info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls <= AT_ONCE + 5
    assert len(broker.store.posted(FAR, 999)) == 3 * AT_ONCE


def test_pushes_to_a_broker_that_nobody_knows_wait(broker: RedisBroker) -> None:
    post(broker, job(1))
    assert relay_of(broker, {"another": None}).run_once() == Relay.look_every_s  # type: ignore[dict-item]
    assert broker.store.outboxes() == [FAR]


def test_pushes_wait_while_the_other_server_is_down_and_its_own_jobs_go_on(
    redis_url: str, redis: redis_py.Redis, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(own_redis.url) as far, own_app(redis_url, QueueConfig("q", 2)) as app:

        @app.job("Parent", queue="q", atomic=True)
        def parent(number: int) -> None:
            far.enqueue("children", "Child", [number])
            app.enqueue("own", "Child", [number])

        own_redis.kill()
        parent.enqueue(1)
        with working(app):
            assert eventually(lambda: redis.llen("queue:own") == 1)
            assert eventually(lambda: "cannot serve" in caplog.text)
            assert app.inspector.stats().outbox == 1
            parent.enqueue(2)
            assert eventually(lambda: redis.llen("queue:own") == 2)
            own_redis.start()
            assert eventually(lambda: app.inspector.stats().outbox == 0, 20)
        assert [json.loads(one)["args"] for one in waiting(own_redis)] == [[1], [2]]


def test_a_process_that_starts_later_relays_what_another_one_left(
    redis_url: str, redis: redis_py.Redis, own_redis: RedisServer
) -> None:
    with own_app(own_redis.url) as far, own_broker(redis_url) as broker:
        pushes = (Push("children", job(1), id="x"),)
        publish(broker, job("parent"))
        [parent] = broker.transport.consume(OWNER, [("q", 1)], 1)
        broker.transport.settle(batch_of((parent, Done(effects=(PostJobs("parent", far.config.home, pushes),)))))
        with own_app(redis_url, QueueConfig("q", 1)) as app, working(app):
            assert eventually(lambda: waiting(own_redis) == [job(1)])


def test_a_stop_does_not_wait_for_the_next_look(broker: RedisBroker) -> None:
    relay = relay_of(broker, {})
    relay.look_every_s = 600.0
    relay.start()
    relay.stop()
    assert relay.join(Deadline(10))
