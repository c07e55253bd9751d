"""Every kind of request that a process sends to Redis, a function each. A step returns what it then reads there."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import redis as redis_py
from apps import begun, job
from waiting import eventually

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.brokers.contracts.store import TIMED
from goworkers_py.brokers.contracts.transport import Push, SettlementBatch
from goworkers_py.brokers.redis.driver import connection
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.fleet.control import RedisControl
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.command import Command
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PushJobs, StoreValue
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import DONE, Cancelled, Dead, Done, Outcome, Requeue, Retry
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.effects import MeetTombstone
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.effects import StoreCursor
from goworkers_py.features.ruby_status.effects import ShowStatus
from goworkers_py.features.tracking.contract import Records, RunningMark
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.observe.executions import Executions
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.wire.process_record import MemberPool, ProcessMember, ProcessSnapshot


class ProcessLife:
    def __init__(self, broker: Broker, redis: redis_py.Redis, connections: Connections) -> None:
        self.broker = broker
        self.redis = redis
        self.connections = connections

    def consume(self) -> bytes:
        [delivery] = self.broker.transport.consume("me", [("q", 1)], 1)
        return delivery.payload

    def held(self) -> int:
        return len(self.broker.transport.lost_replies("me", "q", (), thorough=True))

    @contextmanager
    def waiting(self) -> Iterator[Future[list[Delivery]]]:
        """A consume that waits for a job, or has failed because the server refused it."""
        with ThreadPoolExecutor(1) as pool:
            consuming = pool.submit(self.broker.transport.consume, "me", [("q", 1)], 1)
            eventually(lambda: consuming.done() or self.redis.info("clients")["blocked_clients"] == 1)
            yield consuming

    def settle(self, outcome: Callable[[bytes], Outcome]) -> object:
        payload = job(nonce=secrets.token_hex(4))
        self.redis.lpush("queue:q:me:inprogress", payload)
        delivery = Delivery(payload, "q", "me")
        return self.broker.transport.settle(SettlementBatch(secrets.token_hex(4), 1, [(delivery, outcome(payload))]))


def beats(life: ProcessLife) -> object:
    return [life.broker.recoverable.beat(Presence("me", {"q": 1}, "name")).server_time > 0 for _ in range(2)]


def pushes(life: ProcessLife) -> object:
    life.broker.transport.publish([Push("q", job(), None), Push("q", job(), 1.0)])
    return life.redis.llen("queue:q"), life.redis.smembers("queues"), life.redis.zcard("schedule")


def consumes(life: ProcessLife) -> object:
    return len(life.consume()), life.held()


def consumes_a_large_job(life: ProcessLife) -> object:
    life.redis.lpush("queue:q", job("J", "x" * 2_000))
    return len(life.consume()), life.held()


def waits_for_a_job(life: ProcessLife) -> object:
    with life.waiting() as consuming:
        life.redis.lpush("queue:q", job())
        [delivery] = consuming.result()
    return len(delivery.payload)


def is_woken(life: ProcessLife) -> object:
    with life.waiting() as consuming, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "HASTE_S", 20.0)  # a wake must not fail on a busy machine
        life.broker.transport.wake("q")
        return consuming.result()


def succeeds(life: ProcessLife) -> object:
    return life.settle(lambda payload: DONE)


def retries(life: ProcessLife) -> object:
    return life.settle(lambda payload: Retry(2.0, payload)), life.redis.zcard("retry")


def gives_back(life: ProcessLife) -> object:
    before = life.redis.llen("queue:q")
    settled = [life.settle(lambda payload, last=last: Requeue(last=last)) for last in (False, True)]
    return settled, life.redis.llen("queue:q") - before


def settles_large_jobs(life: ProcessLife) -> object:
    held = [Delivery(job("J", "x" * 5_000, nonce=number), "q", "me") for number in range(4)]
    for delivery in held:
        life.redis.lpush("queue:q:me:inprogress", delivery.payload)
    batches = [held[1:2], [held[0], *held[2:]]]
    return [
        life.broker.transport.settle(SettlementBatch("large", number, [(one, DONE) for one in batch], held))
        for number, batch in enumerate(batches)
    ]


def has_effects(life: ProcessLife) -> object:
    pushes = PushJobs("jid", (Push("children", job()), Push("children", job(), 5.0)))
    effects = (pushes, StoreValue("jid", "result", b"value", 60))
    settled = life.settle(lambda payload: Done(effects=effects))
    children = life.redis.llen("queue:children"), life.redis.zcount("schedule", 5, 5)
    return settled, children, life.broker.store.value("result", "jid")


def publishes_once(life: ProcessLife) -> object:
    pushes = [Push("once", job(), id="now"), Push("once", job(), 6.0, id="later"), Push("once", job(), id="now")]
    return [one.value for one in life.broker.transport.publish(pushes)], life.redis.llen("queue:once")


def tracks(life: ProcessLife) -> object:
    """A tracked job is pushed, begun and ended, while somebody waits for its end."""
    payload = job("Tracked", jid="tracked", track=True)
    told = threading.Event()
    published = life.broker.transport.publish(
        [Push("tracked", payload, ties=(RecordTie(TrackedJob("tracked", "Tracked")),))]
    )
    life.redis.rpoplpush("queue:tracked", "queue:tracked:me:inprogress")
    one = Delivery(payload, "tracked", "me")
    stop = life.broker.require_part(Records).watch("tracked", told.set)
    told.wait(5.0)  # not told where the rules do not allow to listen
    life.broker.require_part(Records).mark_running([RunningMark(TrackedJob("tracked", "Tracked"), one, None, True)])
    running = life.broker.require_part(Records).record("tracked")
    done = Done(effects=(NoteState(TrackedJob("tracked", ""), "completed", "", 60, (("result", b"1"),)),))
    settled = life.broker.transport.settle(SettlementBatch(secrets.token_hex(4), 1, [(one, done)]))
    record = life.broker.require_part(Records).record("tracked")
    stop()
    return published, running and running.state, settled, record and (record.state, record.result)


def shows(life: ProcessLife) -> object:
    """The gem sidekiq-status shows a job that begins, tells its progress and ends, and may stop it."""
    payload, one = job("Shown", jid="shown"), TrackedJob("shown", "Shown")
    life.redis.lpush("queue:shown:me:inprogress", payload)
    life.redis.hset("sidekiq:status:shown", "status", "queued")
    life.redis.expire("sidekiq:status:shown", 7_200)
    delivery, progress = Delivery(payload, "shown", "me"), '[1.0,4.0,"text",5.0]'
    life.broker.require_part(Records).mark_running(
        [RunningMark(one, delivery, progress, True, (ShowStatus("shown", "working", progress),))]
    )
    working = life.redis.hgetall("sidekiq:status:shown")
    life.redis.hset("sidekiq:status:shown", "stop", "true")
    stopped = life.broker.require_part(Cancels).elsewhere(["shown", "none"], ["shown"])
    done = Done(effects=(ShowStatus("shown", "complete"),))
    settled = life.broker.transport.settle(SettlementBatch(secrets.token_hex(4), 1, [(delivery, done)]))
    ended = life.redis.hget("sidekiq:status:shown", "status"), life.redis.ttl("sidekiq:status:shown") > 3_600
    return working.get(b"status"), working.get(b"pct_complete"), stopped, settled, ended


def cancels(life: ProcessLife) -> object:
    """A job is cancelled while it is in progress, and the process that meets it says so."""
    payload, broker = job("Cancelled", jid="cancelled"), life.broker
    life.redis.lpush("queue:q:me:inprogress", payload)
    mine = broker.require_part(Cancels).ask("cancelled", False)
    asked = broker.require_part(Cancels).all("")
    met = Cancelled(effects=(MeetTombstone("cancelled", "cancelled"),))
    settled = broker.transport.settle(SettlementBatch(secrets.token_hex(4), 1, [(Delivery(payload, "q", "me"), met)]))
    life.redis.hset("it-other", "cancelled", 1)
    elsewhere = broker.require_part(Cancels).elsewhere(["other", "none"])
    told = broker.require_part(Cancels).answer("cancelled"), broker.require_part(Cancels).all("")
    broker.require_part(Cancels).withdraw("cancelled", mine)
    return asked and list(asked[1]), settled, elsewhere, told[0], told[1] and list(told[1][1])


def iterates(life: ProcessLife) -> object:
    """An iterable job begins, stores its cursor, ends for now, begins again and ends."""
    payload, iterations = job("Iterable", jid="iterable"), life.broker.require_part(Iterations)
    first = iterations.begin("iterable", "1.0").cursor
    checked = iterations.checkpoint("iterable", first._replace(value="1"))
    ends = []
    for has_ended in (False, True):
        life.redis.lpush("queue:q:me:inprogress", payload)
        done = Done(effects=(StoreCursor("iterable", first._replace(value="2"), has_ended),))
        batch = SettlementBatch(secrets.token_hex(4), 1, [(Delivery(payload, "q", "me"), done)])
        ends.append(life.broker.transport.settle(batch))
    return first.run, checked, ends, life.redis.exists("it-iterable")


def dies(life: ProcessLife) -> object:
    life.redis.zadd("dead", {b"old": 1})
    settled = life.settle(Dead)
    kept = life.redis.zcard("dead")
    life.redis.zadd("dead", {b"newer": 3e9, b"newest": 4e9})
    return settled, kept, life.settle(Dead), life.redis.zcard("dead")


def counts_for_a_time_only(life: ProcessLife) -> object:
    return sorted(life.redis.ttl(key) > 0 for key in life.redis.keys("stat:processed:*"))


def promotes(life: ProcessLife) -> object:
    told = [list(life.broker.store.promote(state, lambda entry, now: ("promoted", entry), 10)) for state in TIMED]
    return told, life.redis.llen("queue:promoted"), life.redis.sismember("queues", "promoted")


def promotes_what_others_promote_too(life: ProcessLife) -> object:
    life.redis.zadd("schedule", {b"first": 1, b"second": 2})

    def forward(entry: bytes, now: float) -> tuple[str, bytes]:
        life.redis.zrem("schedule", b"first")
        return "promoted", entry

    list(life.broker.store.promote(JobState.SCHEDULED, forward, 10))
    return life.redis.lrange("queue:promoted", 0, 0), life.redis.zcard("schedule")


DEAD, LONG_GONE = "host:1:dddddddddddd", "host:2:dddddddddddd"


def recovers(life: ProcessLife) -> object:
    def judge(found: FoundJob) -> RecoveryDecision:
        return RecoveryDecision(found.payload)

    dead = {"queues": {"q": 1}, "trial": "", "origin": {}}
    life.redis.hset("pyworkers:owners", mapping={DEAD: json.dumps(dead), LONG_GONE: json.dumps(dead)})
    life.redis.hset("pyworkers:gone", LONG_GONE, 1)
    life.redis.lpush(f"queue:q:{DEAD}:inprogress", job("Lost"))
    recovered = len(list(life.broker.recoverable.recover("me", judge, proof="")))
    return recovered, life.redis.hexists("pyworkers:gone", DEAD), life.redis.hexists("pyworkers:gone", LONG_GONE)


def takes_the_name_of_another(life: ProcessLife) -> object:
    life.redis.set("pyworkers:lease:other", 1)
    life.redis.set("pyworkers:process:taken", "other")
    try:
        life.broker.recoverable.beat(Presence("me", {"q": 1}, "taken"))
    except BrokerError as error:
        return "is in use by other" in str(error)
    return False


def meets_the_fleet(life: ProcessLife) -> object:
    life.redis.sadd("processes", "gone:1:aaaaaaaaaaaa")
    me = "host:1:bbbbbbbbbbbb"
    life.redis.lpush(f"{me}-signals", "TSTP")
    running = {"worker:q:1": begun(Delivery(job(), "q", me), 1.0)}
    now = ProcessSnapshot(running, quiet=False, rss=1, round_trip_s=0.1, at=1.0, embedded=False)
    commands = life.broker.control.report(me, ProcessMember(1.0, [MemberPool("q", 1, {"q": 0})]), now)
    keys = ("processes", me, f"{me}:work", f"{me}:workers", f"{me}-signals", "process_cleanup")
    shown = [life.redis.exists(key) for key in keys], life.redis.scard("processes")
    life.broker.control.leave()
    return commands == [Command.QUIET], shown, [life.redis.exists(key) for key in keys], life.redis.ttl(me)


def sees_what_is_paused(life: ProcessLife) -> object:
    return life.broker.transport.paused()


def writes_metrics(life: ProcessLife) -> object:
    for layout in "78":
        control = RedisControl(life.connections, Keys(), layout)
        control.record({"q": {"J": Executions(1, 0, 5, (1, *[0] * 25))}}, at=0.0)
    return sorted(key for pattern in ("j|*", "h|*", "J-*") for key in life.redis.keys(pattern))


def reads_metrics(life: ProcessLife) -> object:
    """What `writes_metrics` has written, a mark of a deploy, and a hash that is read in parts."""
    life.redis.hset("19700101-marks", mapping={f"1970-01-01T00:00:00Z{more}": "v2" for more in ("", *range(1_000))})
    metrics = life.broker.metrics
    told = metrics.minutes(0.0, 0.0), metrics.minutes(0.0, 0.0, "J"), metrics.ten_minutes(0.0, 0.0)
    return told, metrics.histogram("J", 0.0, 0.0), metrics.marks(0.0, 0.0)


def leaves(life: ProcessLife) -> object:
    return len(list(life.broker.recoverable.leave("me"))), life.redis.exists(
        "queue:q:me:inprogress", "pyworkers:lease:me"
    )


STEPS: list[Callable[[ProcessLife], Any]] = [
    beats, pushes, consumes, consumes_a_large_job, waits_for_a_job, is_woken, succeeds, retries, gives_back,
    settles_large_jobs, has_effects, publishes_once, tracks, shows, cancels, iterates, dies, counts_for_a_time_only,
    promotes, promotes_what_others_promote_too, recovers, takes_the_name_of_another, meets_the_fleet, writes_metrics,
    reads_metrics, sees_what_is_paused, leaves,
]  # fmt: skip
