from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import fields, job, own_app, own_broker, queue, working
from servers import RedisServer
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import Config
from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.errors import RetryJob
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.scheduling import scheduler as module
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.runtime.scheduling.scheduler import Scheduler
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message

SEVERAL = 7
ON_TIME_S = 0.25  # for the most punctual of several: a machine that is busy with other tests holds up the others
ROUNDS = 5  # of which one must be on time: the machine may hold up all of a round


def scheduler(
    broker: RedisBroker,
    poll_interval: float = 60,
    style: str = "seconds",
    hints: DueHints | None = None,
    clock: Clock | None = None,
) -> Scheduler:
    config = Config(poll_interval=poll_interval, timestamps=style)
    return Scheduler(broker.store, config, hints or DueHints(), clock or Clock(), Outage("Redis"))


# --- punctuality: an idle daemon that would look only once a minute by itself


class Punctual:
    """An app whose jobs note how long after the time in their argument they began."""

    def __init__(self, app: App) -> None:
        self.late_s: list[float] = []
        app.process("q", self.run, 2)

    def run(self, message: Message) -> None:
        self.late_s.append(time.time() - message.args[0])

    def is_on_time(self) -> bool:
        assert eventually(lambda: len(self.late_s) == SEVERAL)
        earliest_s = min(self.late_s)
        self.late_s.clear()
        assert earliest_s >= -0.005  # the two clocks' rounding
        return earliest_s < ON_TIME_S


def times(first_in_s: float = 0.3) -> list[float]:
    return [time.time() + first_in_s + number * 0.15 for number in range(SEVERAL)]


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, poll_interval=60) as app:
        yield app


def test_a_job_that_this_process_schedules_starts_on_time(app: App) -> None:
    punctual = Punctual(app)

    def round_is_on_time() -> bool:
        time.sleep(0.1)  # it has looked, seen nothing and sleeps
        for at in reversed(times()):
            app.enqueue_at("q", "J", at, [at])
        return punctual.is_on_time()

    with working(app):
        assert any(round_is_on_time() for _ in range(ROUNDS))


def test_a_job_that_was_there_at_the_last_look_starts_on_time(app: App) -> None:
    punctual = Punctual(app)

    def round_is_on_time() -> bool:
        for at in times(first_in_s=0.5):
            app.enqueue_at("q", "J", at, [at])
        with working(app):
            return punctual.is_on_time()

    assert any(round_is_on_time() for _ in range(ROUNDS))


def test_a_retry_that_this_process_schedules_runs_on_time(app: App) -> None:
    late_s: list[float] = []
    wanted: dict[str, float] = {}

    def run(message: Message) -> None:
        if message.retry_count is None:
            wanted[message.jid] = time.time() + 0.3
            raise RetryJob(at=wanted[message.jid])
        late_s.append(time.time() - wanted[message.jid])

    app.process("q", run, 2)
    with working(app):
        for number in range(1, ROUNDS * SEVERAL + 1):
            app.enqueue("q", "J", [])
            time.sleep(0.1)
            if number % SEVERAL == 0:
                assert eventually(lambda number=number: len(late_s) == number)  # type: ignore[misc]
                if min(late_s) < ON_TIME_S:
                    break
    assert min(late_s) < ON_TIME_S


def test_what_another_program_adds_is_learned_of_within_the_poll_interval(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_app(redis_url, poll_interval=0.2) as app:
        punctual = Punctual(app)
        with working(app):
            for _ in range(SEVERAL):
                at = time.time()
                redis.zadd("schedule", {job("J", at): at})
                time.sleep(0.03)
            assert eventually(lambda: len(punctual.late_s) == SEVERAL)
    assert statistics.median(punctual.late_s) < 15  # of an interval of 0.2 s, on a busy machine


# --- when it looks again


@pytest.mark.parametrize("key", ["schedule", "retry"])
def test_it_sleeps_until_the_next_entry_of_either_set_is_due(
    key: str, broker: RedisBroker, redis: redis_py.Redis
) -> None:
    redis.zadd(key, {job(jid="later"): time.time() + 300, job(jid="sooner"): time.time() + 200})
    assert 150 < scheduler(broker, poll_interval=600).run_once() <= 200
    assert redis.zcard(key) == 2


def test_it_sleeps_no_longer_than_the_poll_interval_give_or_take_a_quarter(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    redis.zadd("schedule", {job(): time.time() + 3600})
    sleeps = [scheduler(broker, poll_interval=4).run_once() for _ in range(20)]
    assert all(3 <= sleep_s <= 5 for sleep_s in sleeps)
    assert len(set(sleeps)) > 1  # a fleet does not poll in step


def test_an_entry_that_is_never_due_is_waited_for_like_none(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.zadd("schedule", {job(): float("inf")})
    assert scheduler(broker, poll_interval=4).run_once() >= 3


def test_a_hint_of_something_sooner_ends_its_sleep_and_one_of_something_later_does_not(broker: RedisBroker) -> None:
    hints = DueHints()
    it = scheduler(broker, hints=hints)
    sleep_s = it.run_once()
    hints.scheduled(time.time() + sleep_s + 10)
    began = time.monotonic()
    it.wait_between(0.05)
    assert time.monotonic() - began >= 0.05
    hints.scheduled(time.time() + 1)
    it.wait_between(50)
    assert time.monotonic() - began < 40


def test_a_job_that_is_scheduled_during_a_look_ends_the_sleep_after_it() -> None:
    """The look may have read the set before the job was added to it."""
    hints = DueHints()

    class Store:
        def promote(self, *asked: object) -> Iterator[float | None]:
            yield None
            hints.scheduled(time.time() + 1)

    it = Scheduler(Store(), Config(poll_interval=60), hints, Clock(), Outage("Redis"))
    assert it.run_once() > 40
    began = time.monotonic()
    it.wait_between(40)
    assert time.monotonic() - began < 30


def test_a_hint_is_reckoned_by_the_clock_that_knows_the_servers_time(broker: RedisBroker) -> None:
    clock = Clock()
    clock.synchronize(time.time() + 1_000, awake_and_asleep(), awake_and_asleep())
    hints = DueHints()
    it = scheduler(broker, hints=hints, clock=clock)
    sleep_s = it.run_once()
    began = time.monotonic()
    hints.scheduled(time.time() + 1_000 + sleep_s - 30)
    it.wait_between(50)
    assert time.monotonic() - began < 40


def test_stop_ends_its_sleep(broker: RedisBroker) -> None:
    it = scheduler(broker, poll_interval=3600)
    it.start()
    it.stop()
    assert it.join(Deadline(20))


# --- what it moves, and how


@pytest.mark.parametrize("style", ["seconds", "ms"])
def test_a_due_entry_moves_to_its_queue_with_a_new_enqueued_at_and_nothing_else_changed(
    style: str, broker: RedisBroker, redis: redis_py.Redis
) -> None:
    entry = b'{"retry":true,"queue":"mail","class":"A::B","args":[1.10,{}],"jid":"x","enqueued_at":5.0,"own":[]}'
    redis.zadd("schedule", {entry: time.time() - 1})
    scheduler(broker, style=style).run_once()
    (raw,) = queue(redis, "mail")
    before, _, rest = raw.partition(b'"enqueued_at":')
    at, _, after = rest.partition(b",")
    assert before + b'"enqueued_at":5.0,' + after == entry
    assert isinstance(json.loads(at), float if style == "seconds" else int)
    assert abs(json.loads(at) / (1 if style == "seconds" else 1000) - time.time()) < 60
    assert redis.smembers("queues") == {b"mail"}
    assert not redis.exists("schedule")


def test_any_number_of_due_entries_moves_in_one_look_oldest_first(broker: RedisBroker, redis: redis_py.Redis) -> None:
    count = 2 * module.PROMOTED_AT_ONCE + 50
    redis.zadd("schedule", {job("J", number): 1_000 + number for number in range(count)})
    scheduler(broker).run_once()
    assert fields(queue(redis), "args") == [[number] for number in range(count)]


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (b"{no json", "a due entry is no job and goes to the dead set: not JSON"),
        (b"[1]", "a due entry is no job and goes to the dead set: a job is a JSON object"),
        (b'{"class":"J"}', "a due entry names no queue and goes to the dead set"),
        (b'{"class":"J","queue":""}', "a due entry names no queue and goes to the dead set"),
        (b'{"class":"J","queue":["q"]}', "a due entry names no queue and goes to the dead set"),
    ],
)
@pytest.mark.parametrize("key", ["schedule", "retry"])
def test_an_entry_that_is_no_job_goes_to_the_dead_set_and_its_neighbours_run(
    key: str, entry: bytes, line: str, broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.zadd(key, {job(jid="before"): 1, entry: 2, job(jid="after"): 3})
    scheduler(broker).run_once()
    assert fields(queue(redis), "jid") == ["before", "after"]
    [buried] = redis.zrange("dead", 0, -1)
    assert buried == entry or enclosure.original(json.loads(buried)) == entry
    assert isinstance(json.loads(buried), dict)
    assert not redis.exists(key)
    assert line in caplog.text


def test_entries_that_cannot_be_moved_stay_and_do_not_stand_before_the_others(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "PROMOTED_AT_ONCE", 2)
    redis.set("queue:broken", "somebody's string")
    stuck = [job("J", number, queue="broken") for number in range(3)]
    redis.zadd("retry", {**dict.fromkeys(stuck, 1), job(jid="fine"): 2})
    scheduler(broker).run_once()
    assert redis.zrange("retry", 0, -1) == sorted(stuck)
    assert fields(queue(redis), "jid") == ["fine"]
    assert "retries: a due job cannot be moved: WRONGTYPE" in caplog.text
    assert "(key queue:broken)" in caplog.text
    redis.delete("queue:broken")
    scheduler(broker).run_once()
    assert len(queue(redis, "broken")) == 3


@pytest.mark.parametrize("broken", ["schedule", "retry"])
def test_a_set_whose_key_is_of_another_type_does_not_stop_the_other_one(
    broken: str, broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    other = "retry" if broken == "schedule" else "schedule"
    it = scheduler(broker, poll_interval=0.05)
    redis.set(broken, "somebody's string")
    for number in range(3):
        redis.zadd(other, {job(jid=f"{other}-{number}"): 1})
        assert it.run_once() <= 3
    assert fields(queue(redis), "jid") == [f"{other}-{number}" for number in range(3)]
    redis.delete(broken)
    redis.zadd(broken, {job(jid="mended"): 1})
    it.run_once()
    it.run_once()
    assert fields(queue(redis), "jid")[-1] == "mended"
    refused, granted = caplog.messages
    line = {"schedule": "scheduled", "retry": "retries"}[broken]
    assert refused.startswith(f"scheduler:{line}: Redis refuses: WRONGTYPE: {broken} is a string; rename or delete")
    assert granted == f"scheduler:{line}: Redis no longer refuses"


def test_two_sets_that_are_refused_have_a_pair_of_lines_each(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    it = scheduler(broker)
    redis.mset({"schedule": "a string", "retry": "another"})
    it.run_once()
    it.run_once()
    redis.delete("retry")
    it.run_once()
    redis.delete("schedule")
    it.run_once()
    told = [message.partition("; rename")[0] for message in caplog.messages]
    assert told == [
        "scheduler:scheduled: Redis refuses: WRONGTYPE: schedule is a string",
        "scheduler:retries: Redis refuses: WRONGTYPE: retry is a string",
        "scheduler:retries: Redis no longer refuses",
        "scheduler:scheduled: Redis no longer refuses",
    ]


def test_stop_ends_a_long_promotion_between_two_steps(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROMOTED_AT_ONCE", 2)
    redis.zadd("retry", {job("J", number): 1 for number in range(5)})
    it = scheduler(broker)
    it.stop()
    it.run_once()
    assert redis.zcard("retry") == 3


def test_it_goes_on_after_an_outage(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with own_broker(own_redis.url) as broker:
        it = scheduler(broker, poll_interval=0.1)
        it.start()
        try:
            own_redis.kill()
            assert eventually(lambda: "Redis cannot serve" in caplog.text)
            own_redis.start()
            client = own_redis.client()
            client.zadd("schedule", {job(): 1})
            assert eventually(lambda: queue(client))
        finally:
            it.stop()
            assert it.join(Deadline(20))
