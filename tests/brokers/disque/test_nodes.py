"""Several nodes, outages and lost replies."""

from __future__ import annotations

import itertools

import disque_crash_points
import pytest
import redis
from crash_points import lives
from harness import job, payloads
from proxy import Proxy
from waiting import eventually

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.disque.address import Address, read_address
from goworkers_py.brokers.disque.broker import DisqueBroker
from goworkers_py.brokers.disque.nodes import error_of
from goworkers_py.brokers.disque.transport import DisqueTransport
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerUnavailable, BrokerUnreachable, ConfigError
from goworkers_py.core.outcome import DONE, Retry

from .conftest import DisqueServer, NewServer, Open


def take(transport: DisqueTransport) -> list[Delivery]:
    """One call of `consume` waits for five seconds at most."""
    return eventually(lambda: transport.consume("me", [("q", 9)], 9))


def test_a_node_is_kept_while_it_works_and_when_it_is_gone_the_next_one_is_used(
    new_server: NewServer, open_transport: Open
) -> None:
    first, second = new_server(), new_server()
    transport = open_transport(f"{first.url},127.0.0.1:{second.port}")
    for number in range(3):
        transport.publish([Push("q", job(number))])
    with first.client() as one:
        assert one.execute_command("QLEN", "q") == 3
    taken = take(transport)
    first.kill()
    with pytest.raises(BrokerUnavailable):
        take(transport)  # its connection broke, so the caller is told
    transport.publish([Push("q", job("there"))])
    assert payloads(take(transport)) == [job("there")]
    first.start()
    transport.publish([Push("q", job("still there"))])
    assert payloads(take(transport)) == [job("still there")]
    assert len(taken) == 3


def test_a_push_goes_to_the_next_node_when_the_first_one_is_away(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(f"disque://127.0.0.1:1,127.0.0.1:{server.port}")
    transport.publish([Push("q", job(1))])
    assert payloads(take(transport)) == [job(1)]


def test_a_node_that_leaves_its_cluster_is_left_by_those_who_wait_for_jobs(
    new_server: NewServer, open_transport: Open
) -> None:
    first, second = new_server(), new_server()
    transport = open_transport(f"{first.url},127.0.0.1:{second.port}")
    with first.client() as client:
        client.execute_command("CLUSTER", "LEAVING", "yes")
    open_transport(second.url).publish([Push("q", job(1))])
    with pytest.raises(BrokerUnavailable, match="LEAVING"):
        take(transport)
    assert payloads(take(transport)) == [job(1)]


def test_a_server_that_is_away_is_unreachable(open_transport: Open) -> None:
    transport = open_transport("disque://127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(BrokerUnreachable):
        transport.publish([Push("q", job(1))])
    with pytest.raises(BrokerUnreachable):
        take(transport)


def test_a_node_that_is_away_is_not_asked_for_more_time_again_and_again(
    new_server: NewServer, open_transport: Open
) -> None:
    server = new_server()
    transport = open_transport(f"{server.url}?retry=2")
    transport.publish([Push("q", job(1))])
    assert len(take(transport)) == 1
    keeper = transport._keeper
    keeper.close()  # the test is its thread
    keeper._next = dict.fromkeys(keeper._next, 0.0)
    server.kill()
    with pytest.raises(BrokerUnavailable):
        keeper.run_once()
    assert keeper._sleep_s() == keeper._first_s / 2
    server.start()
    keeper.run_once()
    assert not keeper._unanswered


def test_a_batch_whose_reply_was_lost_is_asked_again_and_adds_nothing_twice(
    server: DisqueServer, open_transport: Open
) -> None:
    with Proxy(server.port) as proxy:
        transport = open_transport(f"disque://127.0.0.1:{proxy.port}")
        transport.publish([Push("q", job(1)), Push("q", job(2))])
        one, two = take(transport)
        batch = SettlementBatch("settler", 1, [(one, Retry(1.0, job("again"))), (two, DONE)])
        proxy.drop_reply_of(b"ACKJOB")
        with pytest.raises(BrokerUnavailable):
            transport.settle(batch)
        for _ in range(2):
            assert list(transport.settle(batch)) == [True, True]
        assert payloads(take(transport)) == [job("again")]


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("untraced")
def test_a_process_that_is_killed_at_any_line_of_a_settle_loses_no_job(
    server: DisqueServer, open_transport: Open, stride: int
) -> None:
    """Twice is possible: the retry is there, and the job comes again."""
    steps = [step for step, _ in lives(disque_crash_points, server.url, stride)]
    transport, found = open_transport(server.url, poison_limit=0), dict[str, list[bytes]]()
    numbers = itertools.count()
    while some := transport.consume("me", [(f"q-{step}", 9) for step in steps], 500, 5.0):
        for one in some:
            found.setdefault(one.queue, []).append(one.payload)
            transport.settle(SettlementBatch("settler", next(numbers), [(one, DONE)]))
    assert len(steps) > 10
    assert {*found} == {f"q-{step}" for step in steps}
    assert found[f"q-{steps[-1]}"] == [disque_crash_points.again(steps[-1])]


# --- addresses and errors


def test_an_address_names_the_nodes_and_the_options() -> None:
    assert read_address("disque://host") == Address(("redis://host:7711",))
    told = read_address("disque://:secret@a:1,[::1]:2,c?retry=10&ttl=100&replicate=2&ack=fast")
    nodes = ("redis://:secret@a:1", "redis://:secret@[::1]:2", "redis://:secret@c:7711")
    assert told == Address(nodes, 10, 100, 2, "FASTACK")


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("disque://host:99999", "only a colon and a port"),
        ("disque://host/0", "no path follows"),
        ("disque://host?rety=1", "rety is no option; there are retry, ttl, replicate and ack"),
        ("disque://host?retry=soon", "retry is a whole number from 1 on, not 'soon'"),
        ("disque://host?ack=slow", "ack is all or fast, not 'slow'"),
        ("disque://host?retry=60&ttl=100", "ttl must be at least twice retry"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_starts(address: str, error: str) -> None:
    with pytest.raises(ConfigError, match="broker") as refused:
        DisqueBroker.check(Config(broker=address))
    assert error in str(refused.value)


def test_a_queue_of_plain_format_is_refused() -> None:
    queue = QueueConfig("orders", format="plain", bare_list="orders")
    with pytest.raises(ConfigError, match=r"\[queue:orders\] format = plain: Disque has no such queues"):
        DisqueBroker.check(Config(broker="disque://host", queues=(queue,)))


@pytest.mark.parametrize("told", ["NOREPL Not enough reachable nodes", "LEAVING node", "PAUSED Queue paused in input"])
def test_errors_that_end_by_themselves_are_outages(told: str) -> None:
    assert type(error_of(redis.ResponseError(told))) is BrokerUnavailable
