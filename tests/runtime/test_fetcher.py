from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
import redis as redis_py
from apps import fields, fresh_lease, job, own_app, own_broker, queue, shared, working
from other_machine import other_machine
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues import transport as redis_transport
from goworkers_py.brokers.redis.queues.transport import RedisTransport
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.fetching import fetcher as module
from goworkers_py.runtime.fetching.fetcher import FULL_SERVER_PAUSE_S, Fetcher
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.settling.unsettled import Unsettled
from goworkers_py.wire.message import Message

OWNER_LIST = "queue:q:{}:inprogress"


class Fetching:
    """A fetcher, with the buffer and the unsettled deliveries that it fills."""

    def __init__(
        self, broker: RedisBroker, concurrency: int = 2, prefetch: int | None = 1, lease: Lease | None = None
    ) -> None:
        self.lease = lease or fresh_lease()
        pool = Pool(PoolConfig.of_one(QueueConfig("q", concurrency=concurrency, prefetch=prefetch)))
        self.buffer, self.unsettled, self.prefetch = pool.buffer, pool.unsettled, pool.prefetch
        self.given_back: list[bytes] = []
        self.fetcher = Fetcher(broker.transport, pool, shared(self.lease), self._give_back)
        self.fetcher.room_wait_s = 0.05

    def _give_back(self, deliveries: list[Delivery]) -> None:
        self.given_back += [delivery.payload for delivery in deliveries]
        self.unsettled.remove(deliveries)

    @property
    def list(self) -> str:
        return OWNER_LIST.format(self.lease.identity)

    def buffered(self) -> list[bytes]:
        return [delivery.payload for delivery in self.buffer.take_back()]


def push(redis: redis_py.Redis, *numbers: int) -> list[bytes]:
    raws = [job("J", number) for number in numbers]
    redis.lpush("queue:q", *raws)
    return raws


def test_it_takes_the_oldest_for_which_there_is_room_and_answers_for_them(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    raws = push(redis, 1, 2, 3, 4)
    fetching = Fetching(broker, concurrency=2, prefetch=1)
    assert fetching.fetcher.run_once() == 0
    assert [delivery.payload for delivery in fetching.unsettled.snapshot()] == raws[:3]
    assert redis.lrange(fetching.list, 0, -1) == raws[2::-1]
    assert fetching.buffered() == raws[:3]
    assert queue(redis) == raws[3:]


def test_it_takes_nothing_without_room(broker: RedisBroker, redis: redis_py.Redis) -> None:
    push(redis, 1, 2, 3)
    fetching = Fetching(broker, concurrency=1, prefetch=0)
    for _ in range(3):
        assert fetching.fetcher.run_once() == 0
    assert fetching.buffer.out == 1
    assert redis.llen("queue:q") == 2


def test_it_takes_nothing_while_others_may_think_it_dead(broker: RedisBroker, redis: redis_py.Redis) -> None:
    push(redis, 1)
    fetching = Fetching(broker, lease=Lease(0))
    assert fetching.fetcher.run_once() == FULL_SERVER_PAUSE_S
    assert redis.llen("queue:q") == 1


def test_it_takes_nothing_while_too_many_that_ran_are_unsettled(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_UNSETTLED", 1)
    push(redis, 1, 2, 3, 4)
    fetching = Fetching(broker, concurrency=2, prefetch=0)
    fetching.fetcher.run_once()
    for delivery in fetching.unsettled.snapshot():
        fetching.buffer.done(delivery)
        delivery.stage = Stage.ENDED
    fetching.fetcher.run_once()
    assert redis.llen("queue:q") == 2
    fetching.unsettled.remove(fetching.unsettled.snapshot())
    fetching.fetcher.run_once()
    assert redis.llen("queue:q") == 0


def test_jobs_that_a_refused_fetch_has_moved_are_looked_for_at_once(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """Large jobs are moved by plain commands, which do not look at the lease."""
    jobs = [job("J", "x" * 10_000, jid=str(number)) for number in range(6)]
    redis.lpush("queue:q", *jobs)
    fetching = Fetching(broker, concurrency=2, prefetch=0)
    fetching.fetcher.run_once()
    fetching.unsettled.remove(fetching.unsettled.snapshot())
    redis.delete(fetching.list)
    assert fetching.buffered() == jobs[:2]
    redis.delete(Keys().lease(fetching.lease.identity))
    assert fetching.fetcher.run_once() == FULL_SERVER_PAUSE_S
    redis.set(Keys().lease(fetching.lease.identity), 1)
    fetching.fetcher.run_once()
    assert fetching.buffered() == jobs[2:4]


def test_what_no_link_acknowledged_is_no_reason_to_take_nothing(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_UNSETTLED", 1)
    push(redis, 1, 2, 3, 4)
    fetching = Fetching(broker, concurrency=2, prefetch=0)
    fetching.fetcher.run_once()
    for delivery in fetching.unsettled.snapshot():
        fetching.unsettled.keep(delivery)
        fetching.buffer.done(delivery)
    fetching.fetcher.run_once()
    assert redis.llen("queue:q") == 0
    assert len(fetching.unsettled) == 4


def test_many_that_no_link_acknowledged_are_neither_copied_nor_read_again_and_again(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module, "machine", other_machine(monotonic=lambda: now[0]))
    monkeypatch.setattr(module, "MOST_UNSETTLED", 10)
    monkeypatch.setattr(redis_transport, "MOST_READ_UNCOUNTED", 10)
    fetching = Fetching(broker, concurrency=100, prefetch=0)
    push(redis, *range(100))
    fetching.fetcher.run_once()
    kept = fetching.unsettled.snapshot()
    for delivery in kept:
        fetching.unsettled.keep(delivery)
        fetching.buffer.done(delivery)

    done: list[str] = []
    snapshot = Unsettled.snapshot
    monkeypatch.setattr(Unsettled, "snapshot", lambda unsettled: [done.append("snapshot"), snapshot(unsettled)][1])
    push(redis, 100)
    fetching.fetcher.run_once()
    assert done == [], "each fetch copies what is held"
    now[0] += Fetcher.reconcile_every_s
    push(redis, 101)
    before = lists_read(redis)
    fetching.fetcher.run_once()
    assert (done, lists_read(redis)) == (["snapshot"], before), "the list is read though as many lie there as are known"

    redis.lpush(fetching.list, job("J", "lost"))
    now[0] += Fetcher.reconcile_every_s
    fetching.fetcher.run_once()
    assert fetching.buffered()[-1] == job("J", "lost")
    fetching.unsettled.remove(kept)
    assert fetching.unsettled.kept == 0


def lists_read(redis: redis_py.Redis) -> int:
    return int(redis.info("commandstats").get("cmdstat_lrange", {"calls": 0})["calls"])


@pytest.mark.parametrize("known_under", ["owner", "an older name"])
def test_a_lost_job_among_many_is_found_whatever_else_is_held(
    known_under: str, broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_transport, "MOST_READ_UNCOUNTED", 0)
    fetching = Fetching(broker, concurrency=3, prefetch=0)
    fetching.fetcher.reconcile_every_s = 0.0
    push(redis, 1)
    fetching.fetcher.run_once()
    if known_under != "owner":
        fetching.lease.replace(known_under)
    redis.lpush(fetching.list, job("J", 2))
    fetching.fetcher.run_once()
    assert fetching.buffered() == [job("J", 1), job("J", 2)]


def test_it_takes_nothing_after_stop(broker: RedisBroker, redis: redis_py.Redis) -> None:
    push(redis, 1)
    fetching = Fetching(broker)
    fetching.fetcher.stop()
    fetching.fetcher.stop()
    assert fetching.fetcher.run_once() == 0
    fetching.fetcher.start()
    assert fetching.fetcher.join(Deadline(20))
    assert redis.llen("queue:q") == 1


def test_stop_ends_a_fetch_that_waits_on_the_server(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url, block_s=60) as broker:
        fetching = Fetching(broker)
        fetching.fetcher.start()
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1)
        fetching.fetcher.stop()
        assert fetching.fetcher.join(Deadline(20))


def test_stop_without_a_server_is_quiet(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with own_broker(own_redis.url) as broker:
        fetching = Fetching(broker)
        fetching.fetcher.start()
        client = own_redis.client()
        assert eventually(lambda: client.info("clients")["blocked_clients"] == 1)
        own_redis.kill()
        fetching.fetcher.stop()
        assert fetching.fetcher.join(Deadline(20))
    assert [record.levelname for record in caplog.records if record.levelno > logging.ERROR] == []


def test_what_cannot_be_woken_ends_by_itself(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(transport: RedisTransport, queue: str) -> None:
        raise BrokerUnavailable("gone")

    monkeypatch.setattr(RedisTransport, "wake", unreachable)
    with caplog.at_level(logging.DEBUG, "goworkers_py"):
        Fetching(broker).fetcher.stop()
    assert caplog.messages == ["cannot wake fetcher:q; its fetch ends by itself"]


def test_a_full_server_is_emptied_all_the_same(own_redis: RedisServer) -> None:
    client = own_redis.client()
    with own_broker(own_redis.url) as broker:
        fetching = Fetching(broker)
        client.set(Keys().lease(fetching.lease.identity), 1)
        client.config_set("maxmemory", "1")
        assert fetching.fetcher.run_once() == FULL_SERVER_PAUSE_S  # no error line: it is no outage for a fetcher
        client.config_set("maxmemory", "0")
        raws = push(client, 1, 2)
        client.config_set("maxmemory", "1")
        fetching.fetcher.run_once()
        assert fetching.buffered() == raws


def test_jobs_whose_reply_was_lost_are_run_oldest_first(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    fetching = Fetching(broker, concurrency=2, prefetch=1)
    known = push(redis, 1)
    fetching.fetcher.run_once()
    lost = [job("J", number) for number in (2, 3)]
    redis.lpush(fetching.list, *lost)
    push(redis, 4)
    fetching.fetcher.after_failure()
    fetching.fetcher.run_once()
    assert fetching.buffered() == known + lost
    assert queue(redis) == [job("J", 4)]  # there was no room left for it
    assert "queue q: 2 jobs were fetched but their reply was lost; running them" in caplog.text
    fetching.fetcher.after_failure()
    fetching.fetcher.run_once()
    assert fetching.buffered() == [job("J", 4)]


def test_equal_payloads_are_told_apart_by_their_number(broker: RedisBroker, redis: redis_py.Redis) -> None:
    fetching = Fetching(broker, concurrency=5)
    push(redis, 7, 7)
    fetching.fetcher.run_once()
    redis.lpush(fetching.list, job("J", 7))
    fetching.fetcher.after_failure()
    push(redis, 8)
    fetching.fetcher.run_once()
    assert fetching.buffered() == [job("J", 7)] * 3 + [job("J", 8)]


def test_a_reply_that_comes_while_stopping_is_given_back(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one worker is busy, so what the late reply brings is unstarted."""
    fetched, stopping, release = threading.Event(), threading.Event(), threading.Event()
    consume = RedisTransport.consume

    def slow_reply(self: RedisTransport, *asked: Any, **how: Any) -> list[Delivery]:
        deliveries = consume(self, *asked, **how)
        if deliveries and b"late" in deliveries[0].payload:
            fetched.set()
            stopping.wait(20)
        return deliveries

    def run(message: Message) -> None:
        release.wait(20)

    monkeypatch.setattr(RedisTransport, "consume", slow_reply)
    with own_app(redis_url, QueueConfig("q", concurrency=1, prefetch=1), timeout=20) as app:
        app.registry.handle("q", run)
        launcher = app.runner.launcher()
        launcher.start(threading.Event())
        app.enqueue("q", "J", ["first"])
        assert eventually(lambda: len(launcher.health.running) == 1)
        late = app.enqueue("q", "J", ["late"])
        assert fetched.wait(20)
        launcher.quiet()
        stopping.set()
        stop = threading.Thread(target=launcher.stop)
        stop.start()
        assert eventually(lambda: fields(queue(redis), "jid") == [late])
        release.set()
        stop.join()
    assert fields(queue(redis), "jid") == [late]
    assert redis.get("stat:processed") == b"1"


def most_out(redis_url: str, workers: int, prefetch: int | None, seconds: float, jobs: int) -> int:
    """The most that were taken from the queue and not finished, at any moment that a job could see."""
    outs: list[int] = []
    finished: list[int] = []

    def run(message: Message) -> None:
        taken = jobs - client.llen("queue:q")
        outs.append(taken - len(finished))  # read in this order it can only be too small
        time.sleep(seconds)
        finished.append(1)

    queues = QueueConfig("q", concurrency=workers, prefetch=prefetch)
    with own_app(redis_url, queues) as app, redis_py.Redis.from_url(redis_url) as client:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[number] for number in range(jobs)])
        with working(app):
            assert eventually(lambda: len(finished) == jobs)
    return max(outs)


@pytest.mark.parametrize(("workers", "prefetch", "seconds"), [(3, 0, 0.002), (1, 0, 0), (3, None, 0.1)])
def test_no_more_is_taken_than_workers_are_free(
    workers: int, prefetch: int | None, seconds: float, redis_url: str
) -> None:
    assert most_out(redis_url, workers, prefetch, seconds, jobs=12 if seconds == 0.1 else 100) <= workers


def test_a_fixed_prefetch_is_taken_beyond_the_workers_and_not_passed(redis_url: str) -> None:
    assert 2 < most_out(redis_url, 2, 5, 0.002, jobs=100) <= 2 + 5


def test_short_jobs_are_taken_ahead_by_themselves(redis_url: str) -> None:
    assert most_out(redis_url, 1, None, 0, jobs=500) > 1


# --- jobs that wait behind long ones


def learn_that_jobs_are_short(fetching: Fetching) -> None:
    for _ in range(50):
        fetching.prefetch.record(0.001)


def test_jobs_that_wait_behind_long_ones_are_given_back_and_none_is_held_until_one_ends(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    raws = push(redis, *range(12))
    fetching = Fetching(broker, concurrency=2, prefetch=None)
    learn_that_jobs_are_short(fetching)
    fetching.fetcher.run_once()
    assert len(fetching.buffer) == 12
    taken = [fetching.buffer.get() for _ in range(2)]
    fetching.fetcher.run_once()
    assert fetching.given_back == raws[2:]
    push(redis, 100, 101)
    fetching.fetcher.run_once()
    assert len(fetching.buffer) == 0, "short jobs are held again, though nothing has ended"
    fetching.buffer.done(taken[0])
    fetching.fetcher.run_once()
    assert len(fetching.buffer) > 0


def test_what_is_on_its_way_when_the_queue_is_paused_goes_back_past_the_workers(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    raws = push(redis, 1, 2)
    fetching, consume, passed = Fetching(broker), RedisTransport.consume, []

    def paused_meanwhile(self: RedisTransport, *asked: Any, **how: Any) -> list[Delivery]:
        fetched = consume(self, *asked, **how)
        fetching.fetcher.pause("q")
        return fetched

    monkeypatch.setattr(RedisTransport, "consume", paused_meanwhile)
    monkeypatch.setattr(fetching.buffer, "put", passed.extend)
    fetching.fetcher.run_once()
    assert fetching.given_back == raws
    assert passed == []


def test_what_is_put_into_the_buffer_while_the_queue_is_paused_is_given_back(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pausing thread has drained the buffer before the fetcher puts these jobs into it."""
    raws = push(redis, 1, 2)
    fetching = Fetching(broker)
    put = fetching.buffer.put

    def paused_before(deliveries: list[Delivery]) -> None:
        fetching.fetcher.pause("q")
        assert fetching.buffered() == []
        put(deliveries)

    monkeypatch.setattr(fetching.buffer, "put", paused_before)
    fetching.fetcher.run_once()
    assert fetching.given_back == raws
    assert fetching.buffered() == []


def run_once_while_it_ends(fetching: Fetching, delivery: Delivery) -> None:
    """The delivery ends when the fetcher begins to wait for room. Another thread may be too late for that: the fetcher
    waits for milliseconds."""
    room = fetching.buffer.room

    def ends(timeout_s: float, at_least: int = 1) -> int:
        fetching.buffer.done(delivery)
        return room(timeout_s, at_least)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetching.buffer, "room", ends)
        fetching.fetcher.run_once()


def test_jobs_that_wait_while_others_end_stay(broker: RedisBroker, redis: redis_py.Redis) -> None:
    push(redis, *range(12))
    fetching = Fetching(broker, concurrency=1, prefetch=None)
    learn_that_jobs_are_short(fetching)
    fetching.fetcher.run_once()
    taken = fetching.buffer.get()
    assert taken is not None
    run_once_while_it_ends(fetching, taken)
    assert fetching.given_back == []


def test_when_jobs_have_become_longer_what_was_fetched_for_short_ones_is_given_back(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    raws = push(redis, *range(40))
    fetching = Fetching(broker, concurrency=1, prefetch=None)
    learn_that_jobs_are_short(fetching)
    fetching.fetcher.run_once()
    assert len(fetching.buffer) == 21
    for ended in range(2):  # the jobs take 10 ms now, so two are to be held
        taken = fetching.buffer.get()
        assert taken is not None
        for _ in range(50):
            fetching.prefetch.record(0.01)
        run_once_while_it_ends(fetching, taken)
        assert fetching.given_back == raws[3:21], f"after {ended + 1} jobs"


def test_a_fixed_prefetch_is_held_whatever_runs(broker: RedisBroker, redis: redis_py.Redis) -> None:
    push(redis, 1, 2, 3)
    fetching = Fetching(broker, concurrency=1, prefetch=2)
    for _ in range(3):
        fetching.fetcher.run_once()
    assert len(fetching.buffer) == 3
    assert fetching.given_back == []


def test_a_process_whose_threads_are_all_in_long_jobs_leaves_the_short_ones_to_the_others(
    redis_url: str, redis: redis_py.Redis
) -> None:
    gate = threading.Event()
    ran: list[str] = []

    def run(message: Message) -> None:
        if message.args == ["long"]:
            gate.wait(30)
        else:
            ran.append(message.jid)

    two, ten = QueueConfig("q", concurrency=2), QueueConfig("q")
    with own_app(redis_url, two, timeout=20) as app, own_app(redis_url, ten) as other:
        app.registry.handle("q", run)
        other.registry.handle("q", run)
        with working(app):
            app.enqueue_bulk("q", "J", [["short"]] * 300)
            assert eventually(lambda: len(ran) == 300)
            app.enqueue_bulk("q", "J", [["long"], ["long"], *[["short"]] * 40])
            assert eventually(lambda: redis.llen("queue:q") == 40), "prefetched, and held behind the long ones"
            with working(other):
                assert eventually(lambda: len(ran) == 340)
            gate.set()
    assert not redis.exists("retry", "queue:q")


def test_what_the_last_fetch_took_is_found_after_its_end_though_the_reply_was_lost(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    fetching = Fetching(broker)
    fetching.fetcher.run_once()
    lost = job("J", 1)
    redis.lpush(fetching.list, lost)
    fetching.fetcher.look_once_more()
    assert fetching.buffered() == [], "nothing had gone wrong"
    fetching.fetcher.after_failure()
    fetching.fetcher.look_once_more()
    assert fetching.buffered() == [lost]
