from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import (
    fresh_lease,
    guard_around,
    in_progress,
    job,
    own_app,
    own_broker,
    queue,
    shared,
    working,
)
from waiting import eventually

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.home import Home
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.core.outcome import DONE, REQUEUE, Outcome
from goworkers_py.links.chain import Run
from goworkers_py.links.perform import perform
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.poison import PoisonPolicy, name_of
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.runtime.fetching import fetcher
from goworkers_py.runtime.fetching.hand_over import Hand
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.worker import Worker
from goworkers_py.runtime.settling.settlement import Settlement
from goworkers_py.runtime.settling.settler import Settler
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message, current_message

OTHERS = "elsewhere:1:abcdef"


class Working:
    """One worker with its settler, and the ways to give it deliveries."""

    def __init__(self, broker: RedisBroker, redis: redis_py.Redis, chain: Run) -> None:
        self._redis = redis
        self.lease = fresh_lease()
        pool = Pool(PoolConfig.of_one(QueueConfig("q", concurrency=10)))
        self.buffer, self.unsettled = pool.buffer, pool.unsettled
        self.announced: list[str] = []
        self.quarantine = Quarantine(
            PoisonPolicy(),
            self.lease,
            Clock(),
            self.beat,
            lambda delivery: False,
            lambda: self.give_back(self.buffer.take_back()),
        )
        common = shared(self.lease, self.quarantine)
        self.counters = common.counters
        self.settlement = Settlement(broker.transport, pool, common, lambda at: None)
        self.settler = Settler(self.settlement, pool, common)
        guard = guard_around(chain, quarantine=self.quarantine)
        lanes = {"q": Lane("q", guard, RunStats(), Home("test"))}
        self.worker = Worker("worker:q:1", Hand(self.buffer), self.buffer, lanes, self.settlement, common)
        self.worker.pause_after_fault_s = 0.01

    def beat(self) -> None:
        self.announced.append(self.quarantine.announcement())
        self.quarantine.announced(self.announced[-1])

    def give_back(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self.settlement.put(delivery, REQUEUE)

    def fetched(self, *raws: bytes, owner: str = "") -> list[Delivery]:
        owner = owner or self.lease.identity
        self._redis.lpush(f"queue:q:{owner}:inprogress", *raws)
        deliveries = [Delivery(raw, "q", owner) for raw in raws]
        self.unsettled.add(deliveries)
        return deliveries

    def __enter__(self) -> Working:  # noqa: PYI034
        self.worker.start()
        self.settler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.buffer.stop_workers(1)
        assert self.worker.join(Deadline(20))
        self.settler.stop()
        assert self.settler.join(Deadline(20))


@pytest.fixture
def work(redis_url: str, redis: redis_py.Redis) -> Iterator[Callable[[Run], Working]]:
    with own_broker(redis_url) as broker:
        yield lambda chain: Working(broker, redis, chain)


def test_a_single_worker_runs_2000_jobs_in_the_order_of_their_push(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # When the machine pauses, jobs go back, and it may take longer for that than the fetcher waits.
    monkeypatch.setattr(fetcher, "LONGEST_RETURN_S", 30.0)
    seen: list[int] = []
    with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:
        app.registry.handle("q", lambda message: seen.append(message.args[0]))
        app.enqueue_bulk("q", "J", [[number] for number in range(1_500)])
        with working(app):
            for number in range(1_500, 2_000):
                app.enqueue("q", "J", [number])
            assert eventually(lambda: len(seen) == 2_000)
    assert seen == list(range(2_000))
    assert not queue(redis)
    assert not in_progress(redis)
    assert redis.get("stat:processed") == b"2000"


def test_a_job_is_shown_as_running_and_is_current_while_it_runs(work: Callable[[Run], Working]) -> None:
    looks: list[Any] = []

    def chain(message: Message) -> Outcome:
        looks.append((current_message(), at.worker.running))
        return DONE

    at = work(chain)
    (delivery,) = at.fetched(job("J", jid="abc"))
    with at:
        at.buffer.put([delivery])
        assert eventually(lambda: len(at.unsettled) == 0)
    ((current, running),) = looks
    assert current is not None
    assert current.jid == "abc"
    assert running is delivery
    assert 0 <= time.time() - delivery.begun_at < 60
    assert eventually(lambda: at.worker.running is None)
    assert current_message() is None


def test_what_is_no_job_goes_enclosed_to_the_dead_set_and_no_code_sees_it(
    work: Callable[[Run], Working], redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    at = work(lambda message: pytest.fail("it is no job"))
    with at:
        at.buffer.put(at.fetched(b"{not json"))
        assert eventually(lambda: redis.zcard("dead") == 1)
    (enclosing,) = redis.zrange("dead", 0, -1)
    assert enclosure.original(json.loads(enclosing)) == b"{not json"
    assert "queue q: a payload is no job and goes to the dead set: not JSON: " in caplog.text


def test_a_job_that_was_given_to_others_while_it_waited_is_not_run(
    work: Callable[[Run], Working], redis: redis_py.Redis
) -> None:
    at = work(lambda message: pytest.fail("it is somebody else's"))
    theirs = at.fetched(job(), owner=OTHERS)
    with at:
        at.buffer.put(theirs)
        assert eventually(lambda: at.counters.snapshot().get("lost_leases") == 1)
    assert len(at.unsettled) == 0
    assert in_progress(redis) == [job()]


def test_a_fault_in_our_own_links_is_a_failure_of_that_job_and_the_worker_goes_on(
    work: Callable[[Run], Working],
    redis: redis_py.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def chain(message: Message) -> Outcome:
        if message.jid == "bad":
            raise MemoryError("ours")
        return DONE

    at = work(chain)
    bad, good = at.fetched(job(jid="bad"), job(jid="good"))
    with at:
        at.buffer.put([bad, good])
        assert eventually(lambda: not len(at.unsettled))
        assert eventually(lambda: at.buffer.out == 0)  # the fetcher counts on it
    assert not queue(redis)
    assert not in_progress(redis)
    (entry,) = map(json.loads, redis.zrange("retry", 0, -1))
    assert (entry["jid"], entry["error_class"], entry["retry_count"]) == ("bad", "goworkers_py.BrokenOff", 0)
    assert entry["error_message"] == "MemoryError: ours"
    assert redis.get("stat:failed") == b"1"
    assert "run broken off outside of the job's code: MemoryError: ours; to be retried" in caplog.text
    assert not [record for record in caplog.records if record.levelno == logging.CRITICAL]


@pytest.mark.parametrize(("retry", "place"), [(True, "retry"), (0, "dead"), (False, "dead")])
def test_a_run_that_an_exception_from_outside_breaks_off_spends_a_retry(
    retry: Any, place: str, work: Callable[[Run], Working], redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job that is struck each time would run for ever. `retry: false` is about failures of the job's code."""
    ran: list[str] = []
    at = work(lambda message: ran.append(message.jid) or DONE)
    put, strikes = at.settlement.put, [KeyboardInterrupt()]

    def struck(delivery: Delivery, outcome: Outcome) -> None:
        if strikes:
            raise strikes.pop()
        put(delivery, outcome)

    monkeypatch.setattr(at.settlement, "put", struck)
    with at:
        at.buffer.put(at.fetched(job(jid="a", retry=retry)))
        assert eventually(lambda: not len(at.unsettled) and at.buffer.out == 0)
    assert ran == ["a"]
    (entry,) = map(json.loads, redis.zrange(place, 0, -1))
    assert (entry["error_class"], entry["retry_count"]) == ("goworkers_py.BrokenOff", 0)
    assert "how far it got is not known" in entry["error_message"]
    assert not queue(redis)


def test_a_job_that_waits_for_the_lease_is_not_shown_as_running(work: Callable[[Run], Working]) -> None:
    ran = threading.Event()
    at = work(lambda message: ran.set() or DONE)
    at.lease.lapse()
    with at:
        at.buffer.put(at.fetched(job()))
        assert eventually(lambda: len(at.buffer) == 0)  # the worker has it
        assert at.worker.running is None
        at.lease.confirm(awake_and_asleep())
        assert ran.wait(20)


def test_a_worker_that_is_struck_when_its_job_has_ended_is_not_busy_with_it_for_ever(
    work: Callable[[Run], Working], redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def chain(message: Message) -> Outcome:
        ran.append(message.jid)
        return DONE

    at = work(chain)
    done, strikes = at.buffer.done, [KeyboardInterrupt()]

    def struck(delivery: Delivery) -> None:
        if strikes:
            raise strikes.pop()
        done(delivery)

    monkeypatch.setattr(at.buffer, "done", struck)
    with at:
        at.buffer.put(at.fetched(job(jid="a"), job(jid="b")))
        assert eventually(lambda: not len(at.unsettled) and at.buffer.out == 0 and at.worker.running is None)
    assert ran == ["a", "b"]
    assert not queue(redis)


class StrikingQueue:
    """The queue of a settler that strikes whoever has just put something."""

    def __init__(self, inner: Any, strike: Callable[[], None]) -> None:
        self._inner, self._strike = inner, strike

    def put(self, item: Any) -> None:
        self._inner.put(item)
        self._strike()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("where", ["when it lets go of the job", "when it has told the settler"])
def test_a_job_that_was_given_back_for_a_suspect_is_not_run_when_its_worker_is_struck(
    where: str, work: Callable[[Run], Working], redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run elsewhere by then."""
    ran: list[str] = []
    at = work(lambda message: ran.append(message.jid) or DONE)
    at.quarantine.closed = True
    strikes = [KeyboardInterrupt()]

    def strike() -> None:
        at.quarantine.closed = False
        if strikes:
            raise strikes.pop()

    if where == "when it lets go of the job":
        done = at.buffer.done
        monkeypatch.setattr(at.buffer, "done", lambda delivery: (strike(), done(delivery)))
    else:
        monkeypatch.setattr(at.settlement, "_outcomes", StrikingQueue(at.settlement._outcomes, strike))
    with at:
        at.buffer.put(at.fetched(job()))
        assert eventually(lambda: not len(at.unsettled) and at.buffer.out == 0)
    assert not ran
    assert queue(redis) == [job()]


def test_a_retired_worker_takes_no_other_job_whatever_becomes_of_its_own(work: Callable[[Run], Working]) -> None:
    release, seen = threading.Event(), []

    def chain(message: Message) -> Outcome:
        seen.append(message.jid)
        assert release.wait(20)
        raise MemoryError("ours")

    at = work(chain)
    stuck, next_one = at.fetched(job(jid="stuck"), job(jid="next"))
    with at:
        at.buffer.put([stuck, next_one])
        assert eventually(lambda: seen)
        assert at.worker.retire()
        assert at.buffer.out == 1  # only what waits: the stuck one's place is another's
        release.set()
        assert at.worker.join(Deadline(20))
    assert seen == ["stuck"]
    assert at.buffer.out == 1


def test_only_a_suspect_is_announced_before_it_runs(work: Callable[[Run], Working]) -> None:
    seen: list[tuple[str, int]] = []

    def chain(message: Message) -> Outcome:
        seen.append((message.jid, len(at.announced)))
        return DONE

    at = work(chain)
    suspect, other = job(jid="suspect", recovered={"count": 2, "since": 1}), job(jid="other")
    with at:
        at.buffer.put(at.fetched(other, suspect))
        assert eventually(lambda: len(at.unsettled) == 0)
    assert seen == [("other", 0), ("suspect", 1)]
    assert at.announced == [name_of(Message(suspect, "q")), ""]


def test_a_worker_that_ends_closes_its_event_loop(work: Callable[[Run], Working]) -> None:
    loops: list[Any] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    registry = Registry()
    registry.add(JobSpec("J", note))
    at = work(perform(registry))
    with at:
        at.buffer.put(at.fetched(job("J"), job("J", jid="2")))
        assert eventually(lambda: len(at.unsettled) == 0)
        assert not loops[0].is_closed()
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


def test_a_job_that_calls_sys_exit_has_failed_and_its_worker_runs_the_next(
    redis_url: str, redis: redis_py.Redis
) -> None:
    seen: list[int] = []

    def run(message: Message) -> None:
        seen.append(message.args[0])
        if message.args[0] == 0:
            raise SystemExit(3)

    with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:
        app.registry.handle("q", run)
        with working(app):
            app.enqueue_bulk("q", "J", [[0], [1]])
            assert eventually(lambda: redis.get("stat:processed") == b"2")
    assert seen == [0, 1]
    (entry,) = map(json.loads, redis.zrange("retry", 0, -1))
    assert (entry["error_class"], entry["error_message"]) == ("SystemExit", "3")
