"""Changes of all jobs of a span of time, on three real shards: each shard decides where the span begins and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
from apps import own_app
from harness_shards import ShardServers
from wsgi_client import Answer, Client

from goworkers_py import App
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.contracts.admin import PAGE, Place
from goworkers_py.core.errors import ArgumentError
from goworkers_py.web import application
from goworkers_py.web.views import bulk

NOW = 1_700_000_000.0
STATES = {"schedule": "scheduled", "retry": "retry", "dead": "dead"}
STATES = {"schedule": "scheduled", "retry": "retry", "dead": "dead"}
PLACES = pytest.mark.parametrize(("key", "place"), [("schedule", SCHEDULED), ("retry", RETRIES), ("dead", DEAD)])


@pytest.fixture(scope="session")  # the servers start before the fixtures that check what a test leaves behind
def shard_servers(server_program: str) -> Iterator[ShardServers]:
    with closing(ShardServers()) as servers:
        yield servers


@pytest.fixture
def shards(shard_servers: ShardServers) -> ShardServers:
    for server in shard_servers.servers:
        with redis_py.Redis.from_url(server.url) as client:
            client.flushdb()
    return shard_servers


@pytest.fixture
def app(shards: ShardServers) -> Iterator[App]:
    with own_app(shards.address) as made:
        yield made


@pytest.fixture
def client(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


def job(shard: int, number: int, job_class: str = "Mail") -> str:
    return json.dumps({"class": job_class, "args": [], "jid": f"j{shard}-{number}", "queue": "mail", "retry": True})


def fill(shards: ShardServers, key: str, count: int, every: int = 1) -> None:
    """Each shard has `count` jobs, one a second: the last shard from NOW on, each other one from an hour later than the
    shard behind it. Each `every`-th job is of class Rare."""
    for shard, server in enumerate(shards.servers):
        began = NOW + 3_600 * (2 - shard)
        with redis_py.Redis.from_url(server.url) as client:
            client.zadd(key, {job(shard, n, "Rare" if n % every == 0 else "Mail"): began + n for n in range(count)})


def left(shards: ShardServers, key: str) -> list[list[bytes]]:
    found = []
    for server in shards.servers:
        with redis_py.Redis.from_url(server.url) as client:
            found.append(client.zrange(key, 0, -1))
    return found


def deleted(app: App, place: Place, wanted: Filter) -> int:
    return sum(changed.done for _, changed in app.inspector.delete(place, wanted))


@PLACES
@pytest.mark.parametrize("count", [20, PAGE + 20])
def test_all_jobs_since_a_time_are_changed_on_every_shard(
    app: App, shards: ShardServers, key: str, place: Place, count: int
) -> None:
    fill(shards, key, count)
    assert deleted(app, place, Filter(since=NOW + 3_600 + 10)) == 2 * count - 10
    assert list(map(len, left(shards, key))) == [0, 10, count]


@PLACES
@pytest.mark.parametrize("count", [20, PAGE + 20])
def test_all_jobs_until_a_time_are_changed_on_every_shard(
    app: App, shards: ShardServers, key: str, place: Place, count: int
) -> None:
    fill(shards, key, count)
    for shard, server in enumerate(shards.servers):  # jobs that are early, on every shard
        with redis_py.Redis.from_url(server.url) as client:
            client.zadd(key, {job(shard, 10_000 + n): NOW - 100 + n for n in range(5)})
    assert deleted(app, place, Filter(until=NOW)) == 16
    assert list(map(len, left(shards, key))) == [count, count, count - 1]


def test_a_span_is_read_on_each_shard_and_not_what_comes_before_it(app: App, shards: ShardServers) -> None:
    fill(shards, "retry", 3 * PAGE)
    steps = [*app.inspector.delete(RETRIES, Filter(since=NOW + 2_000, until=NOW + 4_000))]
    assert sum(changed.done for _, changed in steps) == 401
    assert sum(looked_at for looked_at, _ in steps) <= 2 * PAGE


def test_what_one_call_has_left_another_one_goes_on_with(app: App, shards: ShardServers) -> None:
    """One step a call, on every shard from where the last one had come."""
    fill(shards, "dead", 2 * PAGE + 10, every=3)
    done, calls, reached = 0, 0, None
    while True:
        started = {} if reached is None else {"start": reached}
        step = next(iter(app.inspector.delete(DEAD, Filter(job_class="Rare"), **started)), None)
        if step is None:
            break
        calls, done, reached = calls + 1, done + step[1].done, step[1].reached
    assert done == 3 * 337
    assert calls < 15
    assert {json.loads(raw)["class"] for jobs in left(shards, "dead") for raw in jobs} == {"Mail"}


# --- the pages


def go_on(client: Client, path: str, told: Answer) -> int:
    rounds = 1
    while "go_on" in told.json:
        told = client.api(path, told.json["go_on"]["fields"])
        rounds += 1
    assert told.status == 200
    return rounds


@pytest.fixture
def in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)  # each request makes one step


@pytest.mark.usefixtures("in_slices")
@PLACES
@pytest.mark.parametrize("fields", [{}, {"since": str(NOW + 10), "until": str(NOW + 7_600)}], ids=["all", "of a span"])
def test_slices_of_a_page_meet_the_jobs_of_every_shard(
    client: Client, shards: ShardServers, key: str, place: Place, fields: dict[str, str]
) -> None:
    fill(shards, key, 2 * PAGE + 20, every=3)
    path = "/api/jobs/delete"
    told = client.api(path, {"state": STATES[key], "all": True, "class": "Rare", **fields})
    assert go_on(client, path, told) > 6
    rare = [raw for jobs in left(shards, key) for raw in jobs if json.loads(raw)["class"] == "Rare"]
    outside = [job(2, n, "Rare") for n in range(0, 10, 3)]
    outside += [job(0, n, "Rare") for n in range(0, 2 * PAGE + 20, 3) if n > 400]
    assert sorted(raw.decode() for raw in rare) == sorted(outside if fields else [])


@pytest.mark.usefixtures("in_slices")
def test_slices_of_a_queue_meet_every_job_though_workers_take_those_of_one_shard(
    client: Client, shards: ShardServers
) -> None:
    for shard, server in enumerate(shards.servers):
        with redis_py.Redis.from_url(server.url) as redis:
            redis.sadd("queues", "mail")
            redis.lpush("queue:mail", *(job(shard, n, "Rare" if n % 50 == 0 else "Mail") for n in range(3 * PAGE)))
    path = "/api/jobs/delete"
    told = client.api(path, {"state": "waiting", "queue": "mail", "all": True, "class": "Rare"})
    while "go_on" in told.json:
        with redis_py.Redis.from_url(shards.servers[0].url) as redis:
            redis.rpop("queue:mail", 300)
        told = client.api(path, told.json["go_on"]["fields"])
    classes = set()
    for server in shards.servers:
        with redis_py.Redis.from_url(server.url) as redis:
            classes |= {json.loads(raw)["class"] for raw in redis.lrange("queue:mail", 0, -1)}
    assert classes == {"Mail"}


def test_a_change_cannot_go_on_on_a_shard_that_there_is_not(app: App, client: Client, shards: ShardServers) -> None:
    fill(shards, "dead", 5)
    [step, *_] = app.inspector.delete(DEAD, Filter(job_class="None"))
    elsewhere = step[1].reached._replace(part="z")
    with pytest.raises(ArgumentError, match="no shard z"):
        list(app.inspector.delete(DEAD, Filter(), start=elsewhere))
    fields = {"state": "dead", "all": True, "reached": str(elsewhere)}
    assert client.api("/api/jobs/delete", fields).status == 400
    assert list(map(len, left(shards, "dead"))) == [5, 5, 5]


def test_jobs_of_a_queue_on_shards_are_no_jobs_of_a_time(app: App) -> None:
    with pytest.raises(ArgumentError, match="wait for no time"):
        app.broker.admin.jobs_in(waiting_in("mail")).before(NOW)
