"""Hashes of batches, chains, groups and processes whose fields another program has damaged: the lists still show the
others, and a leader's followers go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_py

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.fleet import sidekiq_metrics
from goworkers_py.features.standby import redis as leadership
from goworkers_py.features.standby.contract import News

DEEP = b"[" * 100_000


def push_batch(app: App, name: str) -> None:
    with app.batch(name):
        app.enqueue("q", "J", [name])


def push_chain(app: App, name: str) -> None:
    job = app.job(f"Link{name}", queue="q")(print)
    app.chain(job.s(1), job.s(2)).enqueue()


def push_group(app: App, name: str) -> None:
    job = app.job(f"Member{name}", queue="q")(print)
    job.set(group=name).enqueue(1)


LISTS: dict[str, tuple[Callable[[App, str], None], Callable[[App], Any]]] = {
    "batch": (push_batch, lambda app: app.inspector.batches.all()),
    "chain": (push_chain, lambda app: app.inspector.chains.all()),
    "group": (push_group, lambda app: app.inspector.groups()),
}


@pytest.mark.parametrize("damage", [b"damage", DEEP])
@pytest.mark.parametrize("of", LISTS)
def test_a_list_shows_all_though_the_fields_of_one_are_damaged(
    app: App, redis: redis_py.Redis, of: str, damage: bytes
) -> None:
    push, shown = LISTS[of]
    for name in "ab":
        push(app, name)
    damaged, _ = [key for key in redis.keys(f"pyworkers:{of}:*") if redis.type(key) == b"hash" and redis.hlen(key) > 2]
    for field in redis.hgetall(damaged):
        if field != b"v":
            redis.hset(damaged, field, damage)
    assert len([*shown(app)]) == 2


@pytest.mark.parametrize("info", [DEEP, b'{"a":' * 50_000, b"\xff", b"[]"])
def test_a_process_is_shown_whose_information_is_damaged(app: App, redis: redis_py.Redis, info: bytes) -> None:
    redis.sadd("processes", "other")
    redis.hset("other", mapping={"info": info, "beat": "soon", "busy": "many", "rss": "1e999"})
    redis.hset("other:work", "thread", info)
    assert [process.identity for process in app.inspector.processes()] == ["other"]
    assert [run.identity for run in app.inspector.running()] == ["other"]
    assert sidekiq_metrics._version(info) == ""


@pytest.mark.parametrize(
    "message", [DEEP, b'{"what":"beat","epoch":1e999,"identity":"me","successor":""}', b"[]", b"1"]
)
def test_news_of_a_leader_that_cannot_be_read_count_as_missed(message: bytes) -> None:
    assert leadership._news(message) == News()


def test_a_process_of_go_workers2_whose_beat_is_no_number_may_live(app: App, redis: redis_py.Redis) -> None:
    redis.sadd("processes", "other")
    redis.hset("other", mapping={"beat": "soon", "worker_heartbeats": '["queue:q:go:inprogress"]'})
    neighbours = app.client.broker.neighbours
    assert neighbours is not None
    assert neighbours.lives("go")
    redis.hset("other", "beat", time.time() - 120)
    assert not neighbours.lives("go")


@pytest.mark.parametrize("progress", [DEEP, b"[" + b"1" * 400 + b', null, "", 0]', b"[]", b"1"])
def test_the_state_of_a_job_is_shown_whose_progress_is_damaged(
    app: App, redis: redis_py.Redis, progress: bytes
) -> None:
    job = app.job("Tracked", queue="q", track=True)(print)
    jid = job.enqueue()
    redis.hset(f"pyworkers:job:{jid}", "progress", progress)
    status = app.status(jid)
    assert (status.state, status.progress) == ("waiting", None)
