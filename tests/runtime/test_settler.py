from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import in_progress, job, own_app, own_broker, queue, shared, started, working
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues.transport import RedisTransport
from goworkers_py.brokers.two_servers.settlement import SettlementPart
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.effect import WEIGHT, Effect, Push, PushJobs, StoreValue
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import DISCARD, DONE, LOST, REQUEUE, UNACKNOWLEDGED, Dead, Done, Outcome, Requeue, Retry
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.in_process import InProcess
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import Slot
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.settling import settlement as module
from goworkers_py.runtime.settling.settlement import IN_SECONDS, Settlement, requeued
from goworkers_py.runtime.settling.settler import Settler
from goworkers_py.wire.message import Message, Timestamps

OWNER = "here:1:abcdef"
LIST = f"queue:q:{OWNER}:inprogress"


class Settling:
    def __init__(
        self,
        broker: RedisBroker,
        redis: redis_py.Redis,
        clock: Clock | None = None,
        timestamps: Timestamps = IN_SECONDS,
    ) -> None:
        self._redis = redis
        pool, common = Pool(PoolConfig.of_one(QueueConfig("q", concurrency=1))), shared(clock=clock)
        self.unsettled, self.counters = pool.unsettled, common.counters
        self.told: list[float] = []
        self.settlement = Settlement(broker.transport, pool, common, self.told.append, timestamps=timestamps)
        self.settler = Settler(self.settlement, pool, common)

    def fetched(self, *raws: bytes) -> list[Delivery]:
        if raws:
            self._redis.lpush(LIST, *raws)
        deliveries = [Delivery(raw, "q", OWNER) for raw in raws]
        self.unsettled.add(deliveries)
        return deliveries

    def __enter__(self) -> Settling:  # noqa: PYI034
        self.settler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.settler.stop()
        assert self.settler.join(Deadline(20))


@pytest.fixture
def settling(redis_url: str, redis: redis_py.Redis) -> Iterator[Settling]:
    with own_broker(redis_url) as broker, Settling(broker, redis) as settling:
        yield settling


@pytest.mark.parametrize(
    ("outcome", "place", "counts"),
    [
        (DONE, None, (b"1", None)),
        (DISCARD, None, (b"1", b"1")),
        (Retry(1e9, b'{"again":1}'), "retry", (b"1", b"1")),
        (Dead(b'{"dead":1}'), "dead", (b"1", b"1")),
        (REQUEUE, "queue:q", (None, None)),
    ],
)
def test_a_delivery_ends_in_one_place(
    outcome: Outcome, place: str | None, counts: tuple[Any, Any], settling: Settling, redis: redis_py.Redis
) -> None:
    (delivery,) = settling.fetched(job())
    settling.settlement.put(delivery, outcome)
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert redis.llen(LIST) == 0
    assert redis.exists("retry", "dead", "queue:q") == (place is not None)
    if isinstance(outcome, Retry | Dead):
        assert redis.zrange(place, 0, -1) == [outcome.payload]
    elif outcome is REQUEUE:
        assert queue(redis) == [job()]
    assert (redis.get("stat:processed"), redis.get("stat:failed")) == counts


def test_the_scheduler_is_told_of_a_retry_when_it_is_stored(settling: Settling, redis: redis_py.Redis) -> None:
    first, second = settling.fetched(job(jid="1"), job(jid="2"))
    settling.settlement.put(first, Retry(123.5, b"{}"))
    settling.settlement.put(second, DONE)
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert settling.told == [123.5]
    assert redis.zscore("retry", "{}") == 123.5


def test_of_two_that_end_a_delivery_the_first_one_does(settling: Settling, redis: redis_py.Redis) -> None:
    (delivery,) = settling.fetched(job())
    settling.settlement.put(delivery, REQUEUE)
    settling.settlement.put(delivery, Dead(b"{}"))
    settling.settlement.forget(delivery)
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert queue(redis) == [job()]
    assert not redis.exists("dead")
    assert "lost_leases" not in settling.counters.snapshot()


def test_what_others_were_given_is_left_alone_and_counted(settling: Settling, redis: redis_py.Redis) -> None:
    (delivery,) = settling.fetched(job())
    redis.delete(LIST)
    settling.settlement.put(delivery, Retry(5, b"{}"))
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert settling.counters.snapshot() == {"lost_leases": 1}
    assert not redis.exists("retry", "stat:processed")
    assert settling.told == []


def test_a_run_that_was_interrupted_because_its_job_was_given_to_others_settles_nothing(
    settling: Settling, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where equal bytes are in progress again under the old identity."""
    (delivery,) = settling.fetched(job())
    settling.settlement.put(delivery, LOST)
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert settling.counters.snapshot() == {"lost_leases": 1}
    assert in_progress(redis) == [job()]
    assert settling.unsettled.kept == 0
    [told] = caplog.messages
    assert told.startswith("lost lease: interrupted here after it was recovered elsewhere; it may run twice: class=")


def test_a_log_filter_that_raises_keeps_no_settled_delivery(settling: Settling, redis: redis_py.Redis) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError("a filter's fault")

    gone, done = settling.fetched(job(jid="1"), job(jid="2"))
    redis.lrem(LIST, 1, gone.payload)
    module.log.addFilter(refuse)
    try:
        settling.settlement.put(gone, DONE)
        settling.settlement.put(done, DONE)
        assert eventually(lambda: len(settling.unsettled) == 0)
    finally:
        module.log.removeFilter(refuse)
    assert redis.llen(LIST) == 0


def test_a_log_filter_that_raises_during_a_stop_leaves_no_outcome_unsettled(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError("a filter's fault")

    monkeypatch.setattr(module, "LARGEST_BATCH", 1)
    with own_broker(redis_url) as broker:
        settling = Settling(broker, redis)
        gone, done = settling.fetched(job(jid="1"), job(jid="2"))
        redis.lrem(LIST, 1, gone.payload)
        settling.settler.pause_after_fault_s = 0.01
        for delivery in (gone, done):
            settling.settlement.put(delivery, DONE)
        settling.settler.stop()
        module.log.addFilter(refuse)
        try:
            with settling:
                pass
        finally:
            module.log.removeFilter(refuse)
    assert len(settling.unsettled) == 0
    assert redis.llen(LIST) == 0


def test_a_delivery_that_is_not_acknowledged_stays_where_it_is(
    settling: Settling, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    kept, done = settling.fetched(job("K", jid="abc"), job("D"))
    settling.settlement.put(kept, UNACKNOWLEDGED)
    settling.settlement.put(done, DONE)
    assert eventually(lambda: len(settling.unsettled) == 1)
    assert redis.lrange(LIST, 0, -1) == [kept.payload]
    assert kept.stage is Stage.KEPT
    assert caplog.messages == ["not acknowledged, stays in progress until this process stops: class=K jid=abc queue=q"]


def test_a_list_of_jobs_that_stay_is_searched_from_its_newest_on(settling: Settling, redis: redis_py.Redis) -> None:
    """Of equal payloads it is seen which one was found. With 100,000 that stay, each search from the oldest on steps
    over all of them."""
    first, second, third = settling.fetched(job("A"), job("X"), job("A"))
    settling.settlement.put(first, UNACKNOWLEDGED)
    settling.settlement.put(second, UNACKNOWLEDGED)
    settling.settlement.put(third, DONE)
    assert eventually(lambda: len(settling.unsettled) == 2)
    assert redis.lrange(LIST, 0, -1) == [job("X"), job("A")]


def test_many_that_finish_together_are_settled_in_few_steps(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url) as broker:
        settling = Settling(broker, redis)
        for delivery in settling.fetched(*(job("J", number) for number in range(2 * module.LARGEST_BATCH + 50))):
            settling.settlement.put(delivery, DONE)
        before = redis.info("commandstats")["cmdstat_evalsha"]["calls"] if _evaluated(redis) else 0
        with settling:
            assert eventually(lambda: len(settling.unsettled) == 0)
        assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 4
    assert redis.llen(LIST) == 0
    assert redis.get("stat:processed") == str(2 * module.LARGEST_BATCH + 50).encode()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each step of the server settles."""
    settle, sizes = RedisTransport.settle, list[int]()

    def noted(self: RedisTransport, batch: SettlementBatch) -> list[Settled]:
        sizes.append(len(batch.finished))
        return settle(self, batch)

    monkeypatch.setattr(RedisTransport, "settle", noted)
    return sizes


def test_large_payloads_are_settled_in_several_steps(redis_url: str, redis: redis_py.Redis, steps: list[int]) -> None:
    """The server does nothing else while it reads one."""
    large = "x" * (module.LARGEST_BATCH_BYTES * 2 // 5)
    with own_broker(redis_url) as broker:
        settling = Settling(broker, redis)
        for delivery in settling.fetched(*(job("J", number, large) for number in range(7))):
            settling.settlement.put(delivery, DONE)
        with settling:
            assert eventually(lambda: len(settling.unsettled) == 0)
    assert steps == [3, 3, 1]
    assert redis.llen(LIST) == 0


def test_pushes_with_ties_are_settled_in_several_steps(redis_url: str, redis: redis_py.Redis, steps: list[int]) -> None:
    """They are short, and many words. A command of more than 1,048,576 words closes the connection."""
    count = module.LARGEST_BATCH_BYTES * 2 // 5 // WEIGHT
    with own_broker(redis_url) as broker:
        settling = Settling(broker, redis)
        for number, delivery in enumerate(settling.fetched(*(job("J", number) for number in range(7)))):
            pushes = tuple(
                Push("r", b"{}", ties=(RecordTie(TrackedJob(f"{number}-{at}", "Job")),)) for at in range(count)
            )
            settling.settlement.put(delivery, Done(effects=(PushJobs(str(number), pushes),)))
        with settling:
            assert eventually(lambda: len(settling.unsettled) == 0)
    assert steps == [3, 3, 1]
    assert redis.llen("queue:r") == 7 * count


def _evaluated(redis: redis_py.Redis) -> bool:
    return "cmdstat_evalsha" in redis.info("commandstats")


def test_stop_settles_what_has_finished(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url) as broker:
        settling = Settling(broker, redis)
        deliveries = settling.fetched(*(job("J", number) for number in range(10)))
        for delivery in deliveries:
            settling.settlement.put(delivery, DONE)
        settling.settler.stop()  # before start
        settling.settler.start()
        assert settling.settler.join(Deadline(20))
    assert len(settling.unsettled) == 0
    assert redis.llen(LIST) == 0


def test_one_that_cannot_be_stored_stays_in_progress_until_it_can(
    settling: Settling, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    settling.settlement.refused_for_s = 0.05
    redis.set("retry", "somebody's string")
    stuck, fine = settling.fetched(job(jid="stuck"), job(jid="fine"))
    settling.settlement.put(stuck, Retry(5, b'{"jid":"stuck"}'))
    settling.settlement.put(fine, DONE)
    assert eventually(lambda: len(settling.unsettled) == 1)
    assert eventually(lambda: redis.info("commandstats")["cmdstat_zadd"]["failed_calls"] > 2)
    assert redis.lrange(LIST, 0, -1) == [stuck.payload]
    assert caplog.text.count("WRONGTYPE") == 1
    redis.delete("retry")
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert redis.zrange("retry", 0, -1) == [b'{"jid":"stuck"}']
    assert redis.llen(LIST) == 0
    assert settling.told == [5]


def test_of_two_outcomes_the_first_one_counts_also_while_it_cannot_be_stored(
    redis_url: str, redis: redis_py.Redis
) -> None:
    redis.set("dead", "somebody's string")
    with own_broker(redis_url) as broker, Settling(broker, redis) as settling:
        settling.settlement.refused_for_s = 600.0  # it is tried again when the settler stops
        parked, done = settling.fetched(job(jid="parked"), job(jid="done"))
        settling.settlement.put(parked, Dead(b"{}"))
        assert eventually(lambda: settling.counters.snapshot() == {"settle_retries": 1})
        settling.settlement.put(parked, REQUEUE)
        settling.settlement.put(done, DONE)
        assert eventually(lambda: len(settling.unsettled) == 1)
        assert (queue(redis), in_progress(redis)) == ([], [parked.payload])
        redis.delete("dead")
    assert (queue(redis), in_progress(redis), redis.zcard("dead")) == ([], [], 1)


def test_what_cannot_be_stored_does_not_keep_the_process_from_stopping(redis_url: str, redis: redis_py.Redis) -> None:
    redis.set("dead", "somebody's string")
    with own_broker(redis_url) as broker:
        settling = Settling(broker, redis)
        settling.settler.start()
        settling.settlement.put(settling.fetched(job())[0], Dead(b"{}"))
        settling.settler.stop()
        assert not settling.settler.join(Deadline(0.5))
        assert len(settling.unsettled) == 1
        assert in_progress(redis) == [job()]
        redis.delete("dead")
        assert settling.settler.join(Deadline(20))
    assert redis.zcard("dead") == 1


def test_what_finishes_while_the_server_is_away_is_settled_when_it_is_back(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    started, finish = threading.Semaphore(0), threading.Event()

    def run(message: Message) -> None:
        started.release()
        finish.wait(30)
        if message.args[0]:
            raise ValueError("failed meanwhile")

    with own_app(own_redis.url) as app:
        app.process("q", run, 2)
        with caplog.at_level(logging.WARNING, "goworkers_py"), working(app):
            app.enqueue_bulk("q", "J", [[False], [True]])
            assert started.acquire(timeout=20)
            assert started.acquire(timeout=20)
            own_redis.kill()
            finish.set()
            assert eventually(lambda: "Redis cannot serve" in caplog.text)
            own_redis.start()
            client = own_redis.client()
            assert eventually(lambda: client.get("stat:processed") == b"2")
            assert not in_progress(client)
            (entry,) = map(json.loads, client.zrange("retry", 0, -1))
            assert entry["error_message"] == "failed meanwhile"
            assert eventually(lambda: "Redis serves again" in caplog.text)
    assert caplog.text.count("Redis cannot serve") == 1
    assert caplog.text.count("Redis serves again") == 1


def test_a_batch_is_sent_again_as_it_was(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker finds its first results again by the order that `held` gave them. Meanwhile more jobs are fetched."""
    client = own_redis.client()
    settle, batches = RedisTransport.settle, []

    def loses_first_reply(self: RedisTransport, batch: SettlementBatch) -> Any:
        batches.append((batch.number, list(batch.finished), list(batch.held)))
        if len(batches) == 1:
            settling.fetched(job("Later"))
            raise BrokerRefused("the reply got lost")
        return settle(self, batch)

    monkeypatch.setattr(RedisTransport, "settle", loses_first_reply)
    with own_broker(own_redis.url) as broker, Settling(broker, client) as settling:
        settling.settlement.put(settling.fetched(job())[0], DONE)
        assert eventually(lambda: len(batches) == 2 and len(settling.unsettled) == 1)
    assert batches[0] == batches[1]


def test_what_the_server_never_confirmed_is_settled_only_once(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply of the first try is lost; an equal payload is fetched before the second try."""
    client = own_redis.client()
    settle, tries = RedisTransport.settle, []

    def loses_first_reply(self: RedisTransport, batch: Any) -> Any:
        tries.append(batch.number)
        answer = settle(self, batch)
        if len(tries) == 1:
            client.lpush(LIST, job())
            raise BrokerRefused("the reply got lost")
        return answer

    monkeypatch.setattr(RedisTransport, "settle", loses_first_reply)
    with own_broker(own_redis.url) as broker, Settling(broker, client) as settling:
        settling.settlement.put(settling.fetched(job())[0], DONE)
        assert eventually(lambda: len(settling.unsettled) == 0)
    assert tries == [tries[0]] * 2
    assert client.lrange(LIST, 0, -1) == [job()]
    assert client.get("stat:processed") == b"1"


class ByParts:
    """Settles as a broker of several servers does."""

    def __init__(self, transport: RedisTransport) -> None:
        self._part = SettlementPart(transport.settle)

    def settle(self, batch: SettlementBatch) -> list[Any]:
        results = self._part.settle(batch)
        return [results[one] for one, _ in batch.finished]


@pytest.mark.parametrize("transport_of", [lambda transport: transport, ByParts], ids=["one server", "a part"])
@pytest.mark.parametrize("rules", [("resetpass", ">other"), ("-client|setname",)], ids=["password", "setname"])
def test_a_refused_connection_gives_an_unanswered_batch_no_other_number(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, rules: tuple[str, ...], transport_of: Any
) -> None:
    """The server has done the batch, and a new password keeps the process from hearing so. Under another number the
    batch would take an equal job off the list, which was fetched since and runs."""
    client = own_redis.client()
    client.execute_command("ACL", "SETUSER", "settling", "on", ">secret", "~*", "&*", "+@all")
    settle, tries = RedisTransport.settle, []

    def is_cut_off(self: RedisTransport, batch: SettlementBatch) -> Any:
        tries.append(batch.number)
        if len(tries) > 1:
            return settle(self, batch)
        settle(self, batch)
        client.lpush(LIST, job())
        client.execute_command("ACL", "SETUSER", "settling", *rules)
        client.execute_command("CLIENT", "KILL", "USER", "settling")
        raise BrokerUnavailable("the reply got lost")

    monkeypatch.setattr(RedisTransport, "settle", is_cut_off)
    address = own_redis.url.replace("redis://", "redis://settling:secret@")
    with own_broker(address) as broker, Settling(broker, client) as settling:
        settling.settlement._transport = transport_of(broker.transport)
        settling.settlement.put(settling.fetched(job())[0], DONE)
        assert eventually(lambda: len(tries) > 4)
        client.execute_command("ACL", "SETUSER", "settling", ">secret", "+@all")
        assert eventually(lambda: len(settling.unsettled) == 0)
    assert client.lrange(LIST, 0, -1) == [job()]
    assert set(tries) == {tries[0]}
    assert settling.counters.snapshot().get("lost_leases", 0) == 0


def test_a_delivery_for_which_the_broker_refuses_a_whole_batch_holds_up_no_other(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The access rules allow one queue: a push to another one makes the server refuse the whole call."""
    client = own_redis.client()
    patterns = ["~queue:q*", "~queues", "~stat:*", "~pyworkers:*", "~schedule", "~retry", "~dead"]
    client.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", "+@all", *patterns)
    address = own_redis.url.replace("redis://", "redis://narrow:secret@")
    with own_broker(address) as broker, Settling(broker, client) as settling:
        settling.settlement.refused_for_s = 0.05
        deliveries = settling.fetched(*(job(jid=str(number)) for number in range(50)))
        pushes = PushJobs("20", (Push("forbidden", job()),))
        for number, delivery in enumerate(deliveries):
            settling.settlement.put(delivery, Done(effects=(pushes,)) if number == 20 else DONE)
        assert eventually(lambda: len(settling.unsettled) == 1)
        assert in_progress(client) == [deliveries[20].payload]
        assert int(client.get("stat:processed")) == 49
        assert caplog.text.count("refuses: ") == 1
        client.execute_command("ACL", "SETUSER", "narrow", "~*")
        assert eventually(lambda: len(settling.unsettled) == 0)
        assert (client.llen("queue:forbidden"), settling.counters.snapshot().get("lost_leases", 0)) == (1, 0)


def test_refused_deliveries_come_again_in_bounded_batches(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.set("queue:broken", "no list")
    settle, sizes = RedisTransport.settle, list[int]()

    def noting(self: RedisTransport, batch: SettlementBatch) -> Any:
        sizes.append(sum(effect.size for _, outcome in batch.finished for effect in outcome.effects))
        return settle(self, batch)

    monkeypatch.setattr(RedisTransport, "settle", noting)
    with own_broker(redis_url) as broker, Settling(broker, redis) as settling:
        settling.settlement.refused_for_s = 0.2
        children = PushJobs("parent", (Push("broken", job(text="x" * 600_000)),))
        for delivery in settling.fetched(*(job(jid=str(number)) for number in range(8))):
            settling.settlement.put(delivery, Done(effects=(children,)))
        assert eventually(lambda: len(sizes) > 12)
        assert max(sizes) < 2_000_000
        redis.delete("queue:broken")
        assert eventually(lambda: len(settling.unsettled) == 0)
    assert redis.llen("queue:broken") == 8


HALF = "\ud800"
JID = "abc"
OF_BATCH = {"v": 1, "needs": ["batch"], "batch": {"id": "b"}}


def only_dead(redis: redis_py.Redis) -> dict[str, Any]:
    [dead] = map(json.loads, redis.zrange("dead", 0, -1))
    return dict(dead)


@pytest.mark.parametrize(
    ("outcome", "dies"),
    [
        (Done(effects=(FreeLock(JID, f"l{HALF}"),)), False),
        (Done(effects=(FreeLock(JID, f"l{HALF}"), LeaveSlot(JID, Slot("fine")), StoreValue(JID, "k", b"v", 9))), False),
        (Done(effects=(NoteState(TrackedJob(f"j{HALF}", ""), "completed", "", 9),)), False),
        (Retry(5, b'{"jid":"abc"}', effects=(LeaveSlot(JID, Slot(f"l{HALF}")),)), False),
        (Done(effects=(PushJobs(JID, (Push(f"q{HALF}", b"{}"),)),)), True),
        (Dead(None), True),  # type: ignore[arg-type]
        (Done(effects=("no effect",)), True),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_an_outcome_that_cannot_be_written_ends_its_job_in_one_place_at_once(
    outcome: Outcome, dies: bool, settling: Settling, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    settling.settlement.refused_for_s = 600.0
    before, hostile, behind = settling.fetched(job(jid="1"), job(jid=JID), job(jid="2"))
    settling.settlement.put(before, DONE)
    settling.settlement.put(hostile, outcome)
    settling.settlement.put(behind, Retry(7, b'{"jid":"2"}'))
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert redis.llen(LIST) == 0
    assert redis.zcard("dead") == dies
    assert redis.zscore("retry", '{"jid":"2"}') == 7
    assert redis.zcard("retry") == 1 + isinstance(outcome, Retry)
    if dies:
        dead = only_dead(redis)
        assert (dead["jid"], dead["error_class"]) == (JID, "goworkers_py.BrokenOff")
        assert redis.get("stat:failed") == b"2"
    if len(outcome.effects) == 3:
        assert redis.keys("*value*")  # only the broken effect is left out
    assert "a job cannot be settled as it ended, tries a simpler end" in caplog.text


def test_a_job_that_cannot_be_settled_as_it_ended_has_the_servers_time_in_the_way_of_the_fleet(
    redis_url: str, redis: redis_py.Redis
) -> None:
    clock = Clock()
    clock.synchronize(1_764_086_400.0, machine.awake_and_asleep(), machine.awake_and_asleep())
    with own_broker(redis_url) as broker, Settling(broker, redis, clock, Timestamps("ms")) as settling:
        [hostile] = settling.fetched(job(jid=JID))
        settling.settlement.put(hostile, Done(effects=(PushJobs(JID, (Push(f"q{HALF}", b"{}"),)),)))
        assert eventually(lambda: len(settling.unsettled) == 0)
    failed_at = only_dead(redis)["failed_at"]
    assert type(failed_at) is int
    assert failed_at == pytest.approx(1_764_086_400_000, abs=60_000)


def test_a_batch_hears_of_the_death_of_a_job_whose_end_cannot_be_written(
    settling: Settling, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, effects = RedisTransport.settle, []

    def noted(self: RedisTransport, batch: SettlementBatch) -> Any:
        effects.extend(effect for _, outcome in batch.finished for effect in outcome.effects)
        return settle(self, batch)

    monkeypatch.setattr(RedisTransport, "settle", noted)
    [hostile] = settling.fetched(job(jid=JID, pyworkers=OF_BATCH))
    settling.settlement.put(hostile, Done(effects=(PushJobs(JID, (Push(f"q{HALF}", b"{}"),)),)))
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert isinstance(effects[-1], EndInBatch)
    assert effects[-1].way == "failed"
    assert only_dead(redis)["pyworkers"]["batch"]["over"] is True


@pytest.mark.parametrize("error", [MemoryError("no room"), UnicodeError("half"), RecursionError("deep")])
@pytest.mark.parametrize(
    "outcome",
    [DONE, Done(effects=(FreeLock(JID, "L"),)), Retry(at=4e9, payload=job(jid=JID))],
    ids=["done", "tied", "retry"],
)
def test_a_broker_that_raises_what_it_likes_for_one_delivery_settles_the_others(
    error: Exception,
    outcome: Outcome,
    settling: Settling,
    redis: redis_py.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker of another package, say. The job that it settles in no way waits then, and is settled as it ended. The
    error is told once, with its traceback."""
    settling.settlement.refused_for_s = 0.05
    settle, mended = RedisTransport.settle, threading.Event()

    def raises(self: RedisTransport, batch: SettlementBatch) -> Any:
        if not mended.is_set() and any(one.payload == hostile.payload for one, _ in batch.finished):
            raise error
        return settle(self, batch)

    monkeypatch.setattr(RedisTransport, "settle", raises)
    others = settling.fetched(*(job(jid=str(number)) for number in range(40)))
    [hostile] = settling.fetched(job(jid=JID))
    for one in (*others[:20], hostile, *others[20:]):
        settling.settlement.put(one, outcome if one is hostile else DONE)
    # Each simpler end was tried in vain, and it waits.
    assert eventually(lambda: [*settling.settlement._refused] == settling.unsettled.snapshot() == [hostile])
    assert in_progress(redis) == [hostile.payload]
    mended.set()
    assert eventually(lambda: len(settling.unsettled) == 0)
    assert redis.llen(LIST) == 0
    assert (redis.zcard("dead"), redis.zcard("retry")) == (0, int(isinstance(outcome, Retry)))
    told = [record for record in caplog.records if record.exc_info]
    assert [record.exc_info[1] for record in told if record.exc_info] == [error]


def test_a_settler_in_serial_mode_gives_a_simpler_outcome_too(redis_url: str, redis: redis_py.Redis) -> None:
    hostile, fine = job("Bad", jid=JID), job("Good", jid="1")
    with own_app(redis_url, QueueConfig("q", mode="serial")) as app:
        app.registry.handle("q", lambda message: None)
        with started(app) as launcher:
            [guard] = [lane.guard for lane in launcher.health.lanes]
            run = guard.run

            def ends(delivery: Delivery) -> Outcome:
                broken = Done(effects=(PushJobs(JID, (Push(f"q{HALF}", b"{}"),)),))
                return broken if delivery.payload == hostile else run(delivery)

            guard.run = ends  # type: ignore[method-assign]
            redis.lpush("queue:q", fine, hostile, fine)
            assert eventually(lambda: redis.get("stat:processed") == b"3")
            assert launcher.stop()
    assert only_dead(redis)["jid"] == JID
    assert not in_progress(redis)


def test_a_part_that_raises_costs_no_delivery_its_way_back(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(InProcess):
        def given_back(self, delivery: Delivery) -> tuple[Effect, ...]:
            raise RuntimeError("a bug")

    class Keeping(InProcess):
        def given_back(self, delivery: Delivery) -> tuple[Effect, ...]:
            return (KeepLock("lock", JID, 60),)

    outcome = requeued(Delivery(job(jid=JID), "q", OWNER), [Raising(), Keeping()])
    assert outcome == Requeue(effects=(KeepLock("lock", JID, 60),))
    assert "given back without an effect" in caplog.text
