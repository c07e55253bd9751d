from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import fields, fresh_lease, guard_around, in_progress, job, own_broker, queue, shared
from gates import Gate
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues.transport import RedisTransport
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.home import Home
from goworkers_py.core.outcome import DONE, REQUEUE, Outcome
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.runtime.fetching import fetcher
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.settling.settlement import LARGEST_BATCH, Settlement
from goworkers_py.runtime.settling.settler import Settler
from goworkers_py.wire.message import Message


class Managing:
    """A manager of queue q whose handler is the test's."""

    def __init__(self, broker: RedisBroker, handler: Callable[[Message], object]) -> None:
        self._broker, self._handler = broker, handler
        self.lease = fresh_lease()
        self.made: list[Manager] = []
        self.pool: Pool  # of the manager that was made last

    def __call__(self, concurrency: int, prefetch: int | None = 0) -> Manager:
        common = shared(self.lease)
        self.pool = pool = Pool(PoolConfig.of_one(QueueConfig("q", concurrency=concurrency, prefetch=prefetch)))

        def chain(message: Message) -> Outcome:
            began = time.monotonic()
            self._handler(message)
            pool.prefetch.record(time.monotonic() - began)
            return DONE

        guard = guard_around(chain, quarantine=common.quarantine)
        settler = Settler(Settlement(self._broker.transport, pool, common, on_later=lambda at: None), pool, common)
        lane = Lane("q", guard, RunStats(), Home("test"))
        self.made.append(Manager(pool, [lane], settler, self._broker.transport, common))
        return self.made[-1]


@pytest.fixture
def managing(redis_url: str) -> Iterator[Callable[[Callable[[Message], object]], Managing]]:
    """Stops what a test that failed has left."""
    made: list[Managing] = []

    def make(handler: Callable[[Message], object]) -> Managing:
        made.append(Managing(broker, handler))
        return made[-1]

    with own_broker(redis_url) as broker:
        yield make
        for manager in (manager for managing in made for manager in managing.made):
            stop(manager, 1)


def stop(manager: Manager, seconds: float = 20) -> int:
    """As the launcher does it."""
    manager.stop_fetching()
    manager.give_back_unstarted(Deadline(seconds))
    manager.stop_workers()
    manager.join_workers(Deadline(seconds))
    manager.give_back_running()
    return len(manager.stop_settling(Deadline(20)))


def push(redis: redis_py.Redis, *jids: str) -> None:
    redis.lpush("queue:q", *(job("J", jid=jid) for jid in jids))


def test_a_manager_is_one_fetcher_n_workers_and_one_settler(managing: Callable[..., Managing], gate: Gate) -> None:
    before = {thread.name for thread in threading.enumerate()}
    manager = managing(gate)(3)
    assert manager.workers_alive == 0
    manager.start()
    began = {thread.name for thread in threading.enumerate()} - before
    assert began == {"fetcher:q", "worker:q:1", "worker:q:2", "worker:q:3", "settler:q"}
    assert (manager.name, manager.concurrency, manager.workers_alive) == ("q", 3, 3)
    assert stop(manager) == 0
    assert manager.workers_alive == 0
    assert not {thread.name for thread in threading.enumerate()} & began


def test_as_many_jobs_run_at_once_as_there_are_workers(
    managing: Callable[..., Managing], gate: Gate, redis: redis_py.Redis
) -> None:
    push(redis, *"abcde")
    manager = managing(gate)(3)
    manager.start()
    assert eventually(lambda: len(gate.running) == 3)
    assert sorted(gate.running) == ["a", "b", "c"]
    gate.open.set()
    assert eventually(lambda: len(gate.ended) == 5)
    stop(manager)
    assert not in_progress(redis)
    assert not queue(redis)


def test_unstarted_jobs_go_back_in_their_order_to_where_they_are_next(
    managing: Callable[..., Managing], gate: Gate, redis: redis_py.Redis
) -> None:
    push(redis, *"abcdefgh")
    manager = managing(gate)(1, prefetch=4)
    manager.start()
    assert eventually(lambda: manager.waiting("q") == 4 and gate.running == ["a"])
    manager.stop_fetching()
    manager.give_back_unstarted(Deadline(20))
    assert manager.waiting("q") == 0
    assert eventually(lambda: fields(queue(redis), "jid") == list("bcdefgh"))
    assert fields(in_progress(redis), "jid") == ["a"]
    gate.open.set()
    stop(manager)
    assert gate.ended == ["a"]
    assert fields(queue(redis), "jid") == list("bcdefgh")


def test_one_thread_keeps_the_order_of_the_queue_also_when_waiting_jobs_go_back(
    managing: Callable[..., Managing], redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, ran, gone_back = RedisTransport.settle, [], []

    def slow_to_return(self: RedisTransport, batch: SettlementBatch) -> list[Settled]:
        if returned := [end for end in batch.finished if end[1] is REQUEUE]:
            gone_back.extend(returned)
            time.sleep(0.1)  # the long job is over before they are back
        return settle(self, batch)

    def mostly_short(message: Message) -> None:
        ran.append(message.jid)
        if int(message.jid) % 100 == 50:
            time.sleep(0.06)

    monkeypatch.setattr(RedisTransport, "settle", slow_to_return)
    # A busy machine may take longer to bring them back than the fetcher waits for it.
    monkeypatch.setattr(fetcher, "LONGEST_RETURN_S", 30.0)
    push(redis, *map(str, range(500)))
    manager = managing(mostly_short)(1, prefetch=None)
    manager.start()
    assert eventually(lambda: len(ran) == 500)
    stop(manager)
    assert gone_back, "no job waited behind a long one"
    assert ran == [str(number) for number in range(500)]


def test_what_still_runs_at_the_deadline_goes_back_before_everything_else_and_its_late_end_does_nothing(
    managing: Callable[..., Managing], gate: Gate, redis: redis_py.Redis
) -> None:
    push(redis, *"abcd")
    manager = managing(gate)(2, prefetch=1)
    manager.start()
    assert eventually(lambda: len(gate.running) == 2 and manager.waiting("q") == 1)
    manager.stop_fetching()
    manager.give_back_unstarted(Deadline(20))
    manager.stop_workers()
    manager.join_workers(Deadline(0.05))
    assert manager.workers_alive == 2
    told = [(delivery.payload, stage) for delivery, stage in manager.give_back_running()]
    assert told == [(job("J", jid="a"), Stage.BEGUN), (job("J", jid="b"), Stage.BEGUN)]
    assert eventually(lambda: fields(queue(redis), "jid") == list("abcd"))
    gate.open.set()
    manager.join_workers(Deadline(20))
    assert not manager.stop_settling(Deadline(20))
    assert sorted(gate.ended) == ["a", "b"]
    assert fields(queue(redis), "jid") == list("abcd")
    assert not redis.exists("stat:processed", "retry", "dead")
    assert not in_progress(redis)


def test_jobs_that_end_just_at_the_deadline_are_settled_once(
    managing: Callable[..., Managing], redis: redis_py.Redis
) -> None:
    """Each job is either done or back in its queue, whoever is faster."""
    both = set()
    for _ in range(20):
        redis.flushdb()
        gate = Gate()
        push(redis, *"abcdefgh")
        manager = managing(gate)(8)
        manager.start()
        assert eventually(lambda gate=gate: len(gate.running) == 8)
        manager.stop_fetching()
        manager.give_back_unstarted(Deadline(20))
        manager.stop_workers()
        gate.open.set()
        given_back = [Message(delivery.payload, "q").jid for delivery, _ in manager.give_back_running()]
        manager.join_workers(Deadline(20))
        assert not manager.stop_settling(Deadline(20))
        assert fields(queue(redis), "jid") == given_back
        assert int(redis.get("stat:processed") or 0) == 8 - len(given_back)
        assert not in_progress(redis)
        both.add(len(given_back))
    assert both != {0}  # else it was no race


def test_what_has_ended_but_is_not_settled_yet_does_not_go_back(
    managing: Callable[..., Managing], gate: Gate, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, settle = threading.Event(), RedisTransport.settle

    def slow(self: RedisTransport, batch: SettlementBatch) -> list[Settled]:
        answer.wait(20)
        return settle(self, batch)

    monkeypatch.setattr(RedisTransport, "settle", slow)
    push(redis, "a", "b")
    manager = managing(gate)(2)
    manager.start()
    assert eventually(lambda: len(gate.running) == 2)
    gate.open.set()
    manager.stop_fetching()
    manager.stop_workers()
    manager.join_workers(Deadline(20))
    assert len(in_progress(redis)) == 2
    assert manager.give_back_running() == []
    answer.set()
    assert not manager.stop_settling(Deadline(20))
    assert redis.get("stat:processed") == b"2"
    assert not queue(redis)


def test_a_fetcher_that_does_not_end_does_not_keep_the_rest_from_stopping(
    managing: Callable[..., Managing],
    gate: Gate,
    redis: redis_py.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Jobs that it still fetches are in progress, and are requeued when the process deregisters."""
    answer = threading.Event()
    consume = RedisTransport.consume

    def hangs(self: RedisTransport, *asked: Any, **how: Any) -> list[Delivery]:
        deliveries = consume(self, *asked, **how)
        answer.wait(20)
        return deliveries

    monkeypatch.setattr(RedisTransport, "consume", hangs)
    push(redis, "late")
    manager = managing(gate)(1)
    manager.start()
    assert eventually(lambda: in_progress(redis))
    try:
        assert stop(manager, seconds=0.2) == 0
        assert "fetcher:q does not end; its last jobs are requeued when this process deregisters" in caplog.text
        assert fields(in_progress(redis), "jid") == ["late"]
        assert gate.running == []
    finally:
        answer.set()
        manager.give_back_unstarted(Deadline(20))


def test_another_worker_takes_the_place_of_one_whose_job_is_stuck(
    managing: Callable[..., Managing], gate: Gate, redis: redis_py.Redis
) -> None:
    manager = managing(gate)(1)
    manager.start()
    assert not manager.replace("worker:q:1")  # it has no job
    push(redis, *"abc")
    assert eventually(lambda: gate.running == ["a"])
    assert manager.stuck_threads({"worker:q:1"}, "q") == 1
    assert manager.replace("worker:q:1")
    assert manager.stuck_threads({"worker:q:1"}, "q") == 0, "the queue has all of its threads again"
    assert not manager.replace("worker:q:1")
    assert not manager.replace("worker:elsewhere:1")
    assert eventually(lambda: gate.running == ["a", "b"])
    assert manager.workers_alive == 2
    assert fields(queue(redis), "jid") == ["c"]
    gate.open.set()
    assert eventually(lambda: len(gate.ended) == 3)
    assert eventually(lambda: manager.workers_alive == 1)
    assert stop(manager) == 0
    assert redis.get("stat:processed") == b"3"
    assert not in_progress(redis)


def test_replaced_workers_leave_the_pool_when_their_job_has_ended(
    managing: Callable[..., Managing], gate: Gate, redis: redis_py.Redis
) -> None:
    make = managing(gate)
    manager = make(1)
    manager.start()
    for number, jid in enumerate("abc", 1):
        push(redis, jid)
        assert eventually(lambda jid=jid: jid in gate.running)  # type: ignore[misc]
        assert manager.replace(f"worker:q:{number}")
    manager.revive()
    assert (manager.workers_alive, manager.begun_at_most("q")) == (4, 4 + LARGEST_BATCH)
    gate.open.set()
    assert eventually(lambda: manager.workers_alive == 1)
    manager.revive()
    push(redis, "d")
    assert eventually(lambda: len(gate.ended) == 4)
    assert stop(manager) == 0
    assert len(make.pool.buffer) == 0, "a word to stop was left for a worker that had ended"


def test_jobs_that_stay_unacknowledged_do_not_stand_in_for_those_that_run(
    managing: Callable[..., Managing], gate: Gate
) -> None:
    """They are the oldest in the list for ever, and what may have been begun is counted from the oldest on."""
    make = managing(gate)
    manager = make(2)
    assert manager.begun_at_most("q") == 2 + LARGEST_BATCH, "short jobs that have ended lie before those that run"
    make.pool.prefetch.record(1.0)
    assert manager.begun_at_most("q") == 2 + 2
    kept = [Delivery(job(jid=jid), "q", "owner") for jid in "abc"]
    make.pool.unsettled.add(kept)
    for delivery in kept:
        make.pool.unsettled.keep(delivery)
    assert manager.begun_at_most("q") == 2 + 3
    make.pool.unsettled.remove(kept)


def test_a_manager_that_never_began_can_be_stopped(managing: Callable[..., Managing], gate: Gate) -> None:
    assert stop(managing(gate)(2)) == 0
