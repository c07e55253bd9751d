"""The doctor's check of groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis as redis_py
from apps import job, own_broker
from calls import Call

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.brokers.redis.admin.admin import RedisAdmin
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.effect import Push
from goworkers_py.core.job_state import JobState
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings

GROUP = Group("billing", "Invoice", "user:7")


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def push(broker: RedisBroker, *jids: str, settings: GroupSettings | None = None) -> None:
    joining = GroupMembership(GROUP, settings or GroupSettings(grace_s=3600))
    broker.transport.publish([Push(GROUP.queue, job("Invoice", jid=jid), ties=(joining,)) for jid in jids])


def flushed(broker: RedisBroker) -> tuple[Group, bytes]:
    """A set, and the payload of the job that aggregates it."""
    push(broker, "a", settings=GroupSettings(max_size=1))
    [of_set] = broker.require_part(Groups).due("Invoice", 1).groups
    field = {"v": 1, "needs": ["group"], "group": {"name": "user:7", "queue": "billing", "set": of_set.set}}
    raw = job("Invoice", jid="aggregation", pyworkers=field)
    assert broker.require_part(Groups).flush(of_set, of_set, raw) == 1
    return of_set, raw


@pytest.mark.usefixtures("on_this_server")
def test_the_doctor_tells_of_groups_that_nobody_aggregates(
    broker: RedisBroker, call: Call, redis: redis_py.Redis
) -> None:
    push(broker, "a", "b")
    assert "(groups)" not in call("doctor").stdout
    redis.zadd("pyworkers:groups:Invoice", {'["billing", "user:7"]': time.time() - 100}, xx=True)
    [line] = [line for line in call("doctor").stdout.splitlines() if "(groups)" in line]
    assert line == (
        "problem (groups): 1 group of class Invoice with 2 jobs is overdue; start a process whose code has its "
        "@Invoice.aggregate"
    )


@pytest.mark.usefixtures("on_this_server")
def test_the_doctor_tells_of_a_set_whose_job_is_gone(broker: RedisBroker, call: Call, redis: redis_py.Redis) -> None:
    of_set, raw = flushed(broker)
    assert "is in no place" not in call("doctor").stdout
    redis.delete("queue:billing")
    [line] = [line for line in call("doctor").stdout.splitlines() if "(groups)" in line]
    command = f"groups flush Invoice user:7 --queue billing --set {of_set.set}"
    assert line.endswith(f"to push it again: pyworkers {command}")
    assert call(*command.split()).returncode == 0
    assert broker.require_part(Groups).flush(of_set, of_set, raw) == 1
    assert redis.lrange("queue:billing", 0, -1) == [raw]


def test_a_set_whose_job_fails_during_the_look_is_not_told(
    broker: RedisBroker, inspector: Inspector, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_set, raw = flushed(broker)
    jobs_in = RedisAdmin.jobs_in

    def failing(self: RedisAdmin, place: Place) -> Any:
        found = jobs_in(self, place)
        if place.state is not JobState.RETRY:
            return found
        pages = [*found.pages()]
        redis.delete("queue:billing")
        redis.zadd("retry", {raw: time.time() + 60})
        return SimpleNamespace(pages=lambda: pages)

    monkeypatch.setattr(RedisAdmin, "jobs_in", failing)
    assert inspector.sets_without_job([of_set]) == []
