"""Clues in RabbitMQ: which jobs get them, and how long they stand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from harness import Process, job
from rabbit import RabbitNode, RabbitServer
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.brokers.contracts.death_clues import DeathClues
from goworkers_py.brokers.rabbitmq import consuming_connection
from goworkers_py.brokers.rabbitmq.death_clues import CLUES_FROM
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.outcome import REQUEUE

pytestmark = pytest.mark.server


@pytest.fixture
def other(rabbit_url: str) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url))
    with closing(one.broker):
        yield one


def clues_of(process: Process) -> DeathClues:
    clues = process.broker.death_clues
    assert clues is not None
    return clues


def after_returns(process: Process, count: int) -> Delivery:
    for _ in range(count):
        [delivery] = process.consume(1)
        assert process.settle((delivery, REQUEUE)) == [True]
    [delivery] = process.consume(1)
    return delivery


def test_a_job_that_came_back_often_has_the_name_of_its_clues_and_its_bytes_as_they_were(
    me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        consuming_connection, "UNASKED_S", 60
    )  # a job goes back when the test gives it back, and then only
    me.publish(job(1))
    assert after_returns(me, CLUES_FROM - 1).clue_name == ""
    me.publish(job(2))
    delivery = after_returns(me, CLUES_FROM)
    assert (len(delivery.clue_name), delivery.payload) == (40, job(2))


def test_each_delivery_of_a_job_has_the_same_name_and_an_equal_job_another_one(me: Process) -> None:
    me.publish(job(1))
    first = after_returns(me, CLUES_FROM)
    me.publish(job(1))
    second = after_returns(me, CLUES_FROM)
    assert first.clue_name != second.clue_name
    assert me.settle((first, REQUEUE)) == [True]
    [again] = me.consume(1)
    assert again.clue_name == first.clue_name


def test_without_poison_limit_no_job_has_clues(rabbit_url: str) -> None:
    process = Process(Config(broker=rabbit_url, poison_limit=0))
    with closing(process.broker):
        process.publish(job(1))
        assert after_returns(process, CLUES_FROM).clue_name == ""
        assert process.broker.death_clues is None


def test_clues_are_counted_until_they_are_taken_back(me: Process, other: Process) -> None:
    mine, theirs = clues_of(me), clues_of(other)
    assert (theirs.runs("m"), theirs.ran_alone("m")) == (0, False)
    mine.leave("m")
    mine.leave("m")
    mine.leave_alone("m")
    assert eventually(lambda: (theirs.runs("m"), theirs.ran_alone("m")) == (2, True))
    assert (theirs.runs("another"), theirs.ran_alone("another")) == (0, False)
    theirs.take_back_alone("m")
    theirs.take_back_alone("m")
    assert eventually(lambda: (mine.runs("m"), mine.ran_alone("m")) == (2, False))
    theirs.clear("m")
    theirs.clear("m")
    assert eventually(lambda: mine.runs("m") == 0)
    mine.leave("m")
    assert eventually(lambda: theirs.runs("m") == 1)


def test_clues_go_away_by_themselves(rabbit_url: str) -> None:
    process = Process(Config(broker=rabbit_url, poison_window=1.0))
    with closing(process.broker):
        clues = clues_of(process)
        clues.leave("m")
        until = time.monotonic() + 20
        while clues.runs("m") and time.monotonic() < until:  # also while somebody looks at them
            time.sleep(0.2)
        assert clues.runs("m") == 0


def test_clues_of_a_process_that_ends_by_itself_are_taken_back(me: Process, rabbit_url: str) -> None:
    process = Process(Config(broker=rabbit_url))
    clues = clues_of(process)
    clues.leave("m")
    clues.leave_alone("m")
    process.broker.close()
    assert (clues_of(me).runs("m"), clues_of(me).ran_alone("m")) == (0, False)


@pytest.mark.timeout(180)  # the start of a node takes a processor for five seconds
def test_clues_outlive_their_process_and_the_server() -> None:
    with closing(RabbitServer()) as server:
        process = Process(Config(broker=server.url))
        clues_of(process).leave("m")
        clues_of(process).leave_alone("m")
        server.kill()
        process.broker.close()
        server.start()
        with closing(Process(Config(broker=server.url)).broker) as broker:
            clues = broker.death_clues
            assert clues is not None
            assert eventually(lambda: (clues.runs("m"), clues.ran_alone("m")) == (1, True))


def test_a_delivery_is_ours_until_its_connection_is_lost(rabbit_url: str, rabbit_server: RabbitNode) -> None:
    with RawProxy(rabbit_server.port) as proxy:
        process = Process(Config(broker=rabbit_url.replace(str(rabbit_server.port), str(proxy.port))))
        with closing(process.broker):
            process.publish(job(1))
            [delivery] = process.consume(1)
            assert clues_of(process).is_ours(delivery)
            proxy.cut()
            assert eventually(lambda: not clues_of(process).is_ours(delivery))
    with pytest.raises(BrokerUnavailable):
        clues_of(process).runs("m")
