"""Jobs of Ruby's batches that people delete or kill have an echo, in the step of the move."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_broker

from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.admin import Change, Place
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.job_state import JobState
from goworkers_py.features.for_ruby.options import EchoConfig

OURS = b'{"class":"A","jid":"j","bid":"b1","args":[],"queue":"py"}'
OTHER = b'{"class":"A","jid":"k","args":[],"queue":"py"}'
DEAD, RETRY = Place(JobState.DEAD), Place(JobState.RETRY)


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url, sections=(EchoConfig("echoes"),)) as broker:
        yield broker


def echoes(redis: redis_py.Redis) -> list[dict[str, Any]]:
    told = [json.loads(raw) for raw in redis.lrange("queue:echoes", 0, -1)]
    return [{"jid": one["jid"], "retry": one["retry"], **one["pyworkers_echo"]} for one in told]


def change(broker: RedisBroker, place: Place, to: Place | None) -> None:
    jobs = broker.admin.jobs_in(place)
    assert sum(one.done for _, one in jobs.change(lambda page: [Change(job, to, job.payload) for job in page])) == 2


@pytest.mark.parametrize("place", [waiting_in("py"), RETRY])
def test_a_deleted_job_of_a_batch_has_one_echo(broker: RedisBroker, redis: redis_py.Redis, place: Place) -> None:
    redis.lpush("queue:py", OURS, OTHER)
    redis.zadd("retry", {OURS: 1, OTHER: 1})
    change(broker, place, None)
    assert echoes(redis) == [{"jid": "j", "retry": False, "v": 1, "end": "cancelled"}]
    assert redis.sismember("queues", "echoes")


def test_a_killed_job_has_one_echo_and_its_deletion_afterwards_none(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """Two echoes would end a batch of two jobs early."""
    redis.zadd("retry", {OURS: 1, OTHER: 1})
    change(broker, RETRY, DEAD)
    assert echoes(redis) == [{"jid": "j", "retry": False, "v": 1, "end": "dead"}]
    change(broker, DEAD, None)
    assert len(echoes(redis)) == 1


def test_a_job_that_people_retry_has_no_echo(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {OURS: 1, OTHER: 1})
    change(broker, DEAD, waiting_in("py"))
    assert (echoes(redis), redis.llen("queue:py")) == ([], 2)


def test_a_job_is_not_killed_while_its_echo_cannot_be_written(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.zadd("retry", {OURS: 1})
    redis.set("queue:echoes", "no list")
    [(_, changed)] = broker.admin.jobs_in(RETRY).change(lambda page: [Change(job, DEAD, job.payload) for job in page])
    assert (changed.done, redis.zcard("retry"), redis.zcard("dead")) == (0, 1, 0)
    assert "WRONGTYPE" in changed.problems[0]
