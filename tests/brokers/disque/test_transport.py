"""What Disque does by itself: it delivers again, waits, drops what is too old; and how a job that runs is kept."""

from __future__ import annotations

import itertools
import logging
import time

import pytest
from disque_server import DisqueServer
from harness import job, payloads
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch
from goworkers_py.brokers.disque import keeper
from goworkers_py.brokers.disque.transport import DisqueTransport
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PostJobs, Push, PushJobs
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.outcome import DONE, REQUEUE, REQUEUE_LAST, Dead, Done, Outcome, Park, Reschedule, Retry
from goworkers_py.features.batches.batch import BatchTie
from goworkers_py.features.for_ruby.end import pushed as echo_pushed

from .conftest import Open

EARLY_S = 0.2  # Disque's clock stands still while it serves others
_numbers = itertools.count(1)


def publish(transport: DisqueTransport, *raws: bytes, at: float | None = None) -> None:
    transport.publish([Push("q", raw, at) for raw in raws])


def take(transport: DisqueTransport, queue: str = "q", wait_s: float = 20.0) -> list[Delivery]:
    """One call of `consume` waits for five seconds at most."""
    give_up_at = time.monotonic() + wait_s
    while not (taken := transport.consume("me", [(queue, 9)], 9, max(0.0, give_up_at - time.monotonic()))):
        if time.monotonic() >= give_up_at:
            break
    return taken


def settle(transport: DisqueTransport, *finished: tuple[Delivery, Outcome]) -> list[Settled]:
    return list(transport.settle(SettlementBatch("settler", next(_numbers), finished)))


def test_a_job_whose_process_is_gone_is_delivered_again_after_its_retry(
    server: DisqueServer, open_transport: Open
) -> None:
    gone, here = (open_transport(f"{server.url}?retry=1") for _ in range(2))
    publish(gone, job(1))
    [first] = take(gone)
    gone.close()
    [again] = take(here)
    assert (again.payload, again.receipt.job_id, again.receipt.deliveries) == (job(1), first.receipt.job_id, 1)
    assert settle(here, (again, DONE)) == [True]
    assert take(here, wait_s=2.0) == []


def test_a_job_that_runs_longer_than_its_retry_is_not_delivered_again(
    server: DisqueServer, open_transport: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "KEEP_AT", 0.2)  # so that a busy machine keeps it in time
    transport, other = open_transport(f"{server.url}?retry=5"), open_transport(server.url)
    publish(transport, job(1))
    [running] = take(transport)
    assert take(other, wait_s=7.0) == []
    assert settle(transport, (running, DONE)) == [True]


def test_a_job_is_given_no_more_time_in_the_second_half_of_its_ttl_and_the_log_says_so_once(
    server: DisqueServer, open_transport: Open, caplog: pytest.LogCaptureFixture
) -> None:
    transport = open_transport(f"{server.url}?retry=2&ttl=12")
    publish(transport, job(1))
    with caplog.at_level(logging.WARNING):
        [running] = take(transport)
        [again] = take(transport)
    assert again.receipt.job_id == running.receipt.job_id
    assert eventually(lambda: "raise ?ttl= in the address" in caplog.text)  # a late keeper has it come again before
    assert sum("raise ?ttl= in the address" in line for line in caplog.messages) == 1


def test_a_job_that_is_older_than_its_ttl_is_dropped(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(f"{server.url}?retry=1&ttl=2")
    with server.client() as client:

        def is_there() -> bool:
            publish(transport, job(1))
            return bool(client.execute_command("QLEN", "q"))

        assert eventually(is_there)
        time.sleep(3.2)  # Disque counts whole seconds
    assert take(transport, wait_s=0) == []


def test_a_job_that_was_delivered_in_vain_too_often_is_buried(
    server: DisqueServer, open_transport: Open, caplog: pytest.LogCaptureFixture
) -> None:
    publish(open_transport(f"{server.url}?retry=1"), job("bad"))
    for death in range(2):
        dying = open_transport(server.url)
        assert [one.receipt.deliveries for one in take(dying)] == [death]
        dying.close()
    transport, taken = open_transport(server.url, poison_limit=2), list[Delivery]()
    assert eventually(
        lambda: taken.extend(take(transport, wait_s=1.0)) or taken or "buried: delivered 2 times" in caplog.text
    )
    assert taken == []
    assert payloads(take(transport, "pyworkers.dead")) == [job("bad")]


def test_a_job_that_is_given_back_is_no_step_towards_its_burial(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(server.url, poison_limit=2)
    publish(transport, job(1))
    for outcome in (REQUEUE, REQUEUE, REQUEUE, REQUEUE_LAST):
        [one] = take(transport)
        assert (one.payload, one.receipt.deliveries) == (job(1), 0)
        assert settle(transport, (one, outcome)) == [True]
    assert len(take(transport)) == 1


@pytest.mark.parametrize("make", [Retry, Reschedule])
def test_a_job_that_waits_for_a_time_comes_then_in_the_queue_that_its_payload_names(
    server: DisqueServer, open_transport: Open, make: type[Retry | Reschedule]
) -> None:
    transport = open_transport(server.url)
    publish(transport, job(1))
    [one] = take(transport)
    at = time.time() + 1
    assert settle(transport, (one, make(at, job("again", "other")))) == [True]
    assert payloads(take(transport, "other")) == [job("again", "other")]
    assert time.time() >= at - EARLY_S


def test_a_push_for_later_waits_longer_than_its_ttl(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(f"{server.url}?retry=1&ttl=2")
    at = time.time() + 2.5
    publish(transport, job(1), at=at)
    publish(transport, job("never"), at=float("inf"))
    assert payloads(take(transport)) == [job(1)]
    assert time.time() >= at - EARLY_S


def test_dead_jobs_and_the_pushes_of_a_job_are_in_their_queues(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(server.url, namespace="ours")
    publish(transport, job(1), job(2), b"no JSON")
    one, two, three = take(transport)
    effects = (PushJobs("1", (Push("children", job("child")),)), echo_pushed("1", "echoes", job("echo")))
    outcomes = [Done(effects=effects), Dead(job("dead")), Retry(0.0, b"no JSON")]
    assert settle(transport, *zip((one, two, three), outcomes, strict=True)) == [True] * 3
    assert [payloads(take(transport, queue)) for queue in ("children", "echoes", "pyworkers.dead", "q")] == [
        [job("child")], [job("echo")], [job("dead")], [b"no JSON"],
    ]  # fmt: skip
    with server.client() as client:
        assert client.execute_command("QLEN", "ours:q") == 0
    assert take(open_transport(server.url), wait_s=0) == [], "another namespace has other queues"


def test_a_queue_that_takes_no_jobs_does_not_double_what_else_its_batch_leaves(
    server: DisqueServer, open_transport: Open
) -> None:
    transport = open_transport(server.url)
    publish(transport, job(1), job(2))
    one, two = take(transport)
    push = PushJobs("1", (Push("side", job("side")), Push("closed", job("pushed"))))
    finished = [(one, Dead(job("dead"))), (two, Done(effects=(push,)))]
    with server.client() as client:
        client.execute_command("PAUSE", "closed", "in")
        for number in (1, 1):  # the settler asks again
            dead, refused = transport.settle(SettlementBatch("refused", number, finished))
            assert dead is True
            assert "PAUSED" in str(refused)
        [refused] = transport.settle(SettlementBatch("refused", 2, finished[1:]))
        assert "PAUSED" in str(refused)
        client.execute_command("PAUSE", "closed", "none")
    assert list(transport.settle(SettlementBatch("refused", 3, finished[1:]))) == [True]
    assert [payloads(take(transport, queue)) for queue in ("pyworkers.dead", "side", "closed")] == [
        [job("dead")], [job("side")], [job("pushed")],
    ]  # fmt: skip


def test_a_job_that_cannot_be_buried_keeps_the_others_from_nobody(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(f"{server.url}?retry=1")
    transport._poison_limit = 1  # the configuration demands more deliveries, which take a second each
    publish(transport, job(1))
    with server.client() as client:
        client.execute_command("GETJOB", "FROM", "q")  # and its process dies
        client.execute_command("PAUSE", "pyworkers.dead", "in")
        assert eventually(lambda: client.execute_command("QLEN", "q") == 1)
        publish(transport, job(2))
        assert payloads(take(transport, wait_s=0)) == [job(2)]
        client.execute_command("PAUSE", "pyworkers.dead", "none")


def test_what_needs_a_store_is_refused_and_the_job_stays(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(server.url)
    publish(transport, job(1), job(2))
    one, two = take(transport)
    parked, posted = settle(transport, (one, Park("line")), (two, Done(effects=(PostJobs("2", "there", ()),))))
    assert "Disque has no lines of limits" in str(parked)
    assert "partition on Redis" in str(posted)
    assert settle(transport, (one, DONE), (two, DONE)) == [True, True]
    with pytest.raises(BrokerRefused, match="partition on Redis"):
        transport.publish([Push("q", job(1), ties=(BatchTie("b"),))])


def test_jobs_can_be_acknowledged_fast(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(f"{server.url}?ack=fast&retry=1")
    publish(transport, job(1))
    [one] = take(transport)
    assert settle(transport, (one, DONE)) == [True]
    assert settle(transport, (one, DONE)) == [False]
    assert take(transport, wait_s=2.0) == []


def test_the_jobs_of_other_programs_are_kept_by_their_own_retry(
    server: DisqueServer, open_transport: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "KEEP_AT", 0.2)  # so that a busy machine keeps it in time
    transport = open_transport(f"{server.url}?retry=60")
    with server.client() as client:
        client.execute_command("ADDJOB", "q", "theirs", 0, "RETRY", 6)
        client.execute_command("ADDJOB", "q", "at most once", 0, "REPLICATE", 1, "RETRY", 0)
    assert sorted(payloads(take(transport))) == [b"at most once", b"theirs"]
    assert take(transport, wait_s=7.5) == []


def test_a_wake_leaves_nothing_behind(server: DisqueServer, open_transport: Open) -> None:
    transport = open_transport(server.url)
    transport.wake("q")
    assert transport.consume("me", [("q", 9)], 9, 5.0) == []
    publish(transport, job(1))
    assert eventually(lambda: payloads(take(transport)) == [job(1)])
