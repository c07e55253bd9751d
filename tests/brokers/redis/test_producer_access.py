"""The access rules of `doctor --acl --producer`: each kind of push works under them, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from calls import Call
from oldest_redis import OldestRedis
from servers import RedisServer
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.server import access
from goworkers_py.config.options import Config, QueueConfig

PASSWORD = "of-the-producer"


@pytest.fixture(scope="module")
def server(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


@pytest.fixture
def admin(server: RedisServer) -> Iterator[Any]:
    with closing(redis_py.Redis(port=server.port)) as admin:
        admin.flushall()
        admin.script_flush()
        admin.execute_command("ACL", "SETUSER", "producer", "reset", "on", f">{PASSWORD}",
                              *access.producer_rules(Config()))  # fmt: skip
        admin.acl_log_reset()
        yield admin


def denied(admin: Any) -> set[str]:
    return {entry["object"] for entry in admin.acl_log(128)} - {"client|setinfo"}


@pytest.fixture
def producer(server: RedisServer, admin: Any) -> Iterator[App]:
    with own_app(server.url.replace("//", f"//producer:{PASSWORD}@")) as app:
        yield app


class Jobs:
    """The jobs of a program, in an App that pushes them or in one that runs them."""

    def __init__(self, app: App) -> None:
        self.app = app
        wide, narrow = app.limit("wide", concurrent=1), app.limit("narrow", concurrent=1, rate="9/hour")

        def job(name: str, **options: Any) -> Any:
            @app.job(name, queue="q", **options)
            def perform(number: int) -> int:
                return number

            return perform

        self.plain, self.tracked = job("Plain"), job("Tracked", retain=60)
        self.unique, self.later = job("Unique", unique_for=60), job("Later", unique_for=60, on_conflict="reschedule")
        self.newest = job("Newest", unique_for=60, on_conflict="replace", unique_by=lambda number: 1)
        self.limited, self.strict = job("Limited", limits=[wide]), job("Strict", limits=[narrow], unique_for=60)
        self.grouped = job("Grouped", group_max_size=2, track=True)
        self.grouped.aggregate(lambda jobs: None)


PUSHES: dict[str, Callable[[Jobs], object]] = {
    "plain": lambda jobs: jobs.plain.enqueue(1),
    "later": lambda jobs: jobs.plain.enqueue_in(60, 1),
    "many": lambda jobs: jobs.plain.enqueue_bulk([[1], [2]]),
    "expires": lambda jobs: jobs.plain.set(expires_in=60).enqueue(1),
    "unique": lambda jobs: [jobs.unique.enqueue(1), jobs.unique.enqueue(1)][0],
    "unique later": lambda jobs: [jobs.unique.enqueue_in(60, 2), jobs.unique.enqueue(2)][0],
    "unique, many": lambda jobs: jobs.unique.enqueue_bulk([[3], [4]]),
    "replaced": lambda jobs: [jobs.newest.enqueue_in(60, 1), jobs.newest.enqueue_in(30, 2)],
    "replaced, many": lambda jobs: jobs.newest.enqueue_bulk([[1], [2]]),
    "rescheduled": lambda jobs: [jobs.later.enqueue(1), jobs.later.enqueue(1)],
    "tracked": lambda jobs: jobs.tracked.enqueue(1),
    "tracked, many": lambda jobs: jobs.tracked.enqueue_bulk([[1], [2]]),
    "limited": lambda jobs: jobs.limited.enqueue_bulk([[1], [2]]),
    "limited and unique": lambda jobs: jobs.strict.enqueue_bulk([[1], [2], [3]]),
    "grouped": lambda jobs: [jobs.grouped.set(group="g").enqueue(one) for one in range(3)],
    "grouped, many": lambda jobs: jobs.grouped.set(group="g").enqueue_bulk([[1], [2], [3]]),
    "chain": lambda jobs: jobs.app.chain(jobs.plain.s(1), jobs.app.parallel(jobs.plain.s(2), jobs.tracked.s(3)))
    .enqueue(),
    "batch": lambda jobs: in_batches(jobs),
}  # fmt: skip


def in_batches(jobs: Jobs) -> str:
    app, end = jobs.app, jobs.plain.s(9)
    with app.batch("import", on_success=end, on_complete=end) as batch:
        jobs.tracked.enqueue_bulk([[1], [2]])
        with app.batch("inside", on_complete=end):
            jobs.unique.enqueue(5)
            app.chain(jobs.plain.s(1), jobs.plain.s(2)).enqueue()
        with app.batches.open(batch.bid):
            jobs.plain.enqueue(1)
    with app.batch("empty", on_success=end, on_complete=end):
        pass
    for job in ((), (1,)):
        with suppress(ZeroDivisionError), app.batch("fails", on_success=end) as failed:
            for number in job:
                jobs.plain.enqueue(number)
            raise ZeroDivisionError
        told = failed.status()
        assert told is not None
        assert told.stopped
    return batch.bid


def asked(admin: Any) -> set[str]:
    """What was refused, but for the look at the holder of a lock, whose place a producer may not read."""
    return denied(admin) - {"zrange", "queue:q", "schedule"}


@pytest.mark.parametrize("kind", PUSHES)
def test_each_kind_of_push_works(producer: App, admin: Any, kind: str) -> None:
    told = PUSHES[kind](Jobs(producer))
    assert None not in (told if isinstance(told, list) else [told])
    assert asked(admin) == set()
    assert admin.exists("queues", "schedule", "pyworkers:groups")


def test_what_a_producer_pushes_runs_and_its_results_come_back(producer: App, admin: Any, server: RedisServer) -> None:
    jobs = Jobs(producer)
    with own_app(server.url, QueueConfig("q", concurrency=2, priorities=True)) as worker:
        Jobs(worker)
        with working(worker):
            assert eventually(lambda: [*worker.inspector.owners()])
            first = jobs.tracked.enqueue(7)
            assert jobs.plain.set(priority="high").enqueue(1)
            assert producer.result(first, timeout=5) == 7
            assert producer.status(first).state == "completed"
            for name, push in PUSHES.items():
                assert push(jobs), name
    assert asked(admin) == set()


def test_the_state_of_a_job_that_waits_is_told_without_a_look_into_the_queue(producer: App) -> None:
    jid = Jobs(producer).tracked.enqueue(7)
    status = producer.status(jid)
    assert (status.state, status.verified) == ("waiting", False)


ATTACKS: list[tuple[str | int, ...]] = [
    ("HSET", "pyworkers:configs", "billing", 1), ("HSET", "pyworkers:config:billing", 1, "{}"),
    ("XADD", "pyworkers:calls", "*", "call", "{}"), ("LPUSH", "host:1:aaaaaaaaaaaa-signals", "TERM"),
    ("HSET", "host:1:aaaaaaaaaaaa", "beat", 1), ("SADD", "processes", "host:1:aaaaaaaaaaaa"),
    ("XADD", "pyworkers:audit", "*", "who", "me"), ("XADD", "pyworkers:reports", "*", "x", "y"),
    ("HSET", "pyworkers:owners", "host:1:aaaaaaaaaaaa", "{}"), ("HSET", "pyworkers:gone", "host:1:aaaaaaaaaaaa", 1),
    ("SET", "pyworkers:lease:host:1:aaaaaaaaaaaa", 1), ("DEL", "pyworkers:lease:host:1:aaaaaaaaaaaa"),
    ("HSET", "pyworkers:limit:wide", "concurrent", 0), ("SET", "pyworkers:leader:main", "me"),
    ("HSET", "pyworkers:periodic:default:nightly", "paused", 1), ("SADD", "paused", "q"),
    ("DEL", "queue:q"), ("UNLINK", "queue:q"), ("EXPIRE", "queue:q", 0), ("SET", "queue:q", "x"),
    ("RENAME", "queue:q", "queue:p"), ("LTRIM", "queue:q", 1, 0), ("LREM", "queue:q", 0, "x"), ("RPOP", "queue:q"),
    ("LRANGE", "queue:q", 0, -1), ("RPOPLPUSH", "queue:q", "queue:p"), ("ZREM", "schedule", "x"),
    ("ZRANGE", "schedule", 0, -1), ("DEL", "schedule"), ("ZADD", "retry", 1, "x"), ("ZADD", "dead", 1, "x"),
    ("ZRANGE", "dead", 0, -1), ("INCRBY", "stat:processed", 1), ("DEL", "queues"), ("SREM", "queues", "q"),
    ("HGETALL", "pyworkers:tombstones"), ("PUBLISH", "pyworkers:configs", "x"), ("SUBSCRIBE", "pyworkers:calls"),
    ("FLUSHDB",), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("SCRIPT", "FLUSH"), ("KEYS", "*"), ("SCAN", 0),
    ("ACL", "LIST"), ("INFO",), ("MONITOR",), ("CLIENT", "LIST"), ("CLIENT", "KILL", "TYPE", "normal"), ("SHUTDOWN",),
    ("EVAL", "return redis.call('HSET', KEYS[1], 'x', 1)", 1, "pyworkers:configs"),
    ("EVAL", "return redis.call('HSET', 'pyworkers:configs', 'x', 1)", 0),
    ("EVAL", "return redis.call('DEL', KEYS[1])", 1, "queue:q"),
    ("EVAL", "return redis.call('EXPIRE', KEYS[1], 0)", 1, "schedule"),
    ("EVAL", "return redis.call('FLUSHALL')", 0),
    ("FUNCTION", "LIST"), ("MIGRATE", "h", 1, "queue:q", 0, 1), ("DUMP", "queue:q"), ("COPY", "queue:q", "queue:p"),
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: " ".join(map(str, attack))[:60])
def test_nothing_else_is_allowed(server: RedisServer, admin: Any, attack: tuple[str | int, ...]) -> None:
    admin.lpush("queue:q", "{}")
    before = {key: admin.dump(key) for key in admin.scan_iter()}
    with (
        closing(redis_py.Redis(port=server.port, username="producer", password=PASSWORD)) as stranger,
        pytest.raises(redis_py.ResponseError, match=r"(?i)permission|can't run this command|can't access"),
    ):
        stranger.execute_command(*attack)
    assert {key: admin.dump(key) for key in admin.scan_iter()} == before


def test_the_rules_fit_the_configuration(server: RedisServer, admin: Any) -> None:
    plain = QueueConfig("orders", format="plain", bare_list="demo.orders")
    first, line = access.lines(Config(namespace="a[b", broker="redis://h/3", queues=(plain,)), producer=True)
    assert first.startswith("# for Redis 7")
    keyless = "+client|setname +multi +exec +time +select resetchannels"
    assert line.startswith(f"ACL SETUSER producer reset on >PASSWORD {keyless} (")
    assert "(~a\\[b:queue:* +lpush +llen)" in line
    assert line.endswith(" (~demo.orders +lpush)")
    assert "secret" not in "".join(access.lines(Config(broker="redis://u:secret@h/0"), producer=True))
    admin.execute_command("ACL", "SETUSER", *line.split()[2:])  # the server understands it


@pytest.mark.server
@pytest.mark.parametrize("kind", [RedisServer, OldestRedis])
def test_without_brackets_a_server_of_release_6_2_takes_the_same_words(kind: type[RedisServer]) -> None:
    words = " ".join(access.producer_rules(Config())).replace("(", "").replace(")", "").split()
    with closing(kind(appendonly="no")) as server, closing(redis_py.Redis(port=server.port)) as admin:
        admin.execute_command("ACL", "SETUSER", "producer", "reset", "on", f">{PASSWORD}", *words)
        admin.acl_log_reset()
        with own_app(server.url.replace("//", f"//producer:{PASSWORD}@")) as app:
            jobs = Jobs(app)
            for push in PUSHES.values():
                push(jobs)
        assert asked(admin) <= {"smembers", "client"}  # 6.2 does not say that `client setinfo` was refused


def test_the_command_prints_them(call: Call, server: RedisServer) -> None:
    told = call("doctor", "--acl", "--producer", "--broker", server.url)
    assert (told.returncode, told.stdout.splitlines()) == (0, [*access.lines(Config(), producer=True)])
    assert "--producer needs --acl" in call("doctor", "--producer").stderr
