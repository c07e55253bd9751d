"""The server refuses one of the commands of our scripts: no job is lost, and none is in two places."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis as redis_py
from apps import job, own_broker
from denied import COMMANDS, Walled
from fleet import Fleet
from servers import RedisServer
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import RETRIES, waiting_in
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import DeclaredDead, FoundJob, Presence
from goworkers_py.brokers.contracts.store import TIMED
from goworkers_py.brokers.contracts.transport import Finished, SettlementBatch
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.outcome import DISCARD, DONE, EXPIRED, REQUEUE, REQUEUE_LAST, Dead, Outcome, Reschedule, Retry
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.wire.stored_job import StoredJob

LARGE = "x" * 5_000
FAR = 4e9  # epoch seconds


@pytest.fixture(scope="module")
def server(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


@pytest.fixture
def walled(server: RedisServer) -> Walled:
    walled = Walled(server)
    walled.redis.flushall()
    walled.redis.script_flush()
    walled.allow_all_but()
    return walled


def places(redis: redis_py.Redis) -> dict[str, list[str]]:
    """By jid, the keys in which the job is, once for each copy. An unreadable payload has no jid: its bytes are used,
    which the dead set keeps as text."""
    found: dict[str, list[str]] = {}
    lists = [(key, redis.lrange(key, 0, -1)) for key in redis.scan_iter(_type="list")]
    sets = [(key, redis.zrange(key, 0, -1)) for key in redis.scan_iter(_type="zset")]
    for key, payloads in lists + sets:
        for one in map(StoredJob, payloads):
            kept = one.payload if one.message is None else one.original
            found.setdefault(one.jid if kept is None else kept.decode(), []).append(key.decode())
    return found


OUTCOMES: dict[str, Callable[[bytes], Outcome]] = {
    "succeeds": lambda payload: DONE,
    "fails": lambda payload: Retry(FAR, payload),
    "dies": Dead,
    "discarded": lambda payload: DISCARD,
    "expired": lambda payload: EXPIRED,
    "first": lambda payload: REQUEUE,
    "last": lambda payload: REQUEUE_LAST,
    "later": lambda payload: Reschedule(FAR, payload),
}
GOING = ("succeeds", "discarded", "expired", "first-large", "last-large", "picked")
MAY_BE_GONE = {f"{how}-{number}" for how in GOING for number in (0, 1)}


class Life:
    """Calls every verb that moves jobs, on jobs that another user has put into their places."""

    def __init__(self, broker: Broker, redis: redis_py.Redis) -> None:
        self.broker = broker
        self.inspector = Inspector(lambda: broker)
        self.redis = redis
        # Two batches: large payloads are settled in another way.
        self.finished: dict[str, list[Finished]] = {"small": [], "large": []}

    def prepare(self) -> None:
        redis = self.redis
        for number in (0, 1):
            for how, outcome in OUTCOMES.items():
                payload = job(jid=f"{how}-{number}")
                redis.lpush("queue:q:me:inprogress", payload)
                self.finished["small"].append((Delivery(payload, "q", "me"), outcome(payload)))
            for how in ("first", "stays", "last"):
                payload = job("J", LARGE, jid=f"{how}-large-{number}")
                redis.lpush("queue:q:me:inprogress", payload)
                if how != "stays":
                    self.finished["large"].append((Delivery(payload, "q", "me"), DONE))
            redis.lpush("queue:q", *(job("J", text, jid=f"waits{len(text)}-{number}") for text in ("", "a", LARGE)))
            redis.lpush("queue:lost:host:1:gone:inprogress", job(jid=f"lost-{number}", queue="lost"))
            redis.zadd("schedule", {job(jid=f"due-{number}", queue=f"due{number}"): 1})
            redis.zadd("schedule", {f"no job {number}": 1})
            redis.zadd("retry", {job(jid=f"again-{number}"): 2})
            redis.zadd("retry", {job(jid=f"{how}-{number}"): FAR + number for how in ("killed", "retried")})
            redis.lpush("queue:p", job(jid=f"picked-{number}"), job(jid=f"stays-{number}"))
        dead = {"v": 1, "queues": {"lost": 2}, "trial": "", "trouble": "", "origin": {}}
        redis.hset("pyworkers:owners", "host:1:gone", json.dumps(dead))
        redis.sadd("queues", "q", "p")

    def live(self) -> None:
        """Calls the verbs as a daemon and the commands do, which try again after a refusal."""
        for step in (
            self.beat, self.consume, self.settle, self.promote, self.change, self.pick, self.recover, self.leave
        ):  # fmt: skip
            for _ in range(2):
                with suppress(BrokerError, DeclaredDead):
                    step()

    def beat(self) -> None:
        self.broker.recoverable.beat(Presence("me", {"q": 1, "p": 1}))

    def consume(self) -> None:
        self.broker.transport.consume("me", [("q", 100)], 100, 0)

    def settle(self) -> None:
        for size, finished in self.finished.items():
            if finished:
                held = [delivery for delivery, _ in finished]
                results = self.broker.transport.settle(
                    SettlementBatch(f"settler {size}", len(finished), finished, held)
                )
                answered = zip(finished, results, strict=True)
                self.finished[size] = [finished for finished, result in answered if isinstance(result, str)]

    def promote(self) -> None:
        for state in TIMED:
            with suppress(BrokerError):
                list(self.broker.store.promote(state, forward, 10))

    def change(self) -> None:
        with suppress(BrokerError):
            list(self.inspector.kill(RETRIES, Filter(match="killed")))
        list(self.inspector.retry(RETRIES, Filter(match="retried")))

    def pick(self) -> None:
        list(self.inspector.delete(waiting_in("p"), Filter(match="picked")))

    def recover(self) -> None:
        list(self.broker.recoverable.recover("other", judge, proof=""))

    def leave(self) -> None:
        list(self.broker.recoverable.leave("me"))


def forward(entry: bytes, now: float) -> tuple[str | None, bytes]:
    return None if entry.startswith(b"no job") else json.loads(entry)["queue"], entry


def judge(found: FoundJob) -> RecoveryDecision:
    return RecoveryDecision(found.payload)


def assert_none_lost_none_doubled(before: set[str], redis: redis_py.Redis) -> None:
    now = places(redis)
    assert {name: keys for name, keys in now.items() if len(keys) > 1} == {}
    assert before - set(now) <= MAY_BE_GONE
    assert set(now) <= before
    assert not redis.keys("pyworkers:none*")


@pytest.mark.parametrize("command", ["nothing", *COMMANDS])
def test_a_command_that_is_not_allowed_loses_no_job_and_doubles_none(walled: Walled, command: str) -> None:
    redis = walled.redis
    with own_broker(walled.url) as broker:
        life = Life(broker, redis)
        life.prepare()
        before = set(places(redis))
        assert len(before) == 44
        if command != "nothing":
            walled.allow_all_but(command)
        life.live()
        assert_none_lost_none_doubled(before, redis)
        # With the command allowed again, every job reaches its place.
        walled.allow_all_but()
        life.live()
        assert_none_lost_none_doubled(before, redis)
    left = Counter(key for keys in places(redis).values() for key in keys)
    assert not [key for key in left if key.endswith("inprogress")]
    assert (left["queue:p"], left["queue:lost"], left["queue:due0"]) == (2, 2, 1)
    if command == "nothing":
        assert (left["retry"], left["dead"], left["schedule"], sum(left.values())) == (2, 6, 2, 44 - len(MAY_BE_GONE))


@pytest.mark.parametrize("key", ["queue:q", "queue:due0", "queue:lost", "retry", "dead", "schedule", "queues"])
def test_a_key_of_a_wrong_type_loses_no_job_and_doubles_none(walled: Walled, key: str) -> None:
    redis = walled.redis
    with own_broker(walled.url) as broker:
        life = Life(broker, redis)
        life.prepare()
        redis.delete(key)
        redis.set(key, "somebody's string")
        before = set(places(redis))
        life.live()
        assert_none_lost_none_doubled(before, redis)
        redis.delete(key)
        life.live()
        assert_none_lost_none_doubled(before, redis)
    assert not list(redis.keys("*:inprogress"))


def test_every_command_of_the_scripts_is_known_to_the_server(walled: Walled) -> None:
    known = {name.upper() for name in walled.redis.command()}
    assert set(COMMANDS) <= known
    assert len(COMMANDS) > 20


# --- real processes


@pytest.mark.parametrize("command", ["RPUSH", "LPUSH", "LREM", "SET"])
def test_a_stop_that_cannot_requeue_running_jobs_leaves_them_for_recovery(
    walled: Walled, tmp_path: Path, command: str
) -> None:
    with Fleet(tmp_path, walled.url, walled.redis) as fleet:
        first = fleet.start("-q", "q=3", "--timeout", "0.2").ready()
        for jid in ("a", "b", "c"):
            fleet.push(jid, "Gated", "gate")
        for jid in ("a", "b", "c"):
            fleet.await_run("began", jid)
        walled.allow_all_but(command)
        first.stop()
        found = places(walled.redis)
        assert {jid: len(keys) for jid, keys in found.items()} == {"a": 1, "b": 1, "c": 1}, first.output
        walled.allow_all_but()
        fleet.open("gate")
        fleet.start("-q", "q=3").ready()
        for jid in ("a", "b", "c"):
            fleet.await_run("ended", jid)
        assert eventually(lambda: not places(walled.redis)), fleet.told()
        assert set(fleet.count("ended").values()) == {1}


def test_a_scheduler_that_may_not_remove_what_it_moved_runs_no_job_again(walled: Walled, tmp_path: Path) -> None:
    walled.allow_all_but("ZREM")
    with Fleet(tmp_path, walled.url, walled.redis) as fleet:
        daemon = fleet.start("-q", "q", "--poll-interval", "0.1").ready()
        walled.redis.zadd("schedule", {job("Short", jid="due"): 1})
        daemon.says("scheduler")
        fleet.push("neighbour", "Short")
        fleet.await_run("began", "neighbour")
        assert not fleet.of("began", "due")
        walled.allow_all_but()
        fleet.await_run("began", "due")
        assert eventually(lambda: not places(walled.redis)), fleet.told()
        assert len(fleet.of("began", "due")) == 1
