"""Names that RabbitMQ cannot have are refused, and hold up nothing else."""

from __future__ import annotations

import pytest
from harness import Process, job, payloads

from goworkers_py.brokers.rabbitmq.broker import RabbitBroker
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.errors import BrokerRefused, ConfigError
from goworkers_py.core.outcome import DONE, Retry

pytestmark = pytest.mark.server

# RabbitMQ declares the queue of a name with line breaks under the name without them.
IMPOSSIBLE = ["line\nbreak", "carriage\rreturn", "half \ud800", "x" * 256]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_push_to_it_is_refused(me: Process, name: str) -> None:
    with pytest.raises(BrokerRefused):
        me.publish(job(1), queue=name)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_pool_that_asks_for_it_keeps_the_connection_of_its_jobs(me: Process, name: str) -> None:
    me.publish(job(1))
    [runs] = me.consume(1)
    for _ in range(2):
        with pytest.raises(BrokerRefused):
            me.broker.transport.consume("me", [("q", 1), (name, 1)], 1, 0.2)
    assert me.settle((runs, DONE)) == [True]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_the_clues_that_a_job_of_another_program_names_are_refused(me: Process, name: str) -> None:
    clues = me.broker.death_clues
    assert clues is not None
    for step in (clues.runs, clues.ran_alone, clues.leave, clues.leave_alone, clues.take_back_alone, clues.clear):
        with pytest.raises(BrokerRefused):
            step(name)


@pytest.mark.parametrize("name", [*IMPOSSIBLE, "amq.taken"])
def test_the_retry_of_a_job_that_names_it_comes_into_the_queue_of_its_delivery(me: Process, name: str) -> None:
    me.publish(job(1))
    assert me.settle((me.consume(1)[0], Retry(0.0, job("again", queue=name)))) == [True]
    assert payloads(me.consume(1)) == [job("again", queue=name)]


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("plain", [True, False])
def test_a_daemon_with_it_does_not_start(name: str, plain: bool) -> None:
    queue = QueueConfig("orders", format="plain", bare_list=name) if plain else QueueConfig(name)
    with pytest.raises(ConfigError, match="a name that RabbitMQ cannot have"):
        RabbitBroker.check(Config(broker="amqp://localhost/", queues=(queue,)))
