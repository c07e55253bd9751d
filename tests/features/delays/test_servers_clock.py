"""The clock of the server decides when a task is due: behind a slow link, and after steps of that clock."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
import redis as redis_py
from delaying import Queues
from proxy import Direction, Proxy
from servers import RedisServer
from stepped_server import SteppedServer
from waiting import eventually

import goworkers_py as workers
from goworkers_py.core import machine
from goworkers_py.core.errors import RetryJob
from goworkers_py.features.delays import keeper
from goworkers_py.features.delays.shared_book import book_of
from goworkers_py.features.delays.timers import Timers

pytestmark = pytest.mark.usefixtures("short_looks")

TEN_MINUTES_S = 600
DUE = "pyworkers:delay-due:default"
OWNERS = "pyworkers:delay-owners:default"
SOME_LOOKS_S = 0.4
BEFORE_THE_STEP_S = 4.0  # after a push: no task may be due before the test has set the clock


def server_time(client: redis_py.Redis) -> float:
    seconds, micros = client.time()
    return float(seconds + micros / 1e6)


def test_after_a_step_back_no_task_of_another_process_runs_early(queues: Queues, stepped_redis: SteppedServer) -> None:
    stepped_redis.step_to(TEN_MINUTES_S)
    ran: list[str] = []
    queues.started({"remind": ran.append}, workers.RedisPersistence(stepped_redis.url))
    stepped_redis.step_to(0)
    other = queues.made({}, workers.RedisPersistence(stepped_redis.url))
    other.push_many([(40, "remind", "in 40 s"), (500, "remind", "in 500 s"), (0.3, "remind", "soon")])
    assert eventually(lambda: "soon" in ran)
    time.sleep(SOME_LOOKS_S)
    assert ran == ["soon"]


@pytest.mark.parametrize("layout", ["pyworkers", "delaytk"])
def test_after_a_step_back_a_task_waits_until_the_servers_clock_says_so(
    queues: Queues, stepped_redis: SteppedServer, layout: str
) -> None:
    """It is in the wheel of the process when the clock is set back, and then forward again."""
    ran: list[str] = []
    queue = queues.started({"remind": ran.append}, workers.RedisPersistence(stepped_redis.url, layout=layout))
    queue.push(BEFORE_THE_STEP_S, "remind", "a")
    stepped_redis.step_to(-TEN_MINUTES_S)
    time.sleep(BEFORE_THE_STEP_S + SOME_LOOKS_S)
    assert ran == []
    queue.push(0.1, "remind", "after the step")
    assert eventually(lambda: ran == ["after the step"])
    stepped_redis.step_to(0)
    assert eventually(lambda: ran == ["after the step", "a"])


@pytest.mark.parametrize("step_s", [TEN_MINUTES_S, -TEN_MINUTES_S])
def test_pushes_moves_and_retries_after_a_step_are_counted_from_the_time_of_their_save(
    queues: Queues, stepped_redis: SteppedServer, step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "LOOK_S", 3_600)  # the process does not learn of the step by itself
    client, ran = stepped_redis.client(), list[float]()

    def fail(_: object) -> None:
        stepped_redis.step_to(step_s)
        ran.append(server_time(client))
        raise RetryJob(delay=40)

    queue = queues.started({"fails": fail}, workers.RedisPersistence(stepped_redis.url))
    queue.push(0, "fails", None, "retried")
    assert eventually(lambda: ran and ran[0] + 1 < (client.zscore(DUE, "retried") or 0) < ran[0] + TEN_MINUTES_S / 2)
    queue.push(3_600, "waits", None, "moved")
    for push in (
        lambda: queue.push(40, "waits", None, "pushed"),
        lambda: queue.push_many([(40, "waits", None, "one of many")]),
        lambda: queue.move("moved", 40),
    ):
        stepped_redis.step_to(0)
        queue.push(3_600, "waits", None, "tells the time")
        stepped_redis.step_to(step_s)
        push()
    for task_id in ("retried", "pushed", "one of many", "moved"):
        due = client.zscore(DUE, task_id)
        assert due is not None
        assert ran[0] + 40 <= due <= server_time(client) + 40, task_id
        assert workers.DelayTask.from_json(client.hget("pyworkers:delay-tasks:default", task_id) or b"").due == due


def test_a_step_forward_is_noticed_by_the_next_look(queues: Queues, stepped_redis: SteppedServer) -> None:
    ran: list[str] = []
    queue = queues.started({"remind": ran.append}, workers.RedisPersistence(stepped_redis.url))
    queue.push_many([(500, "remind", "before the step"), (3_600, "remind", "later")])
    stepped_redis.step_to(TEN_MINUTES_S)
    assert eventually(lambda: ran == ["before the step"])
    time.sleep(SOME_LOOKS_S)
    assert ran == ["before the step"]


def test_behind_a_slow_link_no_task_runs_early(queues: Queues, own_redis: RedisServer) -> None:
    """The first question took long to arrive, so its answer says least about the clock."""
    client, ran = own_redis.client(), list[float]()
    with Proxy(own_redis.port) as proxy, closing(Queues()) as there:
        proxy.delay(0.6, b"TIME", Direction.COMMAND, times=1)
        persistence = workers.RedisPersistence(proxy.url)
        there.started({"remind": lambda _: ran.append(server_time(client))}, persistence)
        pushed_at = server_time(client)
        queues.made({}, workers.RedisPersistence(own_redis.url)).push(1, "remind", None, "a")
        assert eventually(lambda: ran)
        assert ran[0] >= pushed_at + 1


class Stepped(workers.MemoryPersistence):
    """A persistence of one process with a clock that is set."""

    step_s = 0.0

    def time(self) -> float:
        return time.time() + self.step_s


def test_the_clock_of_a_persistence_without_claims_decides_too(queues: Queues) -> None:
    kept, ran = Stepped(), list[str]()
    queue = queues.started({"remind": ran.append}, kept)
    queue.push(BEFORE_THE_STEP_S, "remind", "a")
    kept.step_s = -TEN_MINUTES_S
    time.sleep(BEFORE_THE_STEP_S + SOME_LOOKS_S)
    assert ran == []
    kept.step_s = 0.0
    assert eventually(lambda: ran == ["a"])


def test_a_lease_of_before_a_step_back_lasts_no_longer_than_leases_are(redis_url: str, redis: redis_py.Redis) -> None:
    now = server_time(redis)
    redis.zadd(OWNERS, {"dead": now + TEN_MINUTES_S, "living": now + 20})
    with closing(workers.RedisPersistence(redis_url)) as persistence:
        assert persistence.claims is not None
        persistence.claims.beat("me", 30.0)
    assert now + 59 < (redis.zscore(OWNERS, "dead") or 0) < server_time(redis) + 61
    assert redis.zscore(OWNERS, "living") == now + 20


def test_the_end_of_all_leases_at_once_is_no_death(redis_url: str, redis: redis_py.Redis) -> None:
    """The server was away, or its clock was set forward. An owner that lives has time to renew its lease."""
    now = server_time(redis)
    redis.zadd(OWNERS, {"me": now - 50, "runs": now - 52, "dead before": now - 100})
    with (
        closing(workers.RedisPersistence(redis_url)) as persistence,
        closing(workers.RedisPersistence(redis_url)) as other,
    ):
        assert persistence.claims is not None
        assert other.claims is not None
        persistence.save(workers.DelayTask("a", now - 60, "remind", ""))
        redis.hset("pyworkers:delay-claims:default", "a", "claim runs")
        persistence.claims.beat("me", 30.0)
        assert persistence.claims.take("me", "mine", ["a"], now) == []
        other.claims.beat("other", 30.0)
        assert other.claims.take("other", "theirs", ["a"], now) == []
    assert (redis.zscore(OWNERS, "runs") or 0) > now + 20
    assert redis.zscore(OWNERS, "dead before") == now - 100


@pytest.mark.parametrize("me", ["me", "new"])
def test_a_lease_that_ended_while_nothing_was_heard_is_no_death(redis_url: str, redis: redis_py.Redis, me: str) -> None:
    """The server was away. The lease of the process that comes first has not ended, or it is new."""
    now = server_time(redis)
    leases = {"me": now + 2, "runs": now - 3} if me == "me" else {"runs": now - 3, "another": now - 5}
    redis.zadd(OWNERS, {**leases, "dead before": now - 100})
    with closing(workers.RedisPersistence(redis_url)) as persistence:
        assert persistence.claims is not None
        persistence.claims.beat(me, 30.0)
    assert (redis.zscore(OWNERS, "runs") or 0) > now + 20
    assert redis.zscore(OWNERS, "dead before") == now - 100


@pytest.mark.parametrize("me", ["me", "new"])
def test_a_lease_that_ended_while_others_were_heard_is_a_death(redis_url: str, redis: redis_py.Redis, me: str) -> None:
    now = server_time(redis)
    redis.zadd(OWNERS, {"me": now + 25, "dead": now - 3})
    with closing(workers.RedisPersistence(redis_url)) as persistence:
        assert persistence.claims is not None
        persistence.claims.beat(me, 30.0)
    assert redis.zscore(OWNERS, "dead") == now - 3


def test_a_process_that_beats_seldom_gives_a_dead_one_another_lease_only_once(
    redis_url: str, redis: redis_py.Redis
) -> None:
    def owners_after(seconds: float) -> dict[str, float]:
        redis.zadd(OWNERS, {owner: until - seconds for owner, until in owners().items()})
        persistence.claims.beat("me", 30.0)
        return owners()

    def owners() -> dict[str, float]:
        return {owner.decode(): until for owner, until in redis.zrange(OWNERS, 0, -1, withscores=True)}

    redis.zadd(OWNERS, {"me": server_time(redis) + 29.5, "dead": server_time(redis) + 5.5})
    with closing(workers.RedisPersistence(redis_url)) as persistence:
        assert persistence.claims is not None
        given = owners_after(20)["dead"]
        assert given > server_time(redis) + 20
        assert [owners_after(20)["dead"] for _ in range(3)] == [given - 20, given - 40, given - 60]


def test_a_process_that_was_cut_off_takes_over_no_task_of_one_that_was_too(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both run on. The lease of the other one has ended a moment before that of this one."""
    with closing(workers.RedisPersistence(redis_url)) as persistence:
        task = workers.DelayTask("a", persistence.time() - 60, "remind", "")
        persistence.save(task)
        book = book_of(persistence, Timers(0.1, 60, persistence.clock.wall), persistence.clock)
        book.load(persistence.time())
        now = server_time(redis)
        [me] = redis.zrange(OWNERS, 0, -1)
        redis.zadd(OWNERS, {me: now + 2, "runs": now - 3})
        redis.hset("pyworkers:delay-claims:default", "a", "claim runs")
        later = machine.awake_and_asleep() + 28
        monkeypatch.setattr(machine, "awake_and_asleep", lambda: later)
        assert book.take([task], persistence.time()) == []
    assert redis.hget("pyworkers:delay-claims:default", "a") == b"claim runs"
