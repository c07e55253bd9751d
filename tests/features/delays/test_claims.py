"""A task between its claim and the begin of its run, and claims whose end or begin is not known for certain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from delaying import Queues
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

import goworkers_py as workers
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.features.delays import redis as delays
from goworkers_py.features.delays.contract import Persistence

Open = Callable[[], Persistence]


@pytest.fixture(params=["memory", "redis", "sqlite"])
def open_kept(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> Iterator[Open]:
    if request.param == "memory":
        kept = workers.MemoryPersistence()
        yield lambda: kept
        return
    with ExitStack() as opened:
        if request.param == "sqlite":
            yield lambda: opened.enter_context(closing(workers.SQLitePersistence(tmp_path / "delays.db")))
        else:
            yield lambda: opened.enter_context(closing(workers.RedisPersistence(redis_url)))


class Gate:
    """An executor that tells what it has begun, and goes on when the test says so."""

    def __init__(self) -> None:
        self.began: list[Any] = []
        self.ended: list[Any] = []
        self._open = threading.Event()

    def __call__(self, params: Any) -> None:
        self.began.append(params)
        assert self._open.wait(20)
        self.ended.append(params)

    def open(self) -> None:
        self._open.set()


def with_one_claimed(queues: Queues, kept: Persistence, gate: Gate) -> workers.DelayQueue:
    """The only thread runs `first`, and `next` is claimed and has not begun."""
    queue = queues.started({"remind": gate}, kept, threads=1)
    queue.push(0, "remind", "first", "first")
    assert eventually(lambda: gate.began == ["first"])
    queue.push(0, "remind", "next", "next")
    timers = queue._timers
    assert timers is not None
    assert eventually(lambda: timers.running == 2)
    time.sleep(0.2)  # the claim itself
    return queue


def know_the_scripts(queue: workers.DelayQueue) -> None:
    """The server knows the scripts from here on, so that a reply that is lost is the answer of one."""
    queue.push(3_600, "remind", "first", "first")
    assert queue.move("first", 3_600)
    assert queue.cancel("first")


def test_a_claimed_task_that_has_not_begun_is_cancelled(queues: Queues, open_kept: Open) -> None:
    gate = Gate()
    queue = with_one_claimed(queues, open_kept(), gate)
    assert queue.cancel("next")
    assert not queue.cancel("first")
    gate.open()
    assert queue.stop(20)
    assert gate.began == ["first"]


def test_a_claimed_task_that_has_not_begun_is_moved(queues: Queues, open_kept: Open) -> None:
    gate = Gate()
    queue = with_one_claimed(queues, open_kept(), gate)
    assert queue.move("next", 3_600)
    assert not queue.move("first", 3_600)
    gate.open()
    assert eventually(lambda: gate.ended == ["first"])
    assert queue.stop(20)
    assert [task.id for task in open_kept().list()] == ["next"]
    assert gate.began == ["first"]


def test_the_end_of_a_run_leaves_the_later_run_that_replaced_it(queues: Queues, open_kept: Open) -> None:
    old, new = Gate(), Gate()
    queue = queues.started({"old": old, "new": new}, open_kept(), threads=2)
    queue.push(0, "old", 1, "a")
    assert eventually(lambda: old.began == [1])
    queue.push(0, "new", 2, "a")
    assert eventually(lambda: new.began == [2])
    old.open()
    assert eventually(lambda: old.ended == [1])
    time.sleep(0.2)
    assert [task.params for task in open_kept().list()] == [2]
    new.open()
    assert eventually(lambda: list(open_kept().list()) == [])


def test_a_claim_whose_reply_was_lost_costs_no_task(queues: Queues, own_redis: RedisServer, short_looks: None) -> None:
    with Proxy(own_redis.port) as proxy:
        ran: list[str] = []
        queue = queues.started({"remind": ran.append}, workers.RedisPersistence(proxy.url))
        know_the_scripts(queue)
        proxy.drop_reply_of(b"EVALSHA " + delays._TAKE.sha.encode())
        queue.push(0.5, "remind", "a", "a")
        assert eventually(lambda: proxy.hits == 1)
        assert eventually(lambda: ran == ["a"])
        assert eventually(lambda: len(queue) == 0)
        assert queue.stop(20)


@pytest.mark.parametrize("script", [delays._TAKE, delays._END], ids=["claim", "save"])
def test_a_move_that_got_no_reply_costs_no_task(
    queues: Queues, own_redis: RedisServer, short_looks: None, script: Script
) -> None:
    with Proxy(own_redis.port) as proxy:
        ran: list[str] = []
        queue = queues.started({"remind": ran.append}, workers.RedisPersistence(proxy.url))
        know_the_scripts(queue)
        queue.push(6, "remind", "a", "a")  # it must not be due before the move
        proxy.drop_reply_of(b"EVALSHA " + script.sha.encode())
        with pytest.raises(workers.BrokerError):
            queue.move("a", 1.5)
        assert proxy.hits == 1
        assert eventually(lambda: ran == ["a"])
        assert eventually(lambda: len(queue) == 0)
        assert queue.stop(20)


def test_a_cancel_of_a_task_that_another_process_runs_says_so(queues: Queues, open_kept: Open) -> None:
    gate = Gate()
    runs = queues.started({"remind": gate}, open_kept())
    if getattr(open_kept(), "claims", None) is None:
        pytest.skip("a persistence of one process")
    other = queues.made({}, open_kept())
    runs.push(0, "remind", "a", "a")
    assert eventually(lambda: gate.began == ["a"])
    assert not other.cancel("a")
    gate.open()


def test_a_step_that_fails_after_some_of_its_tasks_were_claimed_costs_none_of_them(
    queues: Queues, tmp_path: Path, short_looks: None
) -> None:
    """The second of two tasks was replaced while both were claimed, and its claim cannot be given back at once."""
    kept = workers.SQLitePersistence(tmp_path / "delays.db")
    ran: list[Any] = []
    queue = queues.made({"remind": ran.append}, kept)
    real_take, real_end, refused = kept.claims.take, kept.claims.end, list[str]()

    def take(owner: str, claim: str, ids: Any, now: float) -> Any:
        found = real_take(owner, claim, ids, now)
        if len(found) == 2 and not refused:
            queue.push(3_600, "remind", "later", "b")
        return found

    def end(owner: str, claim: str, done: Any, again: Any, free: Any, now: float | None = None) -> Any:
        if free and not refused:
            refused.append(free[0])
            raise BrokerUnavailable("for a moment")
        return real_end(owner, claim, done, again, free, now)

    kept.claims.take, kept.claims.end = take, end  # type: ignore[method-assign]
    queue.push_many([(0, "remind", "a", "a"), (0, "remind", "b", "b")])
    queue.start()
    assert eventually(lambda: ran == ["a"])
    assert refused == ["b"]
    assert eventually(lambda: [task.params for task in queue.pending()] == ["later"])
