"""What is RabbitMQ's own: connections that are lost, flows that are closed, delays in several steps, forks."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import pika  # type: ignore[import-untyped]
import pytest
from harness import Process, job, jobs, payloads
from rabbit import RabbitNode
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.transport import Published, SettlementBatch
from goworkers_py.brokers.rabbitmq import consumer, consuming_connection, declarer, publisher, settlement, transport
from goworkers_py.brokers.rabbitmq.address import parameters_of
from goworkers_py.brokers.rabbitmq.consuming_connection import UNASKED_S
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.publisher import RabbitRequest
from goworkers_py.brokers.rabbitmq.transport import RabbitTransport
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, ConfigError
from goworkers_py.core.outcome import DONE, REQUEUE, Dead, Done, Reschedule, Retry

pytestmark = pytest.mark.server
LARGEST = 8_388_608  # see `rabbit.RabbitServer`


@pytest.fixture
def other(rabbit_url: str) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url))
    with closing(one.broker):
        yield one


def test_a_delivery_without_an_id_of_its_message_is_lost_with_its_connection_and_comes_again(
    proxied: Process, proxy: RawProxy, rabbit_url: str
) -> None:
    proxied.publish(job(0))  # the queue is there
    proxied.settle((proxied.consume(1)[0], DONE))
    publish_without_id(rabbit_url, job(1))
    [old] = proxied.consume(1)
    proxy.cut()
    assert eventually(lambda: old.receipt.flow.connection.error)
    [new] = proxied.consume(1)
    assert new.payload == old.payload
    assert proxied.settle((old, DONE)) == [False]
    assert proxied.settle((new, DONE)) == [True]


def publish_without_id(url: str, payload: bytes) -> None:
    with closing(pika.BlockingConnection(pika.URLParameters(url))) as connection:
        connection.channel().basic_publish("", "q", payload)


def test_a_job_that_still_runs_when_it_comes_again_goes_on_and_is_acknowledged(
    me: Process, proxied: Process, proxy: RawProxy
) -> None:
    proxied.publish(*jobs(2))
    runs, also_runs = proxied.consume(2)
    proxy.cut()
    assert eventually(lambda: runs.receipt.flow.connection.error)
    old = runs.receipt.flow
    assert eventually(lambda: consumed_so_far(proxied) == [] and old not in (runs.receipt.flow, also_runs.receipt.flow))
    assert proxied.settle((runs, DONE), (also_runs, Dead(job("dead")))) == [True, True]
    proxied.broker.close()
    assert payloads(me.consume(1, "pyworkers.dead")) == [job("dead")]
    assert me.broker.transport.consume("me", [("q", 1), ("pyworkers.dead", 1)], 2, 0.3) == []


def test_a_job_that_has_ended_before_it_comes_again_is_not_run_again(
    me: Process, proxied: Process, proxy: RawProxy
) -> None:
    proxied.publish(*jobs(3))
    ends, dies, goes_back = proxied.consume(3)
    proxy.cut()
    assert eventually(lambda: ends.receipt.flow.connection.error)
    finished = [(ends, DONE), (dies, Dead(job("dead"))), (goes_back, REQUEUE)]
    assert proxied.settle(*finished) == [False, False, False]
    taken: list[bytes] = []

    def all_came_again() -> bool:
        """In any order. A process that is closed before cannot acknowledge those that have ended."""
        taken.extend(consumed_so_far(proxied))
        return bool(taken) and not proxied.broker.transport._returns._ends

    assert eventually(all_came_again)
    assert taken == [goes_back.payload]
    proxied.broker.close()
    assert payloads(me.consume(1)) == [goes_back.payload]
    assert payloads(me.consume(1, "pyworkers.dead")) == [job("dead")]
    assert me.broker.transport.consume("me", [("q", 1), ("pyworkers.dead", 1)], 2, 0.3) == []


def test_a_job_that_waits_for_its_next_step_when_its_connection_is_lost_comes_at_its_time(
    proxied: Process, proxy: RawProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LEAVE_AGAIN_S", 0.1)
    due = time.time() + 9.5  # after its first step of 5 s, also a busy machine takes the job before it is due
    proxied.publish(job(1), at=due)
    ours = proxied.broker.transport
    assert isinstance(ours, RabbitTransport)
    connection = ours._publisher._connection
    assert connection is not None
    connection.blocked = "low on memory"  # its next step cannot be published
    assert eventually(lambda: (consumed_so_far(proxied), [*ours._consumers["q"].leaving])[1])
    proxy.cut()
    assert eventually(lambda: consumed_so_far(proxied)) == [job(1)]
    assert time.time() >= due - 0.1
    assert eventually(lambda: consumed_so_far(proxied) == [] and not ours._consumers["q"].leaving)


@pytest.mark.parametrize("outcome", [Dead(job("x" * LARGEST)), Done(effects=(PushJobs("1", (Push("amq.x", b"{}"),)),))])
def test_an_end_that_cannot_be_written_when_the_job_comes_again_lets_it_run_again(
    proxied: Process, proxy: RawProxy, monkeypatch: pytest.MonkeyPatch, outcome: Dead | Done
) -> None:
    monkeypatch.setattr(transport, "LEAVE_AGAIN_S", 0.1)
    proxied.publish(*jobs(2))
    wrong, right = proxied.consume(2)
    proxy.cut()
    assert eventually(lambda: wrong.receipt.flow.connection.error)
    assert proxied.settle((wrong, outcome), (right, DONE)) == [False, False]
    assert eventually(lambda: consumed_so_far(proxied)) == [wrong.payload]


def test_jobs_that_came_before_the_flow_was_closed_are_not_forgotten(me: Process) -> None:
    me.publish(*jobs(5))
    ours = me.broker.transport
    assert isinstance(ours, RabbitTransport)
    assert ours.consume("me", [("q", 5)], 5, 0.0) == []
    used = ours._consumers["q"]
    assert eventually(lambda: len(used._flows["q"].inbox) == 5)
    used._flows["q"].is_closed = True  # as by a close whose answer was not awaited
    assert payloads(me.consume(5)) == jobs(5)


def test_a_batch_whose_retry_was_confirmed_is_not_published_again(proxied: Process, proxy: RawProxy) -> None:
    proxied.publish(job(1))
    [delivery] = proxied.consume(1)
    batch = SettlementBatch("settler", 1, [(delivery, Dead(job("dead")))])
    assert list(proxied.broker.transport.settle(batch)) == [True]
    proxy.cut()
    assert list(proxied.broker.transport.settle(batch)) == [True]
    assert payloads(proxied.consume(1, "pyworkers.dead")) == [job("dead")]
    assert proxied.broker.transport.consume("me", [("pyworkers.dead", 1)], 1, 0.2) == []


def test_a_queue_that_is_full_holds_up_no_other_job_and_doubles_nothing(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("pyworkers.dead", "side"):
        me.publish(job("first"), queue=queue)  # a queue that is just declared may refuse messages for a while
        me.settle((me.consume(1, queue)[0], DONE))
    full = declare_full(rabbit_server, rabbit_url, "full")
    monkeypatch.setattr(publisher, "REFUSED_FOR_S", 0.1)
    me.publish(*jobs(3))
    one, another, third = me.consume(3)
    push = PushJobs("jid", (Push("side", job("side")), Push("full", job("pushed"))))
    finished = [(one, Dead(job("dead"))), (another, Done(effects=(push,))), (third, DONE)]
    refused = "RabbitMQ refused a message for queue full: full, or without a leader"
    assert list(me.broker.transport.settle(SettlementBatch("settler", 1, finished))) == [True, refused, True]
    assert list(me.broker.transport.settle(SettlementBatch("settler", 2, finished[1:2]))) == [refused]
    monkeypatch.setattr(publisher, "REFUSED_FOR_S", 10.0)
    rabbit_server.ask("DELETE", full)
    assert list(me.broker.transport.settle(SettlementBatch("settler", 3, finished[1:2]))) == [True]
    for queue, payload in [("pyworkers.dead", job("dead")), ("side", job("side")), ("full", job("pushed"))]:
        assert payloads(me.consume(1, queue)) == [payload]
        assert me.broker.transport.consume("me", [(queue, 1)], 1, 0.1) == []


def test_a_server_that_takes_no_messages_takes_the_ends_of_jobs(me: Process) -> None:
    me.publish(*jobs(2))
    ends, dies = me.consume(2)
    transport = me.broker.transport
    assert isinstance(transport, RabbitTransport)
    connection = transport._publisher._connection
    assert connection is not None
    connection.blocked = "low on memory"  # as the server says when its alarm begins
    assert me.settle((dies, Dead(job("dead"))), (ends, DONE)) == ["RabbitMQ takes no messages: low on memory", True]
    connection.blocked = ""
    assert me.settle((dies, Dead(job("dead")))) == [True]
    assert payloads(me.consume(1, "pyworkers.dead")) == [job("dead")]


def declare_full(server: RabbitNode, url: str, queue: str) -> str:
    """A queue that takes no job. Returns its path."""
    path = f"queues/{urlsplit(url).path[1:]}/{quote(queue)}"
    limits = '{"x-max-length": 0, "x-overflow": "reject-publish"}'
    server.ask("PUT", path, '{"durable": true, "arguments": ' + limits + "}")
    return path


def test_a_push_declares_more_queues_than_a_connection_has_channels(rabbit_url: str) -> None:
    parameters = parameters_of(Config(broker=rabbit_url))
    parameters.channel_max = declarer.MOST_CHANNELS + 2  # that of the publisher, and one that is just closed
    names = [f"q{number}" for number in range(2 * parameters.channel_max)]
    with closing(publisher.RabbitPublisher(parameters, Names("", (1, 1.0)))) as one:
        one.publish([RabbitMessage(name, b"{}") for name in names])


def test_a_push_over_a_lost_connection_is_an_error_and_the_next_one_works(proxied: Process, proxy: RawProxy) -> None:
    proxied.publish(job(1))
    proxy.refuse()
    with pytest.raises(BrokerUnavailable):
        push_until_it_fails(proxied)
    proxy.pass_through()
    proxied.publish(job(3))
    assert job(3) in payloads(proxied.consume(2))


def push_until_it_fails(process: Process) -> None:
    for _ in range(3):
        process.publish(job(2))


def test_jobs_that_nobody_asks_for_go_to_another_process(me: Process, other: Process) -> None:
    """As those of a process that has become quiet."""
    me.publish(*jobs(1))
    [first] = me.consume(1)
    me.settle((first, DONE))  # there is room for another job, which comes and is not asked for
    me.publish(job("later"))
    assert payloads(other.consume(1)) == [job("later")]


def test_a_paused_queue_does_not_end_the_wait_for_the_others(me: Process) -> None:
    transport = me.broker.transport
    assert transport.consume("me", [("paused", 1), ("q", 1)], 1, 0.1) == []
    transport.end_waits(["paused"])
    began = time.monotonic()
    assert transport.consume("me", [("paused", 0), ("q", 1)], 1, 0.5) == []
    assert time.monotonic() - began > 0.4


def test_a_job_whose_turn_does_not_come_goes_to_another_process(
    me: Process, other: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming_connection, "UNREACHED_S", UNASKED_S)
    asks, transport = [("high", 20), ("low", 1)], me.broker.transport
    assert isinstance(transport, RabbitTransport)
    # Before `me` consumes: from a queue that another connection is just declaring, it may not be let consume.
    me.publish(job("low"), queue="low")
    me.publish(*jobs(500), queue="high")

    def run(most: int) -> bool:
        taken = transport.consume("me", asks, most)  # none, when a flow was closed in that moment
        # On a loaded machine the next job of `high` is not always there in time.
        me.settle(*((one, DONE if one.queue == "high" else REQUEUE) for one in taken))
        return "high" in [one.queue for one in taken]

    assert eventually(lambda: run(20))
    # From now on jobs of the queue `high` always go before that of `low`, which comes to `me`.
    eventually(lambda: len(transport._consumers["high"]._flows["high"].inbox) > 5, within_s=1.0)

    def run_one_and_let_the_other_look() -> list[Delivery]:
        run(1)
        return other.broker.transport.consume("other", [("low", 1)], 1, 0.05)

    assert payloads(eventually(run_one_and_let_the_other_look)) == [job("low")]


def test_with_standby_a_queue_is_handed_over_when_no_job_of_it_is_held_any_more(rabbit_url: str) -> None:
    config = Config(broker=rabbit_url, standby=True)
    leading, following = Process(config), Process(config)
    with closing(leading.broker), closing(following.broker):
        leading.publish(job("runs"))
        [runs] = eventually(lambda: leading.broker.transport.consume("l", [("q", 2)], 2))
        assert following.broker.transport.consume("f", [("q", 1)], 1, 0.1) == []
        leading.publish(job("waits"))  # it comes to the leading process, which does not ask for it
        assert leading.broker.transport.end_waits(["q"]) == []  # as the fetcher does every ten seconds
        assert following.broker.transport.consume("f", [("q", 1)], 1, 4 * UNASKED_S) == []
        leading.settle((runs, DONE))
        assert payloads(following.consume(1)) == [job("waits")]


def test_a_job_given_back_comes_again(me: Process) -> None:
    me.publish(*jobs(3))
    deliveries = me.consume(3)
    me.settle(*((one, REQUEUE) for one in deliveries))
    assert sorted(payloads(me.consume(3))) == jobs(3)


@pytest.mark.parametrize("outcome", [Retry, Reschedule])
def test_a_job_waits_for_its_time_in_several_steps(me: Process, outcome: type[Retry | Reschedule]) -> None:
    me.publish(job(1))
    [delivery] = me.consume(1)
    due = time.time() + 1.7
    assert me.settle((delivery, outcome(due, job("later")))) == [True]
    assert payloads(me.consume(1)) == [job("later")]
    assert time.time() >= due - 0.1


def test_a_job_that_cannot_take_its_next_step_takes_it_later_and_hides_no_other_job(
    me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    me.publish(job("now"))
    due = time.time() + 2.5
    me.publish(job("later"), at=due)
    sender = me.broker.transport._settlement._publisher
    refused = iter([True, True])

    def begin(requests: Sequence[RabbitRequest]) -> None:
        if requests and next(refused, False):
            raise BrokerUnavailable("cut")
        type(sender).begin(sender, requests)

    monkeypatch.setattr(sender, "begin", begin)
    assert eventually(lambda: consumed_so_far(me)) == [job("now")]
    assert eventually(lambda: consumed_so_far(me)) == [job("later")]
    assert time.time() >= due - 0.1


def test_a_push_for_later_comes_then(me: Process) -> None:
    me.publish(job(2), at=time.time() - 100)  # first: a late push of the other one goes into the queue at once
    due = time.time() + 0.8
    me.publish(job(1), at=due)
    assert payloads(me.consume(2)) == [job(2), job(1)]
    assert time.time() >= due - 0.1


@pytest.mark.parametrize("at", [1e17, math.inf])
def test_a_push_for_the_end_of_time_takes_no_connection_away(me: Process, at: float) -> None:
    me.publish(job(1))
    me.publish(job(1), at=at)


def test_a_job_whose_next_step_is_refused_comes_at_its_time(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shorter_s in ("0.1", "0.2", "0.5", "1"):
        declare_full(rabbit_server, rabbit_url, f"pyworkers.delays.{shorter_s}s")
    due = time.time() + 3.9  # nearly two seconds before the first step, and after it
    me.publish(job(1), at=due)
    monkeypatch.setattr(publisher, "REFUSED_FOR_S", 0.1)  # not before: a queue that is just declared refuses for longer
    assert eventually(lambda: consumed_so_far(me)) == [job(1)]
    assert time.time() >= due - 0.1


def consumed_so_far(process: Process) -> list[bytes]:
    with suppress(BrokerUnavailable):
        return payloads(process.broker.transport.consume("me", [("q", 1)], 1, 0.2))
    return []


# More than the jobs that a queue of delays looks at while it cannot hand them on: 32 with RabbitMQ 3.10.
STUCK = 60
FAR = 4_000_000_000.0  # in 2096: this process declares the queues of such a job, which another one may delete then


def delete_queue(server: RabbitNode, url: str, queue: str) -> None:
    server.ask("DELETE", f"queues/{urlsplit(url).path[1:]}/{quote(queue)}")


@pytest.mark.parametrize("refusal", ["deleted", "full"])
def test_delayed_jobs_of_a_queue_that_takes_none_hold_up_no_others(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str, refusal: str
) -> None:
    if refusal == "full":
        declare_full(rabbit_server, rabbit_url, "other")
    me.publish(job("declares"), queue="other", at=FAR)
    if refusal == "deleted":
        delete_queue(rabbit_server, rabbit_url, "other")
    me.publish(*(job(number) for number in range(STUCK)), queue="other", at=time.time() + 2.5)
    me.publish(job("mine"), at=time.time() + 2.9)  # takes the same step
    assert payloads(me.consume(1)) == [job("mine")]
    vhost = urlsplit(rabbit_url).path[1:]
    assert eventually(lambda: rabbit_server.queue_sizes(vhost)["pyworkers.due.other"] == STUCK)


def test_delayed_jobs_without_any_queue_to_go_to_are_dead(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str
) -> None:
    me.publish(job("declares"), queue="other", at=FAR)
    for queue in ("other", "pyworkers.due.other"):
        delete_queue(rabbit_server, rabbit_url, queue)
    me.publish(job("homeless"), queue="other", at=time.time() + 3)
    assert payloads(me.consume(1, "pyworkers.dead")) == [job("homeless")]


def test_a_delayed_job_of_the_longest_name_comes(me: Process) -> None:
    name = "x" * 255
    me.publish(job(1), queue=name, at=time.time() + 0.3)
    assert payloads(me.consume(1, name)) == [job(1)]


def test_a_job_that_is_not_due_when_the_waits_end_goes_on_to_wait(me: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming_connection, "UNASKED_S", 60)
    me.publish(job(0))
    me.settle((me.consume(1)[0], DONE))  # from a queue that is just declared, it may not be let consume
    due = time.time() + 0.8
    me.publish(job(1), at=due)
    assert eventually(lambda: me.broker.transport._consumers["q"]._flows["q"].inbox)
    late = me.broker.transport.end_waits(["q"])  # on a busy machine it is due by now
    assert payloads(late or me.consume(1)) == [job(1)]
    assert time.time() >= due - 0.15  # the shortest step of its way, and what clocks are rounded by


@pytest.mark.parametrize(("seconds", "step_s"), [(0.01, 0.1), (59, 30), (60, 60), (10**8, 2_592_000)])
def test_the_longest_step_that_fits_is_taken(seconds: float, step_s: float) -> None:
    message = Names("", (1, 1.0)).later("q", b"", 1000.0 + seconds, 1000.0)
    assert message.delay_ms == step_s * 1000


def test_a_deleted_queue_is_declared_again_and_its_consumer_goes_on(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    me.publish(job(1))
    me.settle((me.consume(1)[0], DONE))
    vhost = urlsplit(rabbit_url).path[1:]
    rabbit_server.ask("DELETE", f"queues/{vhost}/{quote('q')}")
    assert eventually(lambda: "RabbitMQ has cancelled the consumer" in caplog.text)
    me.publish(job(2))
    assert payloads(me.consume(1)) == [job(2)]


def test_a_queue_that_was_deleted_while_nobody_consumed_is_declared_again(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str
) -> None:
    me.publish(job(1))
    me.settle((me.consume(1)[0], DONE))
    assert me.broker.transport.end_waits(["q"]) == []
    rabbit_server.ask("DELETE", f"queues/{urlsplit(rabbit_url).path[1:]}/q")
    used = me.broker.transport._consumers["q"]
    assert eventually(lambda: consumed_so_far(me) == [] and used._flows["q"].is_answered)
    publish_without_id(rabbit_url, job(2))
    assert payloads(me.consume(1)) == [job(2)]


def test_a_deleted_queue_takes_no_running_job_of_another_queue_away(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    me.publish(*jobs(2), queue="deleted")
    me.publish(job("runs"), queue="stays")
    asks = [("stays", 2), ("deleted", 2)]
    taken = list[Delivery]()
    assert eventually(lambda: taken.extend(me.broker.transport.consume("me", asks, 4)) or len(taken) == 3)
    rabbit_server.ask("DELETE", f"queues/{urlsplit(rabbit_url).path[1:]}/deleted")
    assert eventually(lambda: "RabbitMQ has cancelled the consumer" in caplog.text)
    for _ in range(2):
        assert me.broker.transport.consume("me", asks, 4, 0.2) == []
    me.publish(job("again"), queue="deleted")
    [again] = eventually(lambda: me.broker.transport.consume("me", asks, 4))
    assert again.payload == job("again")
    [runs] = [one for one in taken if one.queue == "stays"]
    assert me.settle((runs, DONE)) == [True]


def test_a_pool_of_many_queues_consumes_over_a_slow_network(
    me: Process, proxied: Process, proxy: RawProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming_connection, "CONSUME_S", 0.7)
    queues = [f"q{number}" for number in range(20)]
    me.broker.transport.publish([Push(queue, job(1)) for queue in queues])
    proxy.delay_s = 0.025
    asks = [(queue, 1) for queue in queues]

    def consumes_from_all() -> bool:
        taken = set[str]()
        try:
            while len(taken) < len(queues):
                taken.update(one.queue for one in proxied.broker.transport.consume("me", asks, len(queues)))
        except BrokerUnavailable:  # on a busy machine, one answer may take so long; then all comes again
            return False
        return True

    assert eventually(consumes_from_all)
    proxy.delay_s = 0.0


def test_a_queue_that_somebody_else_has_declared_is_used_as_it_is(
    me: Process, rabbit_server: RabbitNode, rabbit_url: str
) -> None:
    vhost = urlsplit(rabbit_url).path[1:]
    rabbit_server.ask("PUT", f"queues/{vhost}/classic", '{"durable": true, "arguments": {"x-max-priority": 3}}')
    me.publish(job(1), queue="classic")
    assert payloads(me.consume(1, "classic")) == [job(1)]


def test_a_push_in_a_forked_child_works_and_the_parent_goes_on(me: Process) -> None:
    me.publish(job("parent"))
    child = os.fork()
    if not child:
        me.publish(job("child"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    me.publish(job("parent again"))
    assert sorted(payloads(me.consume(3))) == sorted([job("parent"), job("child"), job("parent again")])


def test_an_id_is_published_once_by_a_process(me: Process) -> None:
    push = me.push(job(1), push_id="one")
    assert me.broker.transport.publish([push, push]) == [Published.PUSHED, Published.DUPLICATE]
    assert me.broker.transport.publish([push]) == [Published.DUPLICATE]


def test_an_id_may_be_published_again_after_a_day(me: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    push = me.push(job(1), push_id="one")
    me.broker.transport.publish([push])
    monkeypatch.setattr(transport, "ID_LIFE_S", 0.0)
    assert me.broker.transport.publish([push]) == [Published.PUSHED]


@pytest.mark.parametrize("queue", ["x" * 256, "amq.own"])
def test_a_name_that_rabbitmq_cannot_store_is_refused(me: Process, queue: str) -> None:
    with pytest.raises(BrokerRefused, match=r"RabbitMQ (takes|keeps) names"):
        me.publish(job(1), queue=queue)


@pytest.mark.parametrize("address", ["amqp://host:port/", "amqp://h/?heartbeat=x", "amqp://h/?colour=red"])
def test_a_wrong_address_is_refused(address: str) -> None:
    process = Config(broker=address)
    with pytest.raises(ConfigError, match="the server's address is not valid"):
        Process(process)


def test_a_redis_beside_it_is_advised_where_rabbitmq_lacks_something(me: Process) -> None:
    with pytest.raises(ConfigError, match=r"^broker: RabbitMQ has no lists of jobs: set a Redis beside it \(store = "):
        me.broker.require(Capability.ADMIN)


def test_jobs_that_cannot_be_settled_leave_room_for_others_and_the_consumers_bounded(
    me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MOST_CONSUMERS", 3)
    me.publish(*jobs(30))
    held = [one for _ in range(30) for one in me.consume(1)]
    assert payloads(held) == jobs(30)
    flows = {one.receipt.flow for one in held}
    assert eventually(lambda: sum(len(one.channel.consumer_tags) for one in flows) <= 3)
    assert me.settle(*[(one, DONE) for one in held]) == [True] * 30
    me.publish(job("after"))
    assert payloads(me.consume(1)) == [job("after")]


def test_a_message_without_a_confirmation_holds_up_no_other_job_and_is_published_once(
    me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a queue without a leader: RabbitMQ takes the message, and confirms it when there is one again."""
    monkeypatch.setattr(settlement, "PATIENCE_S", 0.1)
    ours = me.broker.transport
    assert isinstance(ours, RabbitTransport)
    me.publish(*jobs(3), queue="q")
    me.publish(job("there"), queue="pyworkers.dead")  # the queue is declared
    connection, kept = ours._publisher._connection, list[Any]()
    assert connection is not None
    monkeypatch.setattr(connection, "_confirmed", lambda *told: kept.append(told))
    dies, ends, fails = me.consume(3)
    dead, retry = Dead(job("dead")), Retry(time.time() - 1, job("again"))
    first, second, third = me.settle((dies, dead), (ends, DONE), (fails, retry))
    assert second is True
    assert ["has not confirmed" in str(told) for told in (first, third)] == [True, True]
    [again] = me.settle((dies, dead))
    assert "has not confirmed" in str(again)
    assert eventually(lambda: len(kept) == 2)
    monkeypatch.undo()
    for told in kept:
        connection.call(partial(connection._confirmed, *told))
    assert eventually(lambda: me.settle((dies, dead)) == [True])
    assert eventually(lambda: me.settle((fails, retry)) == [True])
    assert payloads(me.consume(2, "pyworkers.dead")) == [job("there"), job("dead")]
    assert payloads(me.consume(1)) == [job("again")]
    asks = [("pyworkers.dead", 1), ("q", 1)]
    assert ours.consume("me", asks, 2, 0.2) == [], "nothing was published again"
