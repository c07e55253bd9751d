"""What the daemon may rely on of any broker, run against each, and what is true of Redis alone.

A broker is made known to the contract by a Site: one server, as the processes see it that share it.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, Protocol

import pytest
import redis as redis_py
from apps import Leased
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts import (
    Batch,
    Beat,
    Broker,
    DeclaredDead,
    Found,
    Presence,
    Push,
    Recovered,
    Settled,
    WaitingSet,
)
from goworkers_py.brokers.redis import broker as redis_broker
from goworkers_py.brokers.redis import leases
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.clock import Clock
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerFull, BrokerRefused, BrokerUnavailable, LeaseGone, PoisonPill
from goworkers_py.core.outcome import DISCARD, DONE, KEEP, REQUEUE, REQUEUE_LAST, Dead, Outcome, Reschedule, Retry
from goworkers_py.core.proc import origin
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.scheduler import Scheduler
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps

OWNER, OTHER = "here:1:aaaa", "there:2:bbbb"
BOTH = (WaitingSet.SCHEDULE, WaitingSet.RETRY)
FAR = 4_000_000_000.0  # in 2096
KEYS = Keys()


class Site(Protocol):
    # A program that makes its own `broker`, of the server that its arguments name.
    program: str
    arguments: list[str]

    def broker(self, machine: str = "") -> Broker:
        """That of one more process, on this machine or, as it tells others, on another one."""

    def set_wait(self, seconds: float) -> None:
        """How long a fetch waits that begins from now on."""

    def let_lease_run_out(self, owner: str) -> None: ...

    def close(self) -> None: ...


class Elsewhere(Leased):
    """That of a process which tells that it runs on `machine`."""

    def __init__(self, connections: Connections, machine: str) -> None:
        super().__init__(connections, KEYS)
        self._told = origin() | {"machine": machine}

    def beat(self, presence: Presence) -> Beat:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leases, "origin", lambda: self._told)
            return super().beat(presence)


class RedisSite:
    program = """
import sys
from goworkers_py.brokers.contracts import Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
broker = RedisBroker(Connections(sys.argv[1]), Keys())
"""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._url: str = request.getfixturevalue("redis_url")
        self._monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        self._stack = ExitStack()
        self.arguments = [self._url]
        self.set_wait(0.1)

    def broker(self, machine: str = "") -> Broker:
        broker = Elsewhere(Connections(self._url), machine) if machine else Leased(Connections(self._url), KEYS)
        self._stack.callback(broker.close)
        return broker

    def set_wait(self, seconds: float) -> None:
        self._monkeypatch.setattr(redis_broker, "BLOCK_S", seconds)

    def let_lease_run_out(self, owner: str) -> None:
        with redis_py.Redis.from_url(self._url) as client:
            assert client.pexpire(KEYS.lease(owner), 1)
            assert eventually(lambda: not client.exists(KEYS.lease(owner)))

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(params=[RedisSite], ids=["redis"])
def site(request: pytest.FixtureRequest, redis_server: str) -> Iterator[Site]:
    # The server is named so that it is there before the test begins: a Site asks for it too late, and it would look
    # like something that the test has left behind.
    with closing(request.param(request)) as site:
        yield site


@pytest.fixture
def broker(site: Site) -> Broker:
    return site.broker()


def job(name: object, queue: str = "q", **fields: Any) -> bytes:
    return payload.write({"class": "Job", "args": [name], "queue": queue, **fields})


def push(broker: Broker, *payloads: bytes, queue: str = "q") -> None:
    broker.push([Push(queue, raw) for raw in payloads])


def fetch_all(broker: Broker, owner: str = OWNER, queue: str = "q") -> list[bytes]:
    """Whatever the queue holds, moved into the owner's list."""
    fetched: list[bytes] = []
    while raws := broker.fetch(owner, queue, 100):
        fetched += raws
    return fetched


def hold(broker: Broker, *payloads: bytes, owner: str = OWNER, queue: str = "q") -> list[bytes]:
    """Pushes them into a queue that is empty and fetches them."""
    push(broker, *payloads, queue=queue)
    fetched: list[bytes] = []
    while len(fetched) < len(payloads):
        fetched += broker.fetch(owner, queue, len(payloads) - len(fetched))
    return fetched


def beat(broker: Broker, owner: str, queues: Iterable[str] = ("q",), process: str = "") -> Beat:
    return broker.beat(Presence(owner, dict.fromkeys(queues, 10), process))


def as_it_was(found: Found) -> RecoveryDecision:
    """Back into its queue, unchanged."""
    return RecoveryDecision(found.raw)


def recover(broker: Broker, by_lease: bool, owner: str = OWNER) -> list[Recovered]:
    return list(broker.recover(owner, as_it_was, proof="" if by_lease else None))


def back(queue: str, owner: str, raw: bytes) -> Recovered:
    return Recovered(queue, owner, raw, RecoveryDecision(raw))


numbers = iter(range(1_000_000))


def batch(*ends: tuple[bytes, Outcome], owner: str = OWNER, queue: str = "q") -> Batch:
    finished = [(Delivery(raw, queue, owner), outcome) for raw, outcome in ends]
    return Batch("settler", next(numbers), queue, finished)


def forward(entry: bytes, now: float) -> tuple[str | None, bytes]:
    try:
        return str(payload.read(entry)["queue"]), payload.splice(entry, {"promoted": True})
    except Exception:
        return None, entry


def promoted(raw: bytes) -> bytes:
    return payload.splice(raw, {"promoted": True})


def promote_all(broker: Broker, most: int = 100) -> int:
    """Everything that is due; returns how many entries were."""
    looked_at = 0
    for waiting in BOTH:
        while step := broker.promote(waiting, forward, most).looked_at:
            looked_at += step
    return looked_at


# --- pushing and fetching


def test_jobs_are_fetched_in_the_order_they_were_pushed(broker: Broker) -> None:
    jobs = [job(n) for n in range(25)]
    push(broker, *jobs[:10])
    push(broker, *jobs[10:20])
    fetched = broker.fetch(OWNER, "q", 7) + broker.fetch(OWNER, "q", 7)
    push(broker, *jobs[20:])
    assert fetched + fetch_all(broker) == jobs


def test_a_fetch_takes_no_more_than_it_was_asked_for(broker: Broker) -> None:
    push(broker, *map(job, range(5)))
    assert [len(broker.fetch(OWNER, "q", 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_fetch_of_very_many_brings_a_part_and_the_next_one_goes_on(broker: Broker) -> None:
    """A script cannot give a command as many arguments as there may be room for."""
    jobs = [job(n) for n in range(12_000)]
    push(broker, *jobs)
    taken: list[bytes] = []
    while len(taken) < len(jobs):
        part = broker.fetch(OWNER, "q", 10_000)
        assert len(part) > 1, "one by one, though there are many"
        taken += part
    assert taken == jobs
    assert broker.held(OWNER, "q") == jobs[::-1]


@pytest.mark.parametrize("sizes", [(2_000, 2_000, 2_000), (2_000, 1, 1), (1, 2_000, 1), (1, 1, 1)])
def test_large_and_small_jobs_are_fetched_together_and_in_order(broker: Broker, sizes: tuple[int, ...]) -> None:
    jobs = [job(n, filler="x" * size) for n, size in enumerate((*sizes, 1))]
    push(broker, *jobs)
    assert broker.fetch(OWNER, "q", 3) == jobs[:3]
    assert broker.held(OWNER, "q") == jobs[2::-1]
    assert broker.fetch(OWNER, "q", 3) == jobs[3:]


def test_a_fetch_that_cannot_write_into_the_list_of_its_owner_takes_nothing(
    broker: Broker, redis: redis_py.Redis
) -> None:
    push(broker, job(1), job(2))
    redis.set(KEYS.inprogress("q", OWNER), "broken")
    with pytest.raises(BrokerRefused, match="is a string"):
        broker.fetch(OWNER, "q", 2)
    assert redis.lrange(KEYS.queue("q"), 0, -1) == [job(2), job(1)]


def test_what_was_fetched_is_held_by_its_owner_and_nobody_else(broker: Broker) -> None:
    push(broker, *map(job, range(3)))
    push(broker, job("m"), queue="mail")
    fetched = broker.fetch(OWNER, "q", 2)
    assert list(reversed(broker.held(OWNER, "q"))) == fetched
    assert broker.held(OTHER, "q") == broker.held(OWNER, "mail") == []


def test_two_processes_do_not_get_the_same_job(site: Site) -> None:
    brokers = [site.broker() for _ in range(4)]
    jobs = [job(n) for n in range(500)]
    push(brokers[0], *jobs)
    with ThreadPoolExecutor(4) as pool:
        taken = pool.map(fetch_all, brokers, [f"owner{n}" for n in range(4)])
    assert sorted(raw for one in taken for raw in one) == sorted(jobs)


@pytest.mark.parametrize(
    "raw", [b"", b"\xff\x00\r\n", "é✓".encode(), b"x" * 5_000_000], ids=["empty", "any", "é", "5 MB"]
)
def test_every_payload_comes_as_it_was_pushed(broker: Broker, raw: bytes) -> None:
    push(broker, raw)
    assert broker.fetch(OWNER, "q", 1) == broker.held(OWNER, "q") == [raw]
    assert broker.settle(batch((raw, DONE))) == [True]


def test_a_job_that_was_pushed_twice_is_two_jobs(broker: Broker) -> None:
    push(broker, job(1), job(1))
    assert fetch_all(broker) == [job(1), job(1)]


def test_a_fetch_that_waits_brings_the_job_that_comes(site: Site, broker: Broker) -> None:
    site.set_wait(30)
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(broker.fetch, OWNER, "q", 5)
        time.sleep(0.1)
        push(site.broker(), job(1))
        assert fetching.result(15) == [job(1)]
    assert broker.held(OWNER, "q") == [job(1)]


def test_a_wake_ends_a_fetch_that_waits_and_no_other(site: Site, broker: Broker) -> None:
    def wake_until_done() -> bool:
        broker.wake("q")
        return mine.done()

    site.set_wait(30)
    with ThreadPoolExecutor(2) as pool:
        mine, others = pool.submit(broker.fetch, OWNER, "q", 5), pool.submit(broker.fetch, OWNER, "mail", 5)
        assert eventually(wake_until_done)
        assert mine.result() == []
        assert not others.done()
        push(broker, job(1), queue="mail")
        assert others.result(15) == [job(1)]


def test_a_wake_where_nothing_was_ever_fetched_does_nothing(broker: Broker) -> None:
    broker.wake("q")


def test_a_job_for_later_is_in_no_queue_until_it_is_promoted(broker: Broker) -> None:
    broker.push([Push("q", job("later"), at=1.0), Push("q", job("now"))])
    assert fetch_all(broker) == [job("now")]
    promote_all(broker)
    assert fetch_all(broker) == [promoted(job("later"))]


# --- settling


@pytest.mark.parametrize(
    ("outcome", "comes_back", "is_retried"),
    [
        (DONE, False, False),
        (DISCARD, False, False),
        (Dead(job("buried")), False, False),
        (REQUEUE, True, False),
        (REQUEUE_LAST, True, False),
        (Retry(1.0, job("again")), False, True),
    ],
)
def test_a_delivery_ends_in_its_outcome(broker: Broker, outcome: Outcome, comes_back: bool, is_retried: bool) -> None:
    push(broker, job(1), job(2))
    broker.fetch(OWNER, "q", 1)
    assert broker.settle(batch((job(1), outcome))) == [True]
    assert broker.held(OWNER, "q") == []
    in_order = [job(2), job(1)] if outcome == REQUEUE_LAST else [job(1), job(2)]
    assert fetch_all(broker) == (in_order if comes_back else [job(2)])
    promote_all(broker)
    assert fetch_all(broker) == ([promoted(job("again"))] if is_retried else [])


def test_a_retry_is_due_at_its_time(broker: Broker) -> None:
    hold(broker, job(1))
    broker.settle(batch((job(1), Retry(time.time() + 100, job("again")))))
    step = broker.promote(WaitingSet.RETRY, forward, 10)
    assert step.looked_at == 0
    assert step.next_in_s == pytest.approx(100, abs=30)


def test_a_delivery_that_is_kept_is_not_for_settling(broker: Broker) -> None:
    with pytest.raises(ValueError, match="kept"):
        broker.settle(batch((job(1), KEEP)))


NOT_KEPT = [DONE, DISCARD, Dead(job("buried")), REQUEUE, REQUEUE_LAST, Retry(1.0, job("again"))]


@pytest.mark.parametrize("outcome", NOT_KEPT)
def test_what_is_no_longer_held_is_left_alone(broker: Broker, outcome: Outcome) -> None:
    push(broker, job("mine"), job("another's"))
    broker.fetch(OWNER, "q", 1)
    broker.fetch(OTHER, "q", 1)
    ends = batch((job("never"), outcome), (job("mine"), DONE), (job("another's"), outcome), (job("mine"), outcome))
    assert broker.settle(ends) == [False, True, False, False]
    assert broker.held(OTHER, "q") == [job("another's")]
    assert promote_all(broker) == 0
    assert fetch_all(broker) == []


def test_the_same_batch_asked_twice_is_done_once(broker: Broker) -> None:
    hold(broker, job(1), job(2), job(3))
    ends = batch((job(1), Retry(1.0, job("again"))), (job(2), REQUEUE), (job("never"), DONE))
    assert [broker.settle(ends) for _ in range(3)] == [[True, True, False]] * 3
    assert broker.held(OWNER, "q") == [job(3)]
    assert fetch_all(broker) == [job(2)]
    assert promote_all(broker) == 1


def test_the_same_batch_asked_again_spares_a_twin_that_was_fetched_since(broker: Broker) -> None:
    push(broker, job(1), job(1))
    broker.fetch(OWNER, "q", 1)
    ends = batch((job(1), DONE))
    broker.settle(ends)
    broker.fetch(OWNER, "q", 1)
    assert broker.settle(ends) == [True]
    assert broker.held(OWNER, "q") == [job(1)]


def test_a_new_batch_ends_a_twin(broker: Broker) -> None:
    hold(broker, job(1), job(1), job(1))
    assert broker.settle(batch((job(1), DONE), (job(1), DONE))) == [True, True]
    assert broker.settle(batch((job(1), DONE))) == [True]
    assert broker.settle(batch((job(1), DONE))) == [False]


def test_batches_of_two_settlers_with_the_same_number_are_two(broker: Broker) -> None:
    hold(broker, job(1), job(2))
    for name in (1, 2):
        finished = [(Delivery(job(name), "q", OWNER), DONE)]
        assert broker.settle(Batch(f"settler {name}", 1, "q", finished)) == [True]


def test_one_batch_may_hold_deliveries_of_several_owners(broker: Broker) -> None:
    push(broker, job(1), job(2), job(1))
    for owner in (OWNER, OTHER, "third:3:c"):
        broker.fetch(owner, "q", 1)
    finished = [(Delivery(job(n), "q", owner), DONE) for n, owner in ((1, OWNER), (2, OWNER), (2, OTHER))]
    assert broker.settle(Batch("settler", next(numbers), "q", finished)) == [True, False, True]
    assert broker.held("third:3:c", "q") == [job(1)]


def test_jobs_given_back_newest_first_run_next_in_their_old_order(broker: Broker) -> None:
    push(broker, *map(job, range(5)))
    fetched = broker.fetch(OWNER, "q", 3)
    broker.settle(batch(*((raw, REQUEUE) for raw in reversed(fetched))))
    assert fetch_all(broker) == [job(n) for n in range(5)]


# --- promoting


@pytest.mark.parametrize("waiting", BOTH)
def test_what_is_due_is_promoted_oldest_first_and_what_is_not_stays(broker: Broker, waiting: WaitingSet) -> None:
    now = time.time()
    entries = {job("b"): now - 1, job("a"): now - 2, job("c"): now + 60, job("mail", "mail"): 5.0}
    put_waiting(broker, waiting, entries)
    step = broker.promote(waiting, forward, 100)
    assert (step.looked_at, step.stuck) == (3, 0)
    assert step.next_in_s == pytest.approx(60, abs=30)
    assert fetch_all(broker) == [promoted(job("a")), promoted(job("b"))]
    assert fetch_all(broker, queue="mail") == [promoted(job("mail", "mail"))]


def put_waiting(broker: Broker, waiting: WaitingSet, entries: dict[bytes, float]) -> None:
    if waiting is WaitingSet.SCHEDULE:
        broker.push([Push("q", entry, at) for entry, at in entries.items()])
        return
    raws = hold(broker, *map(job, range(len(entries))), queue="made up")
    ends = [(raw, Retry(at, entry)) for raw, (entry, at) in zip(raws, entries.items(), strict=True)]
    assert all(broker.settle(batch(*ends, queue="made up")))


def test_nothing_waits_for_nothing(broker: Broker) -> None:
    step = broker.promote(WaitingSet.SCHEDULE, forward, 100)
    assert (step.looked_at, step.stuck, step.next_in_s) == (0, 0, None)


def test_promotion_goes_step_by_step(broker: Broker) -> None:
    put_waiting(broker, WaitingSet.SCHEDULE, {job(n): float(n) for n in range(5)})
    assert [broker.promote(WaitingSet.SCHEDULE, forward, 2).looked_at for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.parametrize("small_ones", [0, 1, 30])
def test_a_fetch_takes_few_large_jobs_at_a_time(broker: Broker, small_ones: int) -> None:
    small = [job(n) for n in range(small_ones)]
    large = [job(n, text="x" * 100_000) for n in range(40)]
    push(broker, *small, *large)
    first = broker.fetch(OWNER, "q", 1_000)
    assert small_ones < len(first) <= small_ones + 12
    assert first + fetch_all(broker) == small + large


def test_promotion_takes_few_large_entries_at_a_time(broker: Broker) -> None:
    large = [payload.splice(job(n), {"args": [n, "x" * 100_000]}) for n in range(35)]
    put_waiting(broker, WaitingSet.SCHEDULE, {raw: float(n) for n, raw in enumerate(large)})
    steps = []
    while not steps or steps[-1].more:
        steps.append(broker.promote(WaitingSet.SCHEDULE, forward, 500))
    assert [step.looked_at for step in steps] == [10, 10, 10, 5]
    assert fetch_all(broker) == [promoted(raw) for raw in large]


def test_promotion_passes_over_as_many_as_it_is_told(broker: Broker) -> None:
    put_waiting(broker, WaitingSet.SCHEDULE, {job(n): float(n) for n in range(5)})
    assert broker.promote(WaitingSet.SCHEDULE, forward, 2, skip=2).looked_at == 2
    assert fetch_all(broker) == [promoted(job(2)), promoted(job(3))]


def test_promotion_follows_the_servers_clock(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    put_waiting(broker, WaitingSet.SCHEDULE, {job("due"): now - 1, job("not yet"): now + 600})
    given: list[float] = []
    for wrong in (now + 86_400, now - 86_400):
        monkeypatch.setattr(time, "time", lambda wrong=wrong: wrong)
        broker.promote(WaitingSet.SCHEDULE, lambda entry, at: given.append(at) or ("q", entry), 10)
    assert given == [pytest.approx(now, abs=30)]
    assert fetch_all(broker) == [job("due")]


def test_an_entry_that_is_no_job_does_not_stand_before_the_others(broker: Broker) -> None:
    put_waiting(broker, WaitingSet.SCHEDULE, {b"no job": 1.0, job("a"): 2.0})
    step = broker.promote(WaitingSet.SCHEDULE, forward, 10)
    assert (step.looked_at, step.stuck, step.next_in_s) == (2, 0, None)
    assert fetch_all(broker) == [promoted(job("a"))]
    assert promote_all(broker) == 0


def test_two_that_promote_at_once_move_each_entry_once(site: Site) -> None:
    count = 2_000
    brokers = [site.broker(), site.broker()]
    for start in range(0, count, 500):
        put_waiting(brokers[0], WaitingSet.SCHEDULE, {job(n): 1.0 + n for n in range(start, start + 500)})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(promote_all, brokers, [50, 70]))
    assert sorted(fetch_all(brokers[0])) == sorted(promoted(job(n)) for n in range(count))


# --- leases


def strand(broker: Broker, *payloads: bytes, owner: str = OTHER, queue: str = "q") -> None:
    """A process registers, fetches, and is not heard of again."""
    beat(broker, owner, [queue])
    assert hold(broker, *payloads, owner=owner, queue=queue) == list(payloads)


def test_a_beat_tells_the_time_of_the_server(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    assert beat(broker, OWNER).server_time == pytest.approx(now, abs=30)


def test_jobs_of_a_living_owner_are_not_recovered(site: Site, broker: Broker) -> None:
    for machine in ("", "another"):
        strand(site.broker(machine), job(1))
        for by_lease in (False, True):
            assert recover(broker, by_lease=by_lease) == []


def test_nobody_recovers_his_own_jobs(site: Site) -> None:
    broker = site.broker("another")
    strand(broker, job(1), owner=OWNER)
    site.let_lease_run_out(OWNER)
    assert recover(broker, by_lease=True) == []
    beat(broker, OWNER)  # a lease that ran out though nobody took the jobs is simply renewed
    assert recover(site.broker(), by_lease=True, owner=OTHER) == []
    assert broker.held(OWNER, "q") == [job(1)]


def test_jobs_of_an_owner_whose_lease_ran_out_go_to_the_back_of_their_queue_in_order(
    site: Site, broker: Broker
) -> None:
    strand(site.broker("another"), *map(job, range(250)))
    push(broker, job("waits"))
    site.let_lease_run_out(OTHER)
    assert recover(broker, by_lease=False) == []
    recovered = recover(broker, by_lease=True)
    assert recovered == [back("q", OTHER, job(n)) for n in range(250)]
    assert broker.held(OTHER, "q") == []
    assert fetch_all(broker) == [job("waits"), *map(job, range(250))]


def test_every_queue_of_a_dead_owner_is_recovered(site: Site, broker: Broker) -> None:
    other = site.broker("another")
    beat(other, OTHER, ["a", "b", "empty"])
    for queue in "ab":
        hold(other, job(queue), owner=OTHER, queue=queue)
    site.let_lease_run_out(OTHER)
    recovered = recover(broker, by_lease=True)
    assert sorted((one.queue, one.raw) for one in recovered) == [("a", job("a")), ("b", job("b"))]


def test_a_list_that_is_none_does_not_keep_the_other_jobs_from_being_recovered(
    site: Site, broker: Broker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    other = site.broker("another")
    beat(other, OTHER, ["a", "b"])
    hold(other, job("b"), owner=OTHER, queue="b")
    redis.set(KEYS.inprogress("a", OTHER), "not a list")
    site.let_lease_run_out(OTHER)
    assert [one.raw for one in recover(broker, by_lease=True)] == [job("b")]
    assert f"jobs of {OTHER} in queue a cannot be recovered: " in caplog.text


@pytest.mark.parametrize("jobs", [3, 250])
def test_who_recovers_is_told_what_can_have_been_begun_and_what_ran_alone(
    site: Site, broker: Broker, jobs: int
) -> None:
    def judge(one: Found) -> RecoveryDecision:
        found.append(one)
        return RecoveryDecision(one.raw)

    other, begun = site.broker("another"), {3: 2, 250: 120}[jobs]
    other.beat(Presence(OTHER, {"q": 1, "mail": 0}, alone="that of an earlier beat"))
    other.beat(Presence(OTHER, {"q": begun, "mail": 1}, alone="abc"))
    hold(other, *map(job, range(jobs)), owner=OTHER)
    site.let_lease_run_out(OTHER)
    found: list[Found] = []
    assert len(list(broker.recover(OWNER, judge, proof=""))) == jobs
    assert found == [Found("q", OTHER, job(n), n < begun, "abc") for n in range(jobs)]


def test_a_recovered_job_goes_where_it_is_judged_to(site: Site, broker: Broker) -> None:
    decisions = {
        job(1): RecoveryDecision(job("changed")),
        job(2): RecoveryDecision(job("buried"), PoisonPill("three times")),
        job(4): RecoveryDecision(job(4)),
    }
    strand(site.broker("another"), *decisions)
    site.let_lease_run_out(OTHER)
    recovered = list(broker.recover(OWNER, lambda found: decisions[found.raw], proof=""))
    assert recovered == [Recovered("q", OTHER, raw, decision) for raw, decision in decisions.items()]
    assert broker.held(OTHER, "q") == []
    assert promote_all(broker) == 0
    assert fetch_all(broker) == [job("changed"), job(4)]


def test_who_was_declared_dead_learns_it_with_his_next_beat_and_ever_after(site: Site, broker: Broker) -> None:
    other = site.broker("another")
    strand(other, job(1))
    site.let_lease_run_out(OTHER)
    recover(broker, by_lease=True)
    for _ in range(2):
        with pytest.raises(DeclaredDead):
            beat(other, OTHER)
    beat(other, "there:2:cccc")
    assert other.settle(batch((job(1), DONE), owner=OTHER)) == [False]


def test_a_job_that_reaches_the_list_of_a_dead_owner_later_is_recovered_too(site: Site, broker: Broker) -> None:
    other = site.broker("another")
    strand(other, job(1))
    site.let_lease_run_out(OTHER)
    recover(broker, by_lease=True)
    assert fetch_all(other, OTHER) == [job(1)]  # it was frozen and wakes in the middle of a fetch
    for by_lease in (False, True):
        assert recover(broker, by_lease=by_lease) == ([] if by_lease else [back("q", OTHER, job(1))])


@contextmanager
def child(site: Site, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own with a `broker`, that has run `code` and waits."""
    program = f"{site.program}\n{code}\nprint('ready', flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-c", program, *site.arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("reaped", [True, False])
def test_jobs_of_a_process_that_ended_on_this_machine_are_recovered_at_once(
    site: Site, broker: Broker, reaped: bool
) -> None:
    push(broker, job(1))
    with child(site, f"broker.beat(Presence({OTHER!r}, {{'q': 1}})); broker.fetch({OTHER!r}, 'q', 1)") as process:
        assert recover(broker, by_lease=False) == []
        process.kill()
        if reaped:
            process.wait()
        assert eventually(lambda: recover(broker, by_lease=False)) == [back("q", OTHER, job(1))]
    assert fetch_all(broker) == [job(1)]


def test_many_who_recover_at_once_recover_each_job_once(site: Site) -> None:
    other = site.broker("another")
    owners = [f"there:{n}:bbbb" for n in range(4)]
    for owner in owners:
        strand(other, *(job(f"{owner}:{n}") for n in range(150)), owner=owner)
        site.let_lease_run_out(owner)
    brokers = [site.broker() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda broker: recover(broker, by_lease=True), brokers))
    recovered = Counter(one.raw for answer in answers for one in answer)
    assert recovered == Counter(job(f"{owner}:{n}") for owner in owners for n in range(150))
    fetched = fetch_all(other)
    assert Counter(fetched) == recovered
    for owner in owners:
        mine = [raw for raw in fetched if owner.encode() in raw]
        assert mine == [job(f"{owner}:{n}") for n in range(150)]


def test_a_farewell_gives_back_what_is_left(broker: Broker) -> None:
    strand(broker, job(1), job(2), owner=OWNER)
    assert list(broker.leave(OWNER)) == [back("q", OWNER, job(1)), back("q", OWNER, job(2))]
    assert broker.held(OWNER, "q") == []
    assert fetch_all(broker) == [job(1), job(2)]


def test_a_job_that_reaches_the_list_of_one_who_left_with_something_on_its_way_is_recovered(
    site: Site, broker: Broker
) -> None:
    beat(broker, OWNER)
    assert not list(broker.leave(OWNER, silent=False))
    with pytest.raises(DeclaredDead):
        beat(broker, OWNER)
    hold(broker, job(1))
    assert recover(site.broker("another"), by_lease=False, owner=OTHER) == [back("q", OWNER, job(1))]


def test_a_farewell_of_one_who_never_came_does_nothing(broker: Broker) -> None:
    assert list(broker.leave(OWNER)) == []


# --- fixed process names


def test_a_name_whose_holder_lives_is_refused_and_names_the_holder(site: Site, broker: Broker) -> None:
    beat(site.broker("another"), OTHER, process="one")
    with pytest.raises(BrokerRefused, match=f"'one' is in use by {OTHER}"):
        beat(broker, OWNER, process="one")
    beat(broker, OWNER, process="two")
    for _ in range(2):
        beat(site.broker("another"), OTHER, process="one")  # its holder goes on


def test_a_refused_process_is_not_registered(site: Site, broker: Broker) -> None:
    beat(site.broker("another"), OTHER, process="one")
    with pytest.raises(BrokerRefused):
        beat(broker, OWNER, process="one")
    assert list(broker.leave(OWNER)) == []


@pytest.mark.parametrize("end", ["lease ran out", "left", "was declared dead"])
def test_a_name_is_free_when_its_holder_has_gone(site: Site, broker: Broker, end: str) -> None:
    other = site.broker("another")
    beat(other, OTHER, process="one")
    if end == "left":
        list(other.leave(OTHER))
    else:
        site.let_lease_run_out(OTHER)
    if end == "was declared dead":
        recover(broker, by_lease=True)
    beat(broker, OWNER, process="one")
    with pytest.raises(DeclaredDead if end == "was declared dead" else BrokerRefused):
        beat(other, OTHER, process="one")


def test_the_name_and_the_jobs_of_a_killed_process_go_to_the_one_that_starts_after_it(
    site: Site, broker: Broker
) -> None:
    push(broker, job(1))
    with child(
        site, f"broker.beat(Presence({OTHER!r}, {{'q': 1}}, 'one')); broker.fetch({OTHER!r}, 'q', 1)"
    ) as process:
        with pytest.raises(BrokerRefused):
            beat(broker, OWNER, process="one")
        process.kill()
    assert recover(broker, by_lease=False) == [back("q", OTHER, job(1))]
    beat(broker, OWNER, process="one")
    assert fetch_all(broker) == [job(1)]


# --- Redis alone


@pytest.fixture
def own_broker(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisBroker]:
    monkeypatch.setattr(redis_broker, "BLOCK_S", 0.1)
    with closing(Leased(Connections(own_redis.url), KEYS)) as broker:
        yield broker


@pytest.fixture
def redis_only(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RedisBroker]]:
    """Makes brokers of the shared server."""
    monkeypatch.setattr(redis_broker, "BLOCK_S", 0.1)
    with ExitStack() as stack:

        def make(keys: Keys = KEYS, **options: Any) -> RedisBroker:
            return stack.enter_context(closing(Leased(Connections(redis_url), keys, **options)))

        yield make


@pytest.fixture
def one(redis_only: Callable[..., RedisBroker]) -> RedisBroker:
    return redis_only()


Trouble = Callable[[redis_py.Redis, int], object]
TROUBLES: dict[str, Trouble] = {
    "READONLY": lambda client, port: client.replicaof("127.0.0.1", port),
    "NOREPLICAS": lambda client, port: client.config_set("min-replicas-to-write", 1),
}
VERBS: list[Callable[[RedisBroker], object]] = [
    lambda broker: push(broker, job(2)),
    lambda broker: broker.fetch(OWNER, "q", 5),
    lambda broker: broker.settle(batch((job(1), DONE))),
    lambda broker: broker.promote(WaitingSet.SCHEDULE, forward, 10),
    lambda broker: beat(broker, OWNER, process="name"),
    lambda broker: recover(broker, by_lease=True, owner="third:3:c"),
    lambda broker: list(broker.leave(OWNER)),
]


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_every_verb_says_that_a_server_cannot_write_now(
    own_broker: RedisBroker, own_redis: RedisServer, trouble: Trouble
) -> None:
    client = own_redis.client()
    strand(own_broker, job(1), owner=OWNER)
    push(own_broker, job(3))
    put_waiting(own_broker, WaitingSet.SCHEDULE, {job(4): 1.0})
    client.delete(KEYS.lease(OWNER))
    before = contents(client)
    trouble(client, own_redis.port)
    for verb in VERBS:
        with pytest.raises(BrokerUnavailable):
            verb(own_broker)
    assert contents(client) == before


def contents(client: redis_py.Redis) -> dict[bytes, object]:
    return {key: client.dump(key) for key in client.scan_iter()}


def test_a_full_server_takes_no_push_and_is_emptied_by_its_workers(
    own_broker: RedisBroker, own_redis: RedisServer
) -> None:
    client = own_redis.client()
    push(own_broker, *map(job, range(8)))
    put_waiting(own_broker, WaitingSet.SCHEDULE, {job("later"): 1.0})
    client.config_set("maxmemory", 1)
    with pytest.raises(BrokerFull):
        push(own_broker, job("more"))
    beat(own_broker, OWNER, process="name")
    fetched = own_broker.fetch(OWNER, "q", 6)
    assert fetched == [job(n) for n in range(6)]
    ends = [DONE, DISCARD, Dead(job("buried")), REQUEUE, Retry(1.0, job("again"))]
    settled = batch(*zip(fetched, ends, strict=False))
    assert own_broker.settle(settled) == own_broker.settle(settled) == [True] * 5
    assert promote_all(own_broker) == 2
    assert [len(list(own_broker.leave(OWNER))), client.llen(KEYS.queue("q"))] == [1, 6]


def test_an_empty_queue_of_a_full_server_is_an_outage_that_ends_with_the_next_job(
    own_broker: RedisBroker, own_redis: RedisServer
) -> None:
    push(own_broker, job(1))
    beat(own_broker, OWNER)
    own_redis.client().rename(KEYS.queue("q"), "aside")
    own_redis.client().config_set("maxmemory", 1)
    for _ in range(3):
        with pytest.raises(BrokerFull):
            own_broker.fetch(OWNER, "q", 5)
    own_redis.client().rename("aside", KEYS.queue("q"))
    assert own_broker.fetch(OWNER, "q", 5) == [job(1)]


def test_scripts_that_the_server_has_forgotten_are_no_matter(one: RedisBroker, redis: redis_py.Redis) -> None:
    for _ in range(2):
        redis.script_flush()
        push(one, job(1))
        assert one.fetch(OWNER, "q", 2) == [job(1)]
        redis.script_flush()
        assert one.settle(batch((job(1), DONE))) == [True]


@pytest.fixture
def proxied(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, RedisBroker]]:
    monkeypatch.setattr(redis_broker, "BLOCK_S", 0.1)
    with Proxy(own_redis.port) as proxy, closing(Leased(Connections(proxy.url), KEYS)) as broker:
        yield proxy, broker


def test_a_push_whose_reply_was_lost_is_not_made_again(
    proxied: tuple[Proxy, RedisBroker], own_redis: RedisServer
) -> None:
    proxy, broker = proxied
    proxy.drop_reply_of(b"EXEC")
    with pytest.raises(BrokerUnavailable):
        push(broker, job(1), job(2))
    assert own_redis.client().lrange(KEYS.queue("q"), 0, -1) == [job(2), job(1)]
    assert proxy.commands[b"EXEC"] == 1


@pytest.mark.parametrize("waits", [False, True])
def test_a_fetch_whose_reply_was_lost_is_not_made_again_and_can_be_found(
    proxied: tuple[Proxy, RedisBroker], waits: bool
) -> None:
    proxy, broker = proxied
    broker.fetch(OWNER, "q", 3)
    push(broker, *map(job, range(5)))
    if not waits:
        broker.fetch(OTHER, "q", 1)  # finds one by waiting; the next one looks for more at once
    name = b"BRPOPLPUSH" if waits else b"EVALSHA"
    sent = proxy.commands[name]
    proxy.drop_reply_of(name)
    with pytest.raises(BrokerUnavailable):
        broker.fetch(OWNER, "q", 3)
    taken = [job(0)] if waits else [job(1), job(2), job(3)]
    assert list(reversed(broker.held(OWNER, "q"))) == taken
    assert proxy.commands[name] == sent + 1
    assert fetch_all(broker, OTHER) == [job(n) for n in range(1 if waits else 4, 5)]


def test_settling_whose_reply_was_lost_can_be_asked_again(
    proxied: tuple[Proxy, RedisBroker], own_redis: RedisServer
) -> None:
    proxy, broker = proxied
    hold(broker, job(1), job(1))
    ends = batch((job(1), Retry(1.0, job("again"))))
    proxy.drop_reply_of(b"EVALSHA", times=2)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            broker.settle(ends)
    assert broker.settle(ends) == [True]
    assert broker.held(OWNER, "q") == [job(1)]
    assert own_redis.client().get(KEYS.processed) == b"1"


def test_a_busy_queue_is_fetched_many_at_a_time_and_an_idle_one_by_waiting(
    own_broker: RedisBroker, own_redis: RedisServer
) -> None:
    def calls() -> dict[str, int]:
        stats = own_redis.client().info("commandstats")
        return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "brpoplpush")}

    push(own_broker, *map(job, range(250)))
    assert [len(own_broker.fetch(OWNER, "q", 100)) for _ in range(4)] == [100, 100, 50, 0]
    assert calls() == {"evalsha": 3, "brpoplpush": 1}
    assert [own_broker.fetch(OWNER, "q", 100) for _ in range(2)] == [[], []]
    assert calls() == {"evalsha": 3, "brpoplpush": 3}
    push(own_broker, job("a"), job("b"), job("c"))
    assert [len(own_broker.fetch(OWNER, "q", 100)) for _ in range(2)] == [1, 2]
    assert calls() == {"evalsha": 4, "brpoplpush": 4}


def test_a_push_names_its_queues_and_is_one_step(one: RedisBroker, redis: redis_py.Redis) -> None:
    with redis.monitor() as monitor:
        one.push([Push("a", b"1"), Push("b", b"2"), Push("a", b"3"), Push("c", b"4", at=7.5)])
        seen = list(iter(lambda: monitor.next_command()["command"], "EXEC"))
    assert seen[seen.index("MULTI") :] == [
        "MULTI", "SADD queues a b", "LPUSH queue:a 1 3", "LPUSH queue:b 2", "ZADD schedule 7.5 4",
    ]  # fmt: skip


# --- Redis alone: settling


@pytest.mark.parametrize(
    ("outcome", "processed", "failed"),
    [
        (DONE, 1, 0),
        (Retry(1.0, b"{}"), 1, 1),
        (Dead(b"{}"), 1, 1),
        (DISCARD, 1, 1),
        (REQUEUE, 0, 0),
        (REQUEUE_LAST, 0, 0),
    ],
)
def test_a_delivery_is_counted_when_it_ends(
    one: RedisBroker, redis: redis_py.Redis, outcome: Outcome, processed: int, failed: int
) -> None:
    push(one, job(1), job(2))
    one.fetch(OWNER, "q", 2)
    one.settle(batch((job(1), outcome), (job(2), outcome), (job("not ours"), outcome)))
    for name, count in (("processed", processed), ("failed", failed)):
        days = redis.keys(f"stat:{name}:????-??-??")
        assert len(days) == bool(count)
        for key in (f"stat:{name}", *days):
            assert int(redis.get(key) or 0) == 2 * count
        for day in days:
            assert 5 * 365 * 86_400 - 60 < redis.ttl(day) <= 5 * 365 * 86_400
        assert redis.ttl(f"stat:{name}") < 0


def test_what_is_recovered_is_not_counted(one: RedisBroker, redis: redis_py.Redis) -> None:
    strand(one, job(1), owner=OWNER)
    list(one.leave(OWNER))
    assert redis.keys("stat:*") == []


def test_what_is_buried_on_recovery_has_failed(one: RedisBroker, redis: redis_py.Redis) -> None:
    decisions = {job(1): RecoveryDecision(job("buried"), PoisonPill("three times")), job(3): RecoveryDecision(job(3))}
    strand(one, *decisions)
    redis.delete(KEYS.lease(OTHER))
    list(one.recover(OWNER, lambda found: decisions[found.raw], proof=""))
    assert (redis.get(KEYS.processed), redis.get(KEYS.failed)) == (b"1", b"1")
    assert redis.zrange(KEYS.dead, 0, -1) == [job("buried")]


def test_days_are_those_of_utc(one: RedisBroker, redis: redis_py.Redis) -> None:
    hold(one, job(1))
    days = [datetime.datetime.now(datetime.timezone.utc).date()]
    one.settle(batch((job(1), DONE)))
    days.append(datetime.datetime.now(datetime.timezone.utc).date())
    assert any(redis.get(f"stat:processed:{day:%Y-%m-%d}") == b"1" for day in days)


def test_a_count_that_cannot_be_counted_holds_nothing_up(one: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set(KEYS.processed, "many")
    hold(one, job(1))
    assert one.settle(batch((job(1), Dead(job("buried"))))) == [True]
    assert (redis.get(KEYS.failed), redis.zrange(KEYS.dead, 0, -1)) == (b"1", [job("buried")])


def test_retries_and_the_dead_stand_where_sidekiq_looks_for_them(one: RedisBroker, redis: redis_py.Redis) -> None:
    hold(one, job(1), job(2))
    at = 1_700_000_000.1234567
    before = redis.time()
    one.settle(batch((job(1), Retry(at, job("again"))), (job(2), Dead(job("buried")))))
    assert redis.zrange(KEYS.retry, 0, -1, withscores=True) == [(job("again"), at)]
    [(entry, died_at)] = redis.zrange(KEYS.dead, 0, -1, withscores=True)
    assert entry == job("buried")
    assert seconds(before) <= died_at <= seconds(redis.time())


def test_what_is_rescheduled_waits_in_the_schedule_and_counts_as_nothing(
    one: RedisBroker, redis: redis_py.Redis
) -> None:
    hold(one, job(1))
    assert one.settle(batch((job(1), Reschedule(1_700_000_000.5, job("later"))))) == [True]
    assert redis.zrange(KEYS.schedule, 0, -1, withscores=True) == [(job("later"), 1_700_000_000.5)]
    assert redis.keys("stat:*") == []
    assert redis.llen(KEYS.inprogress("q", OWNER)) == 0


def seconds(of_server: tuple[int, int]) -> float:
    return of_server[0] + of_server[1] / 1e6


def test_burying_drops_the_dead_that_are_too_old(redis_only: Callable[..., RedisBroker], redis: redis_py.Redis) -> None:
    broker = redis_only(dead_timeout=1_000)
    now = seconds(redis.time())
    redis.zadd(KEYS.dead, {"too old": now - 1_010, "old": now - 900})
    hold(broker, job(1), job(2), job(3))
    broker.settle(batch((job(1), DONE), (job(2), Retry(1.0, b"{}"))))
    assert redis.zcard(KEYS.dead) == 2  # nothing was buried, so nothing is looked at
    broker.settle(batch((job(3), Dead(job("new")))))
    assert redis.zrange(KEYS.dead, 0, -1) == [b"old", job("new")]


def test_burying_drops_the_oldest_of_too_many_dead(
    redis_only: Callable[..., RedisBroker], redis: redis_py.Redis
) -> None:
    broker = redis_only(dead_max_jobs=3)
    now = seconds(redis.time())
    redis.zadd(KEYS.dead, {"oldest": now - 3, "old": now - 2})
    for name, kept in (("a", [b"oldest", b"old", job("a")]), ("b", [b"old", job("a"), job("b")])):
        hold(broker, job(name))
        broker.settle(batch((job(name), Dead(job(name)))))
        assert redis.zrange(KEYS.dead, 0, -1) == kept
    hold(broker, *map(job, range(5)))
    broker.settle(batch(*((job(n), Dead(job(n))) for n in range(5))))
    assert redis.zrange(KEYS.dead, 0, -1) == [job(2), job(3), job(4)]  # of equal age, by their bytes


@pytest.mark.parametrize(
    ("key", "outcome"),
    [
        (KEYS.retry, Retry(1.0, job("again"))),
        (KEYS.dead, Dead(job("buried"))),
        (KEYS.queue("q"), REQUEUE),
        (KEYS.inprogress("q", OTHER), DONE),
    ],
)
def test_what_cannot_be_put_into_its_place_stays_in_progress_and_its_neighbours_are_settled(
    one: RedisBroker, redis: redis_py.Redis, key: str, outcome: Outcome
) -> None:
    hold(one, *map(job, range(4)))
    redis.set(key, "no list and no set")
    owner = OTHER if outcome is DONE else OWNER
    finished = [(Delivery(job(1), "q", OWNER), DONE), (Delivery(job(2), "q", owner), outcome)]
    finished.append((Delivery(job(3), "q", OWNER), DISCARD))
    first, second, third = one.settle(Batch("settler", next(numbers), "q", finished))
    assert (first, third) == (True, True)
    assert isinstance(second, str)
    assert "WRONGTYPE" in second
    assert f"(key {key})" in second
    assert sorted(one.held(OWNER, "q")) == [job(0), job(2)]
    assert redis.get(KEYS.processed) == b"2"
    redis.delete(key)
    if outcome is not DONE:
        assert one.settle(batch((job(2), outcome))) == [True]


def test_a_score_that_is_no_number_leaves_the_job_in_progress(one: RedisBroker) -> None:
    hold(one, job(1))
    [settled] = one.settle(batch((job(1), Retry(float("nan"), job("again")))))
    assert "not a valid float" in str(settled)
    assert one.held(OWNER, "q") == [job(1)]


def test_a_receipt_does_not_stay_for_ever(one: RedisBroker, redis: redis_py.Redis) -> None:
    one.settle(batch((job(1), DONE)))
    assert 0 < redis.ttl(KEYS.receipt("settler")) <= redis_broker.RECEIPT_LIFE_S


def test_a_requeue_names_its_queue_again(one: RedisBroker, redis: redis_py.Redis) -> None:
    hold(one, job(1))
    redis.delete(KEYS.queues)
    one.settle(batch((job(1), REQUEUE)))
    assert redis.smembers(KEYS.queues) == {b"q"}


# --- Redis alone: promoting


def test_only_the_time_of_enqueueing_changes_on_the_way_into_the_queue(one: RedisBroker, redis: redis_py.Redis) -> None:
    entry = '{"class":"Böse::Job", "args":[1.0e+16,12345678901234567890.10],"enqueued_at":1,"x":{"b":[],"a":{}}'
    entry += ',"queue":"q"}'
    redis.zadd(KEYS.schedule, {entry: 1})
    before = redis.time()
    Scheduler(one, 5, Timestamps(), Clock(), Outage()).run_once()
    [raw] = redis.lrange(KEYS.queue("q"), 0, -1)
    enqueued_at = json.loads(raw)["enqueued_at"]
    assert raw.decode() == entry.replace('"enqueued_at":1', f'"enqueued_at":{enqueued_at!r}').replace(", ", ",")
    assert seconds(before) <= enqueued_at <= seconds(redis.time())
    assert redis.smembers(KEYS.queues) == {b"q"}


def test_a_due_entry_that_is_no_job_goes_to_the_dead_set_as_it_is_forwarded(
    one: RedisBroker, redis: redis_py.Redis
) -> None:
    entry = b"\xff{not json"
    redis.zadd(KEYS.retry, {entry: 1})
    before = redis.time()
    one.promote(WaitingSet.RETRY, forward, 10)
    [(dead, died_at)] = redis.zrange(KEYS.dead, 0, -1, withscores=True)
    assert dead == entry
    assert seconds(before) <= died_at <= seconds(redis.time())
    assert redis.zcard(KEYS.retry) == 0


def test_small_jobs_are_moved_by_two_commands_for_all(one: RedisBroker, redis: redis_py.Redis) -> None:
    push(one, *(job(n) for n in range(500)))
    redis.config_resetstat()
    assert len(one.fetch(OWNER, "q", 500)) == 500
    told = redis.info("commandstats")
    calls = {name: told[f"cmdstat_{name}"]["calls"] for name in ("lpush", "ltrim", "lrange")}
    assert calls.pop("lrange") < 10
    assert calls == {"lpush": 1, "ltrim": 2}  # one of these moves nothing
    assert "cmdstat_rpoplpush" not in told


def test_an_entry_that_cannot_be_moved_stays_and_the_others_go_on(
    one: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.set(KEYS.queue("broken"), "no list")
    redis.set(KEYS.dead, "no set")
    redis.zadd(KEYS.schedule, {job(1, "broken"): 1, "no job": 2, job(2): 3, job(3, "broken"): 4, job(4): 5})
    step = one.promote(WaitingSet.SCHEDULE, forward, 10)
    assert (step.looked_at, step.stuck) == (5, 3)
    assert redis.zrange(KEYS.schedule, 0, -1) == [job(1, "broken"), b"no job", job(3, "broken")]
    assert fetch_all(one) == [promoted(job(2)), promoted(job(4))]
    first, second = caplog.messages  # one line a key, though there are three entries
    assert "WRONGTYPE" in first
    assert "(key dead)" in first
    assert "(key queue:broken)" in second


def test_an_entry_that_somebody_else_took_meanwhile_is_not_moved(one: RedisBroker, redis: redis_py.Redis) -> None:
    def forward_slowly(entry: bytes, now: float) -> tuple[str, bytes]:
        redis.zrem(KEYS.schedule, entry)
        return "q", entry

    redis.zadd(KEYS.schedule, {job(1): 1})
    step = one.promote(WaitingSet.SCHEDULE, forward_slowly, 10)
    assert (step.looked_at, step.stuck) == (1, 0)
    assert fetch_all(one) == []


# --- Redis alone: namespaces


def test_a_namespace_is_a_prefix_of_every_key_and_of_nothing_else(
    redis_only: Callable[..., RedisBroker], redis: redis_py.Redis
) -> None:
    broker = redis_only(Keys("ns"))
    push(broker, *map(job, range(4)))
    broker.push([Push("q", job("later"), at=1.0), Push("q", job("much later"), at=FAR)])
    beat(broker, OWNER, process="name")
    broker.fetch(OWNER, "q", 3)
    broker.settle(batch((job(0), Dead(job("buried"))), (job(1), Retry(FAR, job("again")))))
    broker.promote(WaitingSet.SCHEDULE, forward, 10)
    redis.zadd("ns:retry", {b"no job": 1})
    broker.promote(WaitingSet.RETRY, forward, 10)
    recover(broker, by_lease=True, owner=OTHER)
    assert {key.decode().partition(":")[0] for key in redis.scan_iter()} == {"ns"}
    assert redis.smembers("ns:queues") == {b"q"}
    assert [redis.zcard(f"ns:{name}") for name in ("schedule", "retry", "dead")] == [1, 1, 2]
    assert list(broker.leave(OWNER)) == [back("q", OWNER, job(2))]
    assert {key.decode().partition(":")[0] for key in redis.scan_iter()} == {"ns"}


@pytest.mark.parametrize(
    ("namespace", "named", "queue"), [("ns", "ns:mail", "mail"), ("ns", "mail", "mail"), ("", "ns:mail", "ns:mail")]
)
def test_a_queue_name_into_which_go_workers_leaked_its_namespace_is_found(
    redis_only: Callable[..., RedisBroker], redis: redis_py.Redis, namespace: str, named: str, queue: str
) -> None:
    keys = Keys(namespace)
    broker = redis_only(keys)
    redis.zadd(keys.retry, {job(1, named): 1})
    broker.promote(WaitingSet.RETRY, forward, 10)
    assert redis.smembers(keys.queues) == {queue.encode()}
    assert fetch_all(broker, queue=queue) == [promoted(job(1, named))]


# --- Redis alone: leases


def test_a_lease_lives_for_a_minute_from_each_beat(one: RedisBroker, redis: redis_py.Redis) -> None:
    for _ in range(2):
        beat(one, OWNER, ["a", "b"], process="name")
        assert 50 < redis.ttl(KEYS.lease(OWNER)) <= 60
        redis.expire(KEYS.lease(OWNER), 5)
    entry = json.loads(redis.hget(KEYS.owners, OWNER))
    assert (entry["queues"], entry["origin"]) == ({"a": 10, "b": 10}, origin())
    assert redis.get(KEYS.holder("name")) == OWNER.encode()


def test_a_living_process_is_not_taken_for_dead_when_it_tells_nothing_of_its_machine(
    one: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "origin", dict)
    strand(one, job(1))
    assert recover(one, by_lease=True) == []


def test_the_dead_are_forgotten_in_time(
    one: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    strand(one, job(1))
    redis.delete(KEYS.lease(OTHER))
    recover(one, by_lease=True)
    expected = seconds(redis.time()) + 86_400
    assert float(redis.hget(KEYS.gone, OTHER)) == pytest.approx(expected, abs=30)
    recover(one, by_lease=True)
    assert redis.hexists(KEYS.owners, OTHER)
    redis.hset(KEYS.gone, OTHER, 1)
    recover(one, by_lease=True)
    assert not redis.exists(KEYS.owners, KEYS.gone)


def test_the_dead_are_not_forgotten_while_their_jobs_cannot_be_moved(
    one: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    beat(one, OTHER, ["broken", "q"])
    for queue in ("broken", "q"):
        hold(one, job(1), owner=OTHER, queue=queue)
    redis.delete(KEYS.lease(OTHER))
    redis.set(KEYS.queue("broken"), "no list")
    assert recover(one, by_lease=True) == [back("q", OTHER, job(1))]
    assert "queue broken cannot be recovered: WRONGTYPE" in caplog.text
    redis.hset(KEYS.gone, OTHER, 1)
    assert recover(one, by_lease=True) == []
    assert one.held(OTHER, "broken") == [job(1)]
    redis.delete(KEYS.queue("broken"))
    assert recover(one, by_lease=True) == [back("broken", OTHER, job(1))]
    recover(one, by_lease=True)
    assert not redis.exists(KEYS.owners, KEYS.gone)


def test_a_farewell_ends_a_fetch_that_still_waits(
    one: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_broker, "BLOCK_S", 30)
    beat(one, OWNER)
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(one.fetch, OWNER, "q", 1)
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1)
        list(one.leave(OWNER))
        with pytest.raises(BrokerUnavailable):
            fetching.result(15)
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 0)
    push(one, job(1))
    assert one.held(OWNER, "q") == []
    expected = seconds(redis.time()) + 86_400
    assert float(redis.hget(KEYS.gone, OWNER)) == pytest.approx(expected, abs=30), "its fetch may still arrive"


@pytest.mark.parametrize("cut_short", [False, True])
def test_a_farewell_leaves_nothing_behind_but_for_what_may_come_late(
    own_redis: RedisServer, own_broker: RedisBroker, cut_short: bool
) -> None:
    redis = own_redis.client()
    beat(own_broker, OWNER, process="name")
    hold(own_broker, job(1))
    if cut_short:
        own_redis.pause()
        with ThreadPoolExecutor(1) as pool:
            fetching = pool.submit(own_broker.fetch, OWNER, "q", 1)
            own_redis.kill()
            with pytest.raises(BrokerUnavailable):
                fetching.result(15)
        own_redis.start()
        beat(own_broker, OWNER)
    assert list(own_broker.leave(OWNER)) == [back("q", OWNER, job(1))]
    assert redis.exists(KEYS.owners, KEYS.gone) == (2 if cut_short else 0)
    assert not redis.exists(KEYS.lease(OWNER))


def test_a_process_whose_lease_is_gone_fetches_nothing_until_its_next_beat(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with closing(RedisBroker(Connections(redis_url), KEYS)) as broker:
        push(broker, job(1))
        with pytest.raises(LeaseGone):
            broker.fetch(OWNER, "q", 1)
        assert redis.llen(KEYS.queue("q")) == 1
        beat(broker, OWNER)
        assert broker.fetch(OWNER, "q", 1) == [job(1)]
        redis.delete(KEYS.lease(OWNER))
        with pytest.raises(LeaseGone):
            broker.fetch(OWNER, "q", 1)


def test_what_ruby_cannot_read_does_not_wait_in_the_schedule(one: RedisBroker, redis: redis_py.Redis) -> None:
    raw = b'{"class":"J","args":["\\ud800"],"jid":"j1"}'
    [fetched] = hold(one, raw)
    assert one.settle(batch((fetched, Reschedule(2.0**40, raw)))) == [True]
    assert not redis.exists(KEYS.schedule, KEYS.dead, KEYS.processed)
    assert redis.lrange(KEYS.queue("q"), 0, -1) == [raw]


def test_a_process_that_waits_for_jobs_of_a_server_that_has_forgotten_it_is_given_none(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server came back with a state from before the process began: nobody would look into its list."""
    monkeypatch.setattr(redis_broker, "BLOCK_S", 1)
    client = own_redis.client()
    with closing(RedisBroker(Connections(own_redis.url), KEYS)) as broker:
        beat(broker, OWNER)
        assert broker.fetch(OWNER, "q", 1) == []  # from here on it waits
        client.flushall()
        client.client_kill_filter(_type="normal", skipme=True)
        push(broker, job(1))
        for _ in range(3):
            with suppress(BrokerUnavailable):
                assert broker.fetch(OWNER, "q", 1) == []
        assert client.llen(KEYS.queue("q")) == 1
        beat(broker, OWNER)
        assert eventually(lambda: broker.fetch(OWNER, "q", 1) == [job(1)])


def test_nobody_is_declared_dead_by_a_server_that_came_back_with_an_older_state(
    one: RedisBroker, redis: redis_py.Redis
) -> None:
    beat(one, OWNER)
    before = redis.get(KEYS.lease(OWNER))
    beat(one, OWNER)
    strand(one, job(1), owner=OTHER)
    proof = beat(one, OWNER).proof  # one broker counts the beats of one process
    for lease in (before, None):
        redis.delete(KEYS.lease(OTHER), KEYS.lease(OWNER))
        if lease is not None:
            redis.set(KEYS.lease(OWNER), lease)
        assert list(one.recover(OWNER, as_it_was, proof)) == []
    known_now = beat(one, OWNER)
    assert not known_now.kept
    assert list(one.recover(OWNER, as_it_was, proof)) == [], "who asks does not know of that beat"
    assert list(one.recover(OWNER, as_it_was, known_now.proof)) == [back("q", OTHER, job(1))]


def test_a_proof_that_is_old_by_the_servers_clock_makes_nobody_dead(one: RedisBroker, redis: redis_py.Redis) -> None:
    """The clock was set forward, or all of this machine stood still: other leases may have run out for that."""
    strand(one, job(1), owner=OTHER)
    proof = beat(one, OWNER).proof
    redis.delete(KEYS.lease(OTHER))
    one._leases._heard[OWNER] -= leases.LEASE_S / 2
    assert list(one.recover(OWNER, as_it_was, proof)) == []
    assert list(one.recover(OWNER, as_it_was, beat(one, OWNER).proof)) == [back("q", OTHER, job(1))]


def test_a_look_for_the_dead_takes_no_step_for_each_of_the_living(one: RedisBroker, redis: redis_py.Redis) -> None:
    """It must be over before the next beat, also where the server is far away."""

    def scripts() -> int:
        return int(redis.info("commandstats")["cmdstat_evalsha"]["calls"])

    for number in range(50):
        beat(one, f"h:{number}:{'a' * 12}")
    proof = beat(one, OWNER).proof
    before = scripts()
    assert list(one.recover(OWNER, as_it_was, proof)) == []
    assert scripts() == before


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"no json",
        b"[]",
        b"7",
        b'{"v":2}',
        b"{}",
        b'{"queues":[]}',
        b'{"queues":{"\\ud800":1}}',
        b"\xff",
        b'{"v":[]}',
    ],
)
def test_an_owner_of_an_unknown_shape_is_left_alone_and_stops_nobodys_recovery(
    one: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture, entry: bytes
) -> None:
    strand(one, job(1))
    redis.delete(KEYS.lease(OTHER))
    redis.hset(KEYS.owners, mapping={"later:1:x": entry, b"\xff\xfe": entry})
    redis.hset(KEYS.gone, "later:1:x", "no number")
    assert recover(one, by_lease=True) == [back("q", OTHER, job(1))]
    assert recover(one, by_lease=True) == []
    assert redis.hget(KEYS.owners, "later:1:x") == entry
    assert sum("entries this release cannot read" in message for message in caplog.messages) == 1
    assert len(one.workers()) == 0


THIRD = "there:3:cccccccccccc"  # in the shape of an identity, after which a key may be called


class Deaths:
    """Processes that run a suspect alone and are not heard of again, and the names that a judge is told then."""

    def __init__(self, one: RedisBroker, redis: redis_py.Redis) -> None:
        self._one, self._redis = one, redis
        self.told: dict[str, str] = {}

    def begin(self, owner: str, name: str = "") -> None:
        """It runs the suspect of that name alone, if any."""
        self._one.beat(Presence(owner, {"q": 1}))
        self._one.beat(Presence(owner, {"q": 1}, alone=name))
        hold(self._one, job(name), owner=owner)

    def die(self, owner: str, name: str = "") -> None:
        self.begin(owner, name)
        self._redis.delete(KEYS.lease(owner))

    def age(self, owner: str, field: str, seconds: float) -> None:
        entry = json.loads(self._redis.hget(KEYS.owners, owner))
        self._redis.hset(KEYS.owners, owner, json.dumps({**entry, field: entry[field] - seconds}))

    def recover(self) -> dict[str, str]:
        list(self._one.recover(OWNER, self._judge, proof=""))
        return self.told

    def _judge(self, found: Found) -> RecoveryDecision:
        self.told[found.owner] = found.alone
        return RecoveryDecision(found.raw)


@pytest.fixture
def deaths(one: RedisBroker, redis: redis_py.Redis) -> Deaths:
    return Deaths(one, redis)


@pytest.mark.parametrize("together", [True, False])
def test_processes_of_one_machine_that_die_together_convict_nobody(
    deaths: Deaths, redis: redis_py.Redis, together: bool
) -> None:
    """They were killed from outside. One that was dead before the other began is no company."""
    deaths.die(OTHER, "first")
    if not together:
        deaths.recover()
        redis.hincrby(KEYS.gone, OTHER, -1)  # whole seconds stand there
    deaths.die(THIRD, "second")
    assert deaths.recover() == ({OTHER: "", THIRD: ""} if together else {OTHER: "first", THIRD: "second"})


def test_a_death_some_seconds_after_another_is_no_common_death(deaths: Deaths, redis: redis_py.Redis) -> None:
    deaths.begin(THIRD, "second")
    deaths.age(THIRD, "began", 100)
    deaths.die(OTHER, "first")
    assert deaths.recover() == {OTHER: "first"}
    redis.hincrby(KEYS.gone, OTHER, -5)
    redis.delete(KEYS.lease(THIRD))
    assert deaths.recover() == {OTHER: "first", THIRD: "second"}


def test_processes_that_died_together_convict_nobody_though_their_jobs_are_judged_later(
    deaths: Deaths, one: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that declared them dead was killed before it moved their jobs."""
    deaths.die(OTHER, "first")
    deaths.die(THIRD, "second")
    for owner in (OTHER, THIRD):
        deaths.age(owner, "began", 100)
    with monkeypatch.context() as patch:
        patch.setattr(one._leases, "_move_all", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            deaths.recover()
    for owner in (OTHER, THIRD):
        redis.hincrby(KEYS.gone, owner, -15)  # the next look
    assert deaths.recover() == {OTHER: "", THIRD: ""}


@pytest.mark.parametrize("finder", ["lives", "is killed"])
@pytest.mark.parametrize("first", [OTHER, THIRD], ids=["the suspect's", "the other's"])
def test_a_machine_that_fails_convicts_nobody_though_the_leases_of_its_processes_end_one_by_one(
    deaths: Deaths, one: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, first: str, finder: str
) -> None:
    deaths.begin(OTHER, "suspect")
    deaths.begin(THIRD)
    for owner in (OTHER, THIRD):
        deaths.age(owner, "began", 1000)
        deaths.age(owner, "heard", leases.LEASE_S + 2)
    redis.delete(KEYS.lease(first))
    with monkeypatch.context() as patch:
        if finder == "lives":
            deaths.recover()
        else:
            patch.setattr(one._leases, "_move_all", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                deaths.recover()
    redis.hincrby(KEYS.gone, first, -12)  # the next look
    for owner in (OTHER, THIRD):
        deaths.age(owner, "heard", 12)
    redis.delete(KEYS.lease(OTHER), KEYS.lease(THIRD))
    assert deaths.recover()[OTHER] == ""


def test_a_process_that_is_heard_of_is_no_company_in_death(deaths: Deaths) -> None:
    deaths.begin(THIRD)
    deaths.die(OTHER, "suspect")
    assert deaths.recover() == {OTHER: "suspect"}


def test_an_owner_tells_when_it_began_and_when_it_was_heard_of_last(one: RedisBroker, redis: redis_py.Redis) -> None:
    entries = []
    for _ in range(3):
        beat(one, OTHER)
        entries.append(json.loads(redis.hget(KEYS.owners, OTHER)))
    assert [entry["heard"] for entry in entries[:2]] == [0, entries[1]["began"]]
    assert entries[2]["heard"] > entries[2]["began"] == entries[1]["began"]


@pytest.mark.parametrize("found", [False, True], ids=["whose lease lasts", "that was declared dead"])
def test_a_process_that_died_long_before_another_is_no_company_in_death(
    deaths: Deaths, redis: redis_py.Redis, found: bool
) -> None:
    deaths.begin(THIRD)
    deaths.age(THIRD, "began", 10_000)
    deaths.age(THIRD, "heard", leases.SILENT_S + 1)
    if found:
        redis.delete(KEYS.lease(THIRD))
        deaths.recover()
        redis.hincrby(KEYS.gone, THIRD, -3600)
    deaths.die(OTHER, "suspect")
    assert deaths.recover()[OTHER] == "suspect"


@pytest.mark.parametrize("silent_s", [0, leases.SILENT_S + 1], ids=["both found", "both silent"])
def test_deaths_on_two_machines_are_no_common_death(
    deaths: Deaths, monkeypatch: pytest.MonkeyPatch, silent_s: float
) -> None:
    for machine, owner in (("m1", OTHER), ("m2", THIRD)):
        monkeypatch.setattr(leases, "origin", lambda told=machine: {"machine": told, "pid": 1, "started": 1})
        deaths.die(owner, machine)
        deaths.age(owner, "heard", silent_s)
    assert deaths.recover() == {OTHER: "m1", THIRD: "m2"}


def test_the_suspect_that_0_1_0_told_of_is_not_convicted(deaths: Deaths, redis: redis_py.Redis) -> None:
    """Other jobs ran beside it there."""
    deaths.die(OTHER, "suspect")
    entry = json.loads(redis.hget(KEYS.owners, OTHER))
    del entry["v"]
    redis.hset(KEYS.owners, OTHER, json.dumps(entry))
    assert deaths.recover() == {OTHER: ""}


def test_a_recovery_that_is_broken_off_tells_what_it_has_done(
    deaths: Deaths, one: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths.die(OTHER, "first")
    deaths.die(THIRD, "second")
    end, asked = one._leases._end, []

    def break_off(*step: Any) -> list[Settled]:
        asked.append(step)
        if len(asked) == 2:
            raise BrokerUnavailable("timed out")
        return end(*step)

    monkeypatch.setattr(one._leases, "_end", break_off)
    recovering = one.recover(OWNER, as_it_was, proof="")
    first = next(recovering)
    with pytest.raises(BrokerUnavailable):
        next(recovering)
    (second,) = recover(one, by_lease=True)
    assert {first.raw, second.raw} == {job("first"), job("second")}


def test_a_process_that_was_declared_dead_leaves_the_fleet_also_when_its_finder_dies(
    one: RedisBroker, redis: redis_py.Redis
) -> None:
    beat(one, THIRD)
    redis.delete(KEYS.lease(THIRD))
    recover(one, by_lease=True)
    redis.sadd("processes", THIRD)  # as it is when the finder was killed before the next step
    recover(one, by_lease=True)
    assert not redis.sismember("processes", THIRD)


def test_a_process_name_that_changes_hands_between_the_look_and_the_step_is_looked_at_again(
    one: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(one, OTHER, process="one")
    call, looks = one._connections.call, []

    def too_early(*command: Any) -> Any:
        looks.append(command)
        return None if len(looks) == 1 else call(*command)

    monkeypatch.setattr(one._connections, "call", too_early)
    with pytest.raises(BrokerRefused, match=OTHER):
        beat(one, OWNER, process="one")
    assert len(looks) == 2


def test_a_beat_that_was_overtaken_brings_nothing_back(one: RedisBroker, redis: redis_py.Redis) -> None:
    for name in ("", "j1", ""):
        one.beat(Presence(OWNER, {"q": 1}, alone=name))
    entry = redis.hget(KEYS.owners, OWNER)
    one._leases._beats = 1
    with pytest.raises(BrokerUnavailable, match="overtaken"):
        one.beat(Presence(OWNER, {"q": 1}, alone="j1"))
    assert redis.hget(KEYS.owners, OWNER) == entry


@pytest.mark.parametrize("name", ["pid", "started"])
@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000, "1e999", "true", '"7"', "[]"])
def test_no_number_in_an_owners_origin_stops_a_recovery(
    one: RedisBroker, redis: redis_py.Redis, name: str, number: str
) -> None:
    told = json.dumps(origin() | {name: "?"}).replace('"?"', number)
    redis.hset(KEYS.owners, "odd:1:x", f'{{"v":1,"queues":{{"q":1}},"origin":{told}}}')
    strand(one, job(1))
    redis.delete(KEYS.lease(OTHER))
    assert back("q", OTHER, job(1)) in recover(one, by_lease=True)


def test_the_lists_of_the_dead_and_of_names_do_not_outlive_their_use(one: RedisBroker, redis: redis_py.Redis) -> None:
    """However long nobody looks."""
    beat(one, OTHER, process="name")
    assert 50 < redis.ttl(KEYS.holder("name")) <= 60
    redis.delete(KEYS.lease(OTHER))
    recover(one, by_lease=True)
    assert 86_400 < redis.ttl(KEYS.gone) <= 2 * 86_400


def test_a_job_that_the_judge_stumbles_over_goes_back_and_the_next_is_judged(
    one: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    def judge(found: Found) -> RecoveryDecision:
        if found.raw == job(1):
            raise OverflowError("int too large to convert to float")
        return RecoveryDecision(job("judged"))

    strand(one, job(1), job(2))
    redis.delete(KEYS.lease(OTHER))
    assert [found.decision.payload for found in one.recover(OWNER, judge, proof="")] == [job(1), job("judged")]
    assert "cannot be judged; it goes back to its queue" in caplog.text


def test_closing_ends_every_connection(redis_url: str, redis: redis_py.Redis) -> None:
    broker = RedisBroker(Connections(redis_url), KEYS)
    beat(broker, OWNER)
    push(broker, job(1), job(2))
    broker.fetch(OWNER, "q", 1)
    broker.wake("q")
    broker.close()
    assert eventually(lambda: "pyworkers" not in [client["name"] for client in redis.client_list()])
