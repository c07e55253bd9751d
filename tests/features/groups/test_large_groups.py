"""The members of a large group end in bounded steps. A worker that is killed between two of them loses nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import job, own_broker
from verbs import batch_of

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.outcome import Done, Outcome, Requeue
from goworkers_py.features.groups import redis as groups
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.end import AT_ONCE
from goworkers_py.features.groups.group import Group
from goworkers_py.features.groups.payload import field_of_set, group_of
from goworkers_py.features.groups.redis_part import entry_of, groups_key, groups_of_key
from goworkers_py.features.groups.run import GroupMembers, aggregate
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message

SET = Group("q", "Job", "g", "s")
LIST = "queue:q:me:inprogress"
ONE = job(jid="one")


class Worker:
    """Runs the job that aggregates a set, step by step."""

    def __init__(self, broker: RedisBroker, redis: redis_py.Redis) -> None:
        self._broker = broker
        self._redis = redis
        self._members = GroupMembers(broker, Registry(), lambda message: None, time.time)
        self._aggregation = aggregate(lambda message: Done(effects=(PushJobs("0", (Push("one", ONE),)),)))
        self.words: list[int] = []  # of each settlement

    def run(self) -> Outcome:
        """As one run of the job that is at the front of its queue. Its end is not settled."""
        raw = self._redis.rpoplpush("queue:q", LIST)
        message = Message(raw, "q")
        message.delivery = Delivery(raw, "q", "me")
        found = group_of(message.fields, "q")
        assert found is not None
        ended = self._members.begin(message, found)
        return self._members.after(message, found.group, self._aggregation(message)) if ended is None else ended

    def settle(self, outcome: Outcome) -> None:
        script = self._broker.connections.script

        def noted(called: Any, keys: Any, arguments: Any) -> Any:
            self.words.append(len(keys) + len(arguments))
            return script(called, keys, arguments)

        [raw] = self._redis.lrange(LIST, 0, -1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._broker.connections, "script", noted)
            assert self._broker.transport.settle(batch_of((Delivery(raw, "q", "me"), outcome))) == [True]

    def is_killed(self) -> None:
        self._redis.rpoplpush(LIST, "queue:q")


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def prepare(redis: redis_py.Redis, count: int) -> None:
    redis.flushdb()
    tracked = [job("Job", number, jid=f"{number}", track=True) for number in range(count)]
    redis.rpush("pyworkers:group-set:s", *tracked)
    redis.zadd("pyworkers:groups:Job", {'["q", "g"] s': "inf"})
    redis.sadd("pyworkers:groups", "Job")
    fields = {"class": "Job", "args": ["g"], "jid": "0", "queue": "q", "pyworkers": field_of_set(SET, is_ended=False)}
    redis.lpush("queue:q", json.dumps(fields))


def test_each_group_of_each_class_is_listed_once_in_order_however_many_there_are(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "PAGE", 3)
    monkeypatch.setattr(groups, "CLASSES", 2)
    wanted = [Group("q", f"Job{kind}", f"{name}") for kind in range(5) for name in range((0, 1, 3, 4, 8)[kind])]
    for place, group in enumerate(wanted):
        redis.sadd(groups_key(Keys()), group.job_class)
        redis.zadd(groups_of_key(Keys(), group.job_class), {entry_of(group): 1e9 + place})
    assert [entry.group for entry in broker.require_part(Groups).entries()] == wanted
    assert [entry.group for entry in broker.require_part(Groups).entries("Job3")] == [
        one for one in wanted if one.job_class == "Job3"
    ]


def test_a_step_does_not_grow_with_the_group(broker: RedisBroker, redis: redis_py.Redis) -> None:
    largest = dict[int, int]()
    for count in (AT_ONCE, 2 * AT_ONCE, 6 * AT_ONCE):
        prepare(redis, count)
        worker, steps = Worker(broker, redis), 0
        while redis.llen("queue:q"):
            worker.settle(worker.run())
            steps += 1
        largest[count] = max(worker.words)
        assert redis.lrange("queue:one", 0, -1) == [ONE]
        assert {redis.hget(f"pyworkers:job:{number}", "state") for number in range(count)} == {b"completed"}
        assert not redis.keys("pyworkers:group*")
        assert steps == (1 if count == AT_ONCE else count // AT_ONCE + 2)
    assert max(largest.values()) < 1.5 * largest[AT_ONCE]


def test_a_worker_that_is_killed_at_each_step_ends_each_member_once(broker: RedisBroker, redis: redis_py.Redis) -> None:
    prepare(redis, 3 * AT_ONCE)
    worker = Worker(broker, redis)
    while redis.llen("queue:q"):
        worker.run()
        worker.is_killed()  # before the settlement
        outcome = worker.run()
        worker.settle(outcome)
        assert isinstance(outcome, Requeue | Done)
        assert redis.lrange("queue:one", 0, -1) == [ONE]
    for number in range(3 * AT_ONCE):
        assert redis.hget(f"pyworkers:job:{number}", "n") == b"1"  # its state was written once
    assert not redis.keys("pyworkers:group*")
