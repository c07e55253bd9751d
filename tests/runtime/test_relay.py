"""Pushes of atomic jobs to another server: posted in the outbox, relayed, and removed from it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

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
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, ConfigError
from goworkers_py.core.home import Destination, Home
from goworkers_py.core.outcome import Done
from goworkers_py.policy.step_size import MOST as AT_ONCE
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.scheduling import relay as module
from goworkers_py.runtime.scheduling.relay import Relay

FAR = "far"


@pytest.fixture
def far(own_redis: RedisServer) -> Iterator[App]:
    with own_app(own_redis.url) as app:
        yield app


def post(
    broker: RedisBroker, *payloads: bytes, queue: str = "children", to: str = FAR, at: float | None = None
) -> None:
    publish(broker, job("parent"))
    [parent] = broker.transport.consume(OWNER, [("q", 1)], 1)
    pushes = tuple(Push(queue, payload, at, payload.hex()) for payload in payloads)
    assert broker.transport.settle(batch_of((parent, Done(effects=(PostJobs("parent", to, pushes),))))) == [True]


def relay_of(broker: RedisBroker, known: Mapping[str, Destination]) -> Relay:
    return Relay(broker.store, lambda: known, Outage("Redis"))


def waiting(server: RedisServer, name: str = "children") -> list[bytes]:
    return queue(server.client(), name)


def test_pushes_go_to_the_other_server_in_order_and_leave_the_outbox(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    children = [job(number) for number in range(2 * AT_ONCE + 5)]
    post(broker, *children)
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == children
    assert broker.admin.outboxes() == []


def test_a_process_that_was_killed_before_the_removal_makes_no_second_job(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    post(broker, job(1), job(2))
    far.client.publish_held([one.push for one in broker.store.posted(FAR, 9)])  # and then it was killed
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == [job(1), job(2)]
    assert broker.admin.outboxes() == []


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
    assert broker.admin.outboxes() == []


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
    assert (waiting(own_redis, "broken"), broker.admin.outboxes()) == ([job("refused")], [])


@pytest.mark.parametrize("denied", ["zadd", "lpush", "del"])
def test_a_push_that_was_refused_is_no_duplicate_later(
    broker: RedisBroker, far: App, own_redis: RedisServer, denied: str
) -> None:
    client = own_redis.client()
    post(broker, job(1), at=4e9 if denied == "zadd" else None)
    client.execute_command("ACL", "SETUSER", "default", f"-{denied}", *(["-lpush"] if denied == "del" else []))
    for _ in range(2):
        relay_of(broker, {FAR: far.client}).run_once()
    assert [one.size for one in broker.admin.outboxes()] == [1]
    client.execute_command("ACL", "SETUSER", "default", "+@all")
    assert eventually(lambda: relay_of(broker, {FAR: far.client}).run_once() > 0 and not broker.admin.outboxes())
    assert client.zcard("schedule") + client.llen("queue:children") == 1


def test_refused_pushes_do_not_hold_up_those_behind_them_and_a_look_at_them_ends(
    broker: RedisBroker, far: App, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_redis.client().set("queue:broken", "no list")
    post(broker, *(job(number) for number in range(150)), queue="broken")
    post(broker, job("good"))
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == [job("good")]
    assert [one.size for one in broker.admin.outboxes()] == [150]
    post(broker, job("later"))
    monkeypatch.setattr(module, "MOST_REFUSED", 50)
    relay_of(broker, {FAR: far.client}).run_once()
    assert waiting(own_redis) == [job("good")]


def test_relayed_pushes_join_their_batch_or_happen_outside_of_it_after_its_end(
    broker: RedisBroker, far: App, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with far.batch() as batch:
        far.enqueue("members", "Member", [])
    [member] = waiting(own_redis, "members")
    post(broker, member)
    relay_of(broker, {FAR: far.client}).run_once()
    assert far.batches.status(batch.bid).total == 2  # type: ignore[union-attr]
    far.batches.close(batch.bid, force=True)
    post(broker, member.replace(b'"Member"', b'"Late"'))
    relay_of(broker, {FAR: far.client}).run_once()
    [_, late] = map(json.loads, waiting(own_redis))
    assert (late["class"], "batch" in late["pyworkers"]) == ("Late", False)
    assert f"batch {batch.bid} ended before jobs joined it" in caplog.text
    with far.batch() as batch:
        far.enqueue("others", "Other", [])
    far.batches.cancel(batch.bid)
    post(broker, *waiting(own_redis, "others"))
    relay_of(broker, {FAR: far.client}).run_once()
    assert (len(waiting(own_redis)), broker.admin.outboxes()) == (2, [])
    assert f"batch {batch.bid} was cancelled: jobs that were held back for it are not pushed" in caplog.text


def test_a_relayed_push_into_a_batch_that_is_forgotten_happens_outside_of_it(
    broker: RedisBroker, far: App, own_redis: RedisServer
) -> None:
    """Also where the batch was cancelled, which nobody knows any more."""
    with far.batch() as batch:
        far.enqueue("members", "Member", [])
    far.batches.cancel(batch.bid)
    own_redis.client().delete(f"pyworkers:batch:{batch.bid}")
    post(broker, *waiting(own_redis, "members"))
    relay_of(broker, {FAR: far.client}).run_once()
    [pushed] = map(json.loads, waiting(own_redis))
    assert (pushed["class"], "batch" in pushed["pyworkers"]) == ("Member", False)


class Counting:
    """A broker that fails, or that somebody has configured wrongly."""

    home = Home(FAR)

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.tries = 0

    def publish_held(self, pushes: Sequence[Push]) -> None:
        self.tries += 1
        raise self.error


def test_a_broker_that_fails_is_not_asked_again_for_each_push(broker: RedisBroker) -> None:
    post(broker, job(1))
    failing = Counting(BrokerUnavailable("down"))
    relay = relay_of(broker, {FAR: failing})
    relay.start()
    for _ in range(50):
        relay.wake()
        time.sleep(0.002)
    relay.stop()
    assert relay.join(Deadline(10))
    assert failing.tries < 10


def test_a_hang_among_pushes_that_are_sent_one_by_one_ends_the_look(broker: RedisBroker) -> None:
    post(broker, *(job(number) for number in range(20)))
    failing = Counting(BrokerRefused("no"))

    def publish(pushes: Sequence[Push]) -> None:
        failing.tries += 1
        raise BrokerRefused("one of them") if len(pushes) > 1 else BrokerUnavailable("does not answer")

    failing.publish_held = publish  # type: ignore[method-assign]
    relay_of(broker, {FAR: failing}).run_once()
    assert failing.tries == 2


def test_an_app_that_is_configured_wrongly_holds_up_no_other(
    broker: RedisBroker, far: App, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    post(broker, job(1), to="wrong")
    post(broker, job(2))
    relay_of(broker, {"wrong": Counting(ConfigError("no such module")), FAR: far.client}).run_once()
    assert waiting(own_redis) == [job(2)]
    assert "ConfigError: no such module" in caplog.text


def test_large_pushes_are_relayed_a_few_at_a_time(broker: RedisBroker, far: App, own_redis: RedisServer) -> None:
    children = [job(number, text="x" * 300_000) for number in range(30)]
    post(broker, *children)
    sizes: list[int] = []
    client = far.client

    class Noting(Counting):
        def publish_held(self, pushes: Sequence[Push]) -> None:
            sizes.append(len(pushes))
            client.publish_held(pushes)

    relay_of(broker, {FAR: Noting(ValueError())}).run_once()
    assert waiting(own_redis) == children
    assert max(sizes[1:]) == 3


def test_held_pushes_do_not_go_to_a_broker_that_an_app_got_later(
    redis_url: str, redis: redis_py.Redis, own_redis: RedisServer
) -> None:
    with own_app(own_redis.url) as far, own_app(redis_url, QueueConfig("q", 1)) as app:

        @app.job("Parent", queue="q", atomic=True)
        def parent() -> None:
            far.enqueue("children", "Child", [1])

        own_redis.kill()
        parent.enqueue()
        with working(app):
            assert eventually(lambda: app.inspector.stats().outbox == 1)
            far.configure(broker=redis_url, namespace="elsewhere")
            far.enqueue("children", "Child", [2])
            own_redis.start()
            assert app.inspector.stats().outbox == 1
        assert redis.llen("elsewhere:queue:children") == 1
        with own_app(own_redis.url), working(app):
            assert eventually(lambda: app.inspector.stats().outbox == 0)
        assert [json.loads(one)["args"] for one in waiting(own_redis)] == [[1]]


def test_the_last_jobs_before_a_stop_are_relayed_too(
    redis_url: str, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_LOOK_S", 30.0)  # a busy machine may take long for it
    begun, gate = threading.Event(), threading.Event()
    with own_app(own_redis.url) as far, own_app(redis_url, QueueConfig("q", 1), timeout=20) as app:

        @app.job("Parent", queue="q", atomic=True)
        def parent() -> None:
            far.enqueue("children", "Child", [1])
            begun.set()
            gate.wait(20)

        parent.enqueue()
        with working(app):
            assert begun.wait(20)  # a stop gives back a job that is fetched and has not begun
            threading.Timer(0.3, gate.set).start()
        assert len(waiting(own_redis)) == 1


def test_pushes_to_a_broker_that_nobody_knows_wait(broker: RedisBroker, far: App) -> None:
    post(broker, job(1))
    assert relay_of(broker, {"another": far.client}).run_once() == Relay.look_every_s
    assert [one.name for one in broker.admin.outboxes()] == [FAR]


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
        broker.transport.settle(batch_of((parent, Done(effects=(PostJobs("parent", far.config.home.name, pushes),)))))
        with own_app(redis_url, QueueConfig("q", 1)) as app, working(app):
            assert eventually(lambda: waiting(own_redis) == [job(1)])


def test_a_stop_relays_what_was_posted_since_the_last_look(
    broker: RedisBroker, far: App, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_LOOK_S", 30.0)  # a busy machine may take long for it
    looks: list[float] = []

    class Noting(Relay):
        def run_once(self) -> float:
            looks.append(super().run_once())
            return looks[-1]

    relay = Noting(broker.store, lambda: {FAR: far.client}, Outage("Redis"))
    relay.look_every_s = 600.0
    relay.start()
    assert eventually(lambda: len(looks) == 1)
    post(broker, job(1))
    relay.stop()
    assert relay.join(Deadline(30))
    assert waiting(own_redis) == [job(1)]


def test_a_stop_does_not_wait_for_the_next_look(broker: RedisBroker) -> None:
    relay = relay_of(broker, {})
    relay.look_every_s = 600.0
    relay.start()
    relay.stop()
    assert relay.join(Deadline(10))
