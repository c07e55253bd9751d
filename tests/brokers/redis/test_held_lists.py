"""How many jobs are in progress, with many processes of many queues: nearly all of their lists are empty."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import redis as redis_py
from apps import job, own_app

from goworkers_py import App
from goworkers_py.brokers.redis.driver import connection as connection_module
from goworkers_py.brokers.redis.keys import Keys

OWNERS = [f"host:{number}:aaaaaaaaaaaa" for number in range(30)]
QUEUES = [f"q{number:03}" for number in range(100)]


@pytest.fixture
def app(redis_url: str, redis: redis_py.Redis) -> Iterator[App]:
    entry = json.dumps({"queues": dict.fromkeys(QUEUES, 1), "origin": {}})
    redis.hset("pyworkers:owners", mapping=dict.fromkeys(OWNERS, entry))
    with own_app(redis_url) as made:
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """The commands that were sent to the server."""
    commands: list[Sequence[Any]] = []
    converse = connection_module.converse

    def noted(connection: Any, several: Sequence[Any]) -> list[Any]:
        commands.extend(several)
        return converse(connection, several)

    monkeypatch.setattr(connection_module, "converse", noted)
    return commands


def hold(redis: redis_py.Redis, lists: int) -> int:
    """Some jobs in so many lists. Returns how many jobs."""
    keys, chance, count = Keys(), random.Random(lists), 0
    for queue, owner in chance.sample([(queue, owner) for queue in QUEUES for owner in OWNERS], lists):
        several = [
            job("J", count + number, jid=f"{queue} {owner} {number}") for number in range(chance.randrange(1, 4))
        ]
        redis.lpush(keys.inprogress(queue, owner), *several)
        count += len(several)
    return count


@pytest.mark.parametrize("lists", [0, 1, 70, 1_000, 3_000])
def test_every_job_in_progress_is_counted_and_shown(app: App, redis: redis_py.Redis, lists: int) -> None:
    count = hold(redis, lists)
    assert app.inspector.stats().in_progress == count
    shown = [*app.inspector.in_progress()]
    assert len({one.job.jid for one in shown}) == len(shown) == count
    assert {f"{one.queue} {one.owner.identity}" for one in shown} == {one.job.jid.rpartition(" ")[0] for one in shown}
    owners = app.inspector.owners()
    assert app.inspector.held(owners) == count
    assert sum(app.inspector.held(owners, queue) for queue in QUEUES[:5]) == sum(one.queue < "q005" for one in shown)


def test_empty_lists_cost_few_commands(app: App, redis: redis_py.Redis, sent: list[Sequence[Any]]) -> None:
    count = hold(redis, 20)
    for ask in (lambda: app.inspector.stats().in_progress, lambda: len([*app.inspector.in_progress()])):
        sent.clear()
        assert ask() == count
        assert len(sent) < len(OWNERS) * len(QUEUES) / 4


def test_a_list_that_is_none_hides_no_other_one(app: App, redis: redis_py.Redis) -> None:
    redis.set(Keys().inprogress(QUEUES[0], OWNERS[0]), "no list")
    redis.lpush(Keys().inprogress(QUEUES[1], OWNERS[0]), job("J"))
    assert app.inspector.stats().in_progress == 1
    assert [one.queue for one in app.inspector.in_progress()] == [QUEUES[1]]
