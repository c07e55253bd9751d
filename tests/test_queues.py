"""Queues as people read and change them, on a real server and while others work them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
from apps import fields, job, queue

from goworkers_py.admin.entries import PAGE, Entry, Filter
from goworkers_py.admin.queues import Queues
from goworkers_py.admin.stats import QueueStats
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys

ODD = "odd: name/of*a?queue [é]"


@pytest.fixture
def queues(redis_url: str) -> Iterator[Queues]:
    with closing(Connections(redis_url)) as connections:
        yield Queues(connections, Keys())


def push(redis: redis_py.Redis, count: int, name: str = "q") -> None:
    redis.sadd("queues", name)
    redis.lpush(f"queue:{name}", *(job("J", n, jid=f"jid-{n}") for n in range(count)))


def numbers(entries: list[Entry]) -> list[int]:
    return [entry.message.args[0] for entry in entries if entry.message]


def test_queues_are_those_that_were_pushed_to_and_those_that_are_paused(queues: Queues, redis: redis_py.Redis) -> None:
    push(redis, 2)
    push(redis, 1, ODD)
    redis.sadd("queues", "broken")
    redis.set("queue:broken", "no list")
    assert queues.pause("q")
    assert queues.pause("later")
    assert not queues.pause("later")
    assert [(one.name, one.size, one.paused) for one in queues.all()] == [
        ("later", 0, True), (ODD, 1, False), ("q", 2, True),
    ]  # fmt: skip
    assert queues.one(ODD) == QueueStats(ODD, 1, 0.0, False)
    assert queues.one("nobody's") is None
    assert queues.resume("q")
    assert not queues.resume("q")
    assert redis.smembers("paused") == {b"later"}


def test_the_next_jobs_come_in_the_order_in_which_they_run(queues: Queues, redis: redis_py.Redis) -> None:
    push(redis, 5)
    assert numbers(queues.next_jobs("q", 3)) == [0, 1, 2]
    assert numbers(queues.next_jobs("q", 9)) == [0, 1, 2, 3, 4]
    assert queues.next_jobs("q", 0) == []


def test_all_jobs_are_read_once_while_others_come_and_go(queues: Queues, redis: redis_py.Redis) -> None:
    count = 3 * PAGE
    push(redis, count)
    found, pages = [], queues.pages("q")
    for page in pages:
        found += numbers(page)
        redis.lpush("queue:q", job("J", -len(found)), job("J", -len(found) - 1))  # pushed
        redis.rpop("queue:q", 3)  # taken
    assert len(found) == len(set(found))
    assert found == sorted(found, reverse=True)
    assert set(range(20, count)) <= set(found)


def test_deleting_takes_exactly_what_was_wanted(queues: Queues, redis: redis_py.Redis) -> None:
    push(redis, 2 * PAGE + 10)
    odd_one = b'{"class":"J", "jid":"spaced","args":[1.0e+16]}'
    redis.lpush("queue:q", b"{no job", odd_one)

    def is_even(entry: Entry) -> bool:
        return entry.message is not None and entry.message.args[0] % 2 == 0

    assert sum(found for _, found in queues.delete("q", is_even, dry_run=True)) == PAGE + 6
    assert redis.llen("queue:q") == 2 * PAGE + 12
    steps = list(queues.delete("q", is_even, dry_run=False))
    assert (sum(looked for looked, _ in steps), sum(deleted for _, deleted in steps)) == (2 * PAGE + 12, PAGE + 6)
    assert fields(queue(redis)[:-1], "args") == [[n] for n in range(1, 2 * PAGE + 10, 2)]
    assert sum(deleted for _, deleted in queues.delete("q", Filter(match="no job").fits, dry_run=False)) == 1


def test_of_equal_payloads_those_are_deleted_that_were_seen(queues: Queues, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", *[job("Same")] * 3, job("Other"))
    assert list(queues.delete("q", Filter(job_class="Same").fits, dry_run=False)) == [(4, 3)]
    assert queue(redis) == [job("Other")]


def test_what_is_pushed_while_some_are_deleted_makes_none_of_them_be_passed_over(
    queues: Queues, redis: redis_py.Redis
) -> None:
    push(redis, 3 * PAGE)
    pushed = iter(range(4))

    def wanted(entry: Entry) -> bool:
        if entry.message and entry.message.args == [3 * PAGE - 1] and next(pushed, None) is not None:
            redis.lpush("queue:q", *[job("New")] * (3 * PAGE))  # more than is looked through
        return entry.message is not None and entry.message.job_class == "J"

    assert sum(deleted for _, deleted in queues.delete("q", wanted, dry_run=False)) == 3 * PAGE
    assert set(queue(redis)) == {job("New")}


def test_clearing_forgets_the_queue_and_no_other(queues: Queues, redis: redis_py.Redis) -> None:
    push(redis, 3, ODD)
    push(redis, 1)
    assert queues.clear(ODD) == 3
    assert queues.clear(ODD) == 0
    assert [one.name for one in queues.all()] == ["q"]
