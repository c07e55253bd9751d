"""The fetcher of a pool of several queues, on a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
import redis as redis_py
from apps import fields, fresh_lease, job, own_broker, queue, shared
from waiting import eventually

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.waiting_line import WaitingLine
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.pool_consumer import PoolConsumer
from goworkers_py.brokers.redis.queues.transport import RedisTransport
from goworkers_py.config.options import PoolConfig
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.runtime.fetching.fetcher import FULL_SERVER_PAUSE_S
from goworkers_py.runtime.fetching.pool_fetcher import PoolFetcher
from goworkers_py.runtime.pool import Pool

QUEUES = ("critical", "default", "low")
SHARES = {"critical": 42, "default": 21, "low": 7}  # of 70 jobs, with weights 6, 3, 1


class Fetching:
    """A fetcher, with the buffer and the unsettled deliveries that it fills. Deliveries that it gives back are settled,
    and their payloads are in `given_back`."""

    def __init__(
        self,
        broker: RedisBroker,
        concurrency: int = 2,
        prefetch: int | None = 0,
        weights: tuple[int, ...] = (),
    ) -> None:
        config = PoolConfig("web", QUEUES, weights=weights, concurrency=concurrency, prefetch=prefetch)
        self.pool, self.lease = Pool(config), fresh_lease()
        self.buffer = self.pool.buffer
        self.given_back: list[str] = []
        self.shared = shared(self.lease)
        self.fetcher = PoolFetcher(broker.transport, self.pool, self.shared, self._give_back)
        self.fetcher.room_wait_s = 0.05
        self._redis = broker

    def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        """As the settlers do: the newest first, each to the front."""
        self.given_back += names(deliveries)
        for delivery in reversed(deliveries):
            self._redis._transport._connections.transaction(
                [
                    ("LREM", Keys().inprogress(delivery.queue, delivery.identity), 1, delivery.payload),
                    ("RPUSH", Keys().queue(delivery.queue), delivery.payload),
                ]
            )
            self.pool.unsettled.remove([delivery])

    def run_once(self, times: int = 1) -> float:
        return [self.fetcher.run_once() for _ in range(times)][-1]

    def taken(self) -> Delivery:
        """The payload that a worker takes next."""
        delivery = self.buffer.get()
        assert delivery is not None
        return delivery

    def buffered(self) -> list[str]:
        return names(self.buffer.take_back())

    def held(self, redis: redis_py.Redis) -> dict[str, list[bytes]]:
        keys = {name: Keys().inprogress(name, self.lease.identity) for name in QUEUES}
        return {name: redis.lrange(key, 0, -1)[::-1] for name, key in keys.items() if redis.exists(key)}


def names(deliveries: Sequence[Delivery]) -> list[str]:
    return jids([delivery.payload for delivery in deliveries])


def jids(payloads: Sequence[bytes]) -> list[str]:
    return fields([*payloads], "jid")


def push(redis: redis_py.Redis, name: str, *jids: str) -> None:
    redis.lpush(f"queue:{name}", *(job("J", jid=jid, queue=name) for jid in jids))


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture
def patient_broker(redis_url: str) -> Iterator[RedisBroker]:
    """Its waits do not end by themselves while a test that has begun one stands still."""
    with own_broker(redis_url, block_s=60) as broker:
        yield broker


def waits(broker: RedisBroker) -> set[str]:
    """The queues that the server waits for."""
    [consumer] = broker._transport._consumers.values()
    assert isinstance(consumer, PoolConsumer)
    return {name for name, line in consumer._waits.items() if line.waits}


# --- which jobs, in which order


def test_jobs_come_in_the_order_of_the_queues(broker: RedisBroker, redis: redis_py.Redis) -> None:
    for name in reversed(QUEUES):
        push(redis, name, f"{name}1", f"{name}2")
    fetching = Fetching(broker, concurrency=5)
    fetching.run_once()
    assert fetching.buffered() == ["critical1", "critical2", "default1", "default2", "low1"]
    assert [len(fetching.pool.unsettled.of_queue(name)) for name in QUEUES] == [2, 2, 1]


def test_shares_of_weighted_queues_are_right_over_several_fetches(broker: RedisBroker, redis: redis_py.Redis) -> None:
    for name in QUEUES:
        push(redis, name, *numbered(name, 100))
    fetching = Fetching(broker, concurrency=7, weights=(6, 3, 1))
    taken: list[str] = []
    for _ in range(10):
        fetching.run_once()
        for _ in range(len(fetching.buffer)):
            delivery = fetching.taken()
            taken.append(delivery.queue)
            fetching.buffer.done(delivery)
    assert len(taken) == 70
    assert [abs(taken.count(name) - share) <= 1 for name, share in SHARES.items()] == [True] * 3


def test_a_higher_job_that_comes_while_lower_ones_fill_the_buffer_is_next(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    push(redis, "low", *numbered("l", 10))
    fetching = Fetching(broker, concurrency=1, prefetch=4)
    fetching.run_once()
    running = fetching.taken()
    # A step ends after `room_wait_s`, in which a busy machine may not have let it wait for a job.
    assert eventually(lambda: fetching.run_once() == 0 and waits(broker) == {"critical", "default"})
    push(redis, "default", "d")
    assert eventually(lambda: fetching.run_once() == 0 and fetching.given_back == ["l4"])
    push(redis, "critical", "c1", "c2", "c3")
    assert eventually(lambda: fetching.run_once() == 0 and len(fetching.given_back) == 4)
    assert names([running]) + fetching.buffered() == ["l0", "c1", "c2", "c3", "d"]
    assert sorted(fetching.given_back) == ["l1", "l2", "l3", "l4"], "beyond the capacity, and no room came"
    assert jids(queue(redis, "low")) == numbered("l", 10)[1:]


def test_lower_jobs_go_back_in_order_when_too_many_higher_ones_have_overtaken_them(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    push(redis, "low", *numbered("l", 10))
    fetching = Fetching(broker, concurrency=2, prefetch=4)
    fetching.fetcher.room_wait_s = 60
    fetching.fetcher.start()
    assert eventually(lambda: redis.llen("queue:low") == 4)
    for number in range(3):
        push(redis, "critical", f"c{number}")
        assert eventually(lambda: not redis.exists("queue:critical"))
    assert eventually(lambda: len(fetching.given_back) == 3)
    fetching.fetcher.stop()
    assert fetching.fetcher.join(Deadline(20))
    assert fetching.given_back == ["l3", "l4", "l5"]
    assert fetching.buffered() == ["c0", "c1", "c2", "l0", "l1", "l2"]
    assert jids(queue(redis, "low")) == numbered("l", 10)[3:]


def test_jobs_fill_the_room_by_rank_in_whatever_order_the_broker_returns_them(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in QUEUES:
        push(redis, name, name)
    fetching, consume = Fetching(broker, concurrency=3), RedisTransport.consume
    monkeypatch.setattr(RedisTransport, "consume", lambda *asked: consume(*asked)[::-1])
    fetching.run_once()
    assert fetching.buffered() == ["critical", "default", "low"]


def test_lower_jobs_that_were_overtaken_go_back_when_no_room_comes(broker: RedisBroker, redis: redis_py.Redis) -> None:
    push(redis, "low", *numbered("l", 5))
    fetching = Fetching(broker, concurrency=1, prefetch=4)
    fetching.run_once()
    push(redis, "critical", "c")
    assert eventually(lambda: fetching.run_once() == 0 and fetching.given_back == ["l4"])
    assert fetching.buffered() == ["c", "l0", "l1", "l2", "l3"]


def test_a_job_that_a_wait_brings_while_all_threads_are_busy_goes_back(
    patient_broker: RedisBroker, redis: redis_py.Redis
) -> None:
    def push_as_it_waits() -> None:
        assert eventually(lambda: bool(patient_broker._transport._consumers) and waits(patient_broker) == set(QUEUES))
        push(redis, "default", "d1")

    fetching = Fetching(patient_broker, concurrency=1)
    pushing = threading.Thread(target=push_as_it_waits)
    pushing.start()
    assert eventually(lambda: fetching.run_once() == 0 and len(fetching.buffer) == 1)
    pushing.join()
    assert waits(patient_broker) == {"critical", "low"}
    running = fetching.taken()
    push(redis, "critical", "c1", "c2")
    push(redis, "low", "l1")
    assert eventually(lambda: fetching.run_once() == 0 and sorted(fetching.given_back) == ["c1", "l1"])
    assert waits(patient_broker) == set()
    fetching.run_once()
    assert fetching.buffered() == []
    fetching.buffer.done(running)
    fetching.run_once()
    assert fetching.buffered() == ["c1"], "in front of the job that was pushed after it"


def test_several_jobs_that_come_at_once_fill_the_room_by_rank(
    patient_broker: RedisBroker, redis: redis_py.Redis
) -> None:
    fetching = Fetching(patient_broker, concurrency=1)
    fetching.fetcher._reconcile()
    asks = [(name, 1) for name in QUEUES]
    assert patient_broker.transport.consume(fetching.lease.identity, asks, 1, 0.01) == []
    pipeline = redis.pipeline()
    for name in reversed(QUEUES):
        pipeline.lpush(f"queue:{name}", job("J", jid=name, queue=name))
    pipeline.execute()
    fetching.run_once()
    assert fetching.given_back == ["default", "low"]
    assert fetching.buffered() == ["critical"]


def test_room_that_a_worker_makes_is_seen_at_once(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url, block_s=60) as broker:
        push(redis, "low", *numbered("l", 3))
        fetching = Fetching(broker, concurrency=1)
        fetching.run_once()
        fetching.fetcher.room_wait_s = 60
        running = fetching.taken()
        thread = threading.Thread(target=fetching.run_once)
        thread.start()
        fetching.buffer.done(running)
        thread.join(20)  # a consume waits for a minute
        assert not thread.is_alive()
        assert fetching.buffered() == ["l1"]


# --- pauses, the lease, suspects


def test_a_paused_queue_keeps_its_jobs_and_the_others_are_fetched(broker: RedisBroker, redis: redis_py.Redis) -> None:
    fetching = Fetching(broker, concurrency=5)
    fetching.fetcher.pause("critical")
    for name in QUEUES:
        push(redis, name, name)
    fetching.run_once()
    assert fetching.buffered() == ["default", "low"]
    fetching.fetcher.resume("critical")
    fetching.run_once()
    assert fetching.buffered() == ["critical"]


def test_a_queue_that_is_resumed_is_fetched_while_the_others_are_waited_for(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_broker(redis_url, block_s=60) as broker:
        fetching = Fetching(broker)
        fetching.fetcher.pause("critical")
        fetching.fetcher.start()
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 2)
        push(redis, "critical", "c")
        fetching.fetcher.resume("critical")
        assert eventually(lambda: len(fetching.buffer) == 1)
        fetching.fetcher.stop()
        assert fetching.fetcher.join(Deadline(20))


def test_the_wait_of_a_queue_that_is_paused_ends(patient_broker: RedisBroker, redis: redis_py.Redis) -> None:
    fetching = Fetching(patient_broker)
    running = threading.Thread(target=fetching.run_once)
    running.start()
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 3)
    fetching.fetcher.pause("default")
    running.join()
    patient_broker.transport.wake("default")
    fetching.run_once()
    assert waits(patient_broker) == {"critical", "low"}
    push(redis, "default", "d")
    assert (jids(queue(redis, "default")), fetching.held(redis)) == (["d"], {})


def test_the_wait_of_a_queue_that_is_paused_ends_and_its_job_goes_back(
    patient_broker: RedisBroker, redis: redis_py.Redis
) -> None:
    fetching = Fetching(patient_broker, concurrency=5)
    push(redis, "low", "l")
    fetching.run_once()
    running = threading.Thread(target=fetching.run_once)
    running.start()
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 3)
    fetching.fetcher.pause("default")
    running.join()
    push(redis, "default", "d")  # its wait is still running
    fetching.fetcher._transport.wake("default")
    fetching.run_once()
    assert fetching.given_back == ["d"]
    assert waits(patient_broker) == {"critical", "low"}
    push(redis, "default", "e")
    assert len(queue(redis, "default")) == 2
    assert fetching.buffered() == ["l"]


def test_what_comes_of_a_queue_that_is_paused_meanwhile_goes_back(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching = Fetching(broker, concurrency=5)
    for name in QUEUES:
        push(redis, name, name)
    put = fetching.buffer.put

    def paused_before(deliveries: Sequence[Delivery]) -> None:
        fetching.fetcher.pause("default")
        put(deliveries)

    monkeypatch.setattr(fetching.buffer, "put", paused_before)
    fetching.run_once()
    assert fetching.given_back == ["default"]
    assert fetching.buffered() == ["critical", "low"]


def test_while_nothing_may_be_fetched_no_wait_runs(patient_broker: RedisBroker, redis: redis_py.Redis) -> None:
    fetching = Fetching(patient_broker, concurrency=5)
    asks = [(name, 1) for name in QUEUES]
    fetching.fetcher._reconcile()
    assert patient_broker.transport.consume(fetching.lease.identity, asks, 1, 0.01) == []
    push(redis, "low", "l")
    for name in QUEUES:
        fetching.fetcher.pause(name)
    assert fetching.run_once() == FULL_SERVER_PAUSE_S
    assert waits(patient_broker) == set()
    assert fetching.given_back == ["l"]
    assert fetching.held(redis) == {}


# --- lost replies and the end


def test_a_job_whose_wait_lost_its_reply_is_found_and_run(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fetching = Fetching(broker, concurrency=5)
    answer = WaitingLine.answer

    def lost(line: WaitingLine) -> bytes | None:
        payload: bytes | None = answer(line)
        if payload is not None:
            monkeypatch.undo()
            raise BrokerUnavailable("the reply was lost")
        return payload

    def push_as_it_waits() -> None:
        assert eventually(lambda: bool(broker._transport._consumers) and waits(broker) == set(QUEUES))
        push(redis, "default", "d")

    monkeypatch.setattr(WaitingLine, "answer", lost)
    pushing = threading.Thread(target=push_as_it_waits)
    pushing.start()
    with pytest.raises(BrokerUnavailable):
        fetching.run_once(100)
    pushing.join()
    fetching.fetcher.after_failure()
    push(redis, "low", "l")  # its wait is still running: this one is not lost
    fetching.run_once()
    assert sorted(fetching.buffered()) == ["d", "l"]
    assert "queue default: 1 jobs were fetched but their reply was lost; running them" in caplog.text
    assert "queue low" not in caplog.text


def test_a_job_that_a_wait_brings_does_not_look_lost(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    fetching = Fetching(broker, concurrency=50)
    fetching.fetcher.reconcile_every_s = 0.0
    taken: list[str] = []
    pushes = [threading.Timer(0.01 * number, push, [redis, QUEUES[number % 3], str(number)]) for number in range(20)]
    for one in pushes:
        one.start()
    assert eventually(lambda: fetching.run_once() == 0 and len(taken.extend(fetching.buffered()) or taken) == 20)
    for one in pushes:
        one.join()  # a job may be here before its push has got the reply
    assert sorted(map(int, taken)) == [*range(20)]
    assert "reply was lost" not in caplog.text


def test_a_fetcher_that_ends_gives_back_what_its_waits_have_taken(broker: RedisBroker, redis: redis_py.Redis) -> None:
    fetching = Fetching(broker, concurrency=1)
    push(redis, "default", "d")
    fetching.fetcher.start()
    assert eventually(lambda: len(fetching.buffer) == 1)
    push(redis, "low", *numbered("l", 4))  # the wait for this queue takes one of them
    fetching.fetcher.stop()
    assert fetching.fetcher.join(Deadline(20))
    assert waits(broker) == set()
    assert fetching.buffered() == ["d"]
    assert set(fetching.held(redis)) == {"default"}
    assert jids(queue(redis, "low")) == numbered("l", 4)


def test_what_the_waits_took_is_found_when_their_end_fails(
    patient_broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(transport: RedisTransport, queues: Sequence[str]) -> list[Delivery]:
        end_waits(transport, queues)
        raise BrokerUnavailable("gone")

    fetching, end_waits = Fetching(patient_broker, concurrency=5), RedisTransport.end_waits
    fetching.fetcher._reconcile()
    asks = [(name, 1) for name in QUEUES]
    assert patient_broker.transport.consume(fetching.lease.identity, asks, 1, 0.01) == []
    push(redis, "default", "d")
    monkeypatch.setattr(RedisTransport, "end_waits", fails)
    fetching.fetcher.stop()
    fetching.fetcher.start()
    assert fetching.fetcher.join(Deadline(20))
    monkeypatch.undo()
    assert fetching.buffered() == []
    fetching.fetcher.look_once_more()
    assert fetching.buffered() == ["d"]


def test_stop_ends_a_fetcher_that_waits(broker: RedisBroker, redis: redis_py.Redis) -> None:
    fetching = Fetching(broker)
    fetching.fetcher.start()
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 3)
    fetching.fetcher.stop()
    assert fetching.fetcher.join(Deadline(20))
    assert redis.info("clients")["blocked_clients"] == 0
