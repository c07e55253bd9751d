"""Reading and changing queues through the inspector, on a real server, while other programs push and fetch."""

from __future__ import annotations

from itertools import islice

import pytest
import redis as redis_py
from apps import fields, job, queue

from goworkers_py.admin.filter import Filter, Refined, Wanted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.jobs import Steps
from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.admin import PAGE, Changed
from goworkers_py.brokers.contracts.fleet import QueueStats
from goworkers_py.brokers.contracts.span import BEGINNING, Reached
from goworkers_py.core.errors import ArgumentError, BrokerRefused
from goworkers_py.wire.stored_job import StoredJob

ODD = "odd: name/of*a?queue [é]"


Q = waiting_in("q")


def push(redis: redis_py.Redis, count: int, name: str = "q") -> None:
    redis.sadd("queues", name)
    redis.lpush(f"queue:{name}", *(job("J", n, jid=f"jid-{n}") for n in range(count)))


def numbers(jobs: list[StoredJob]) -> list[int]:
    return [job.message.args[0] for job in jobs if job.message]


def test_a_queue_is_listed_once_it_was_pushed_to_or_paused(inspector: Inspector, redis: redis_py.Redis) -> None:
    push(redis, 2)
    push(redis, 1, ODD)
    redis.sadd("queues", "broken")
    redis.set("queue:broken", "no list")
    assert inspector.pause("q")
    assert inspector.pause("later")
    assert not inspector.pause("later")
    assert [(one.name, one.size, one.paused) for one in inspector.queues()] == [
        ("later", 0, True), (ODD, 1, False), ("q", 2, True),
    ]  # fmt: skip
    assert inspector.queue(ODD) == QueueStats(ODD, 1, 0.0, False)
    assert inspector.queue("nobody's") is None
    assert inspector.resume("q")
    assert not inspector.resume("q")
    assert redis.smembers("paused") == {b"later"}


def test_the_next_jobs_come_in_the_order_in_which_they_run(inspector: Inspector, redis: redis_py.Redis) -> None:
    push(redis, 5)
    assert numbers(inspector.first(Q, 3)) == [0, 1, 2]
    assert numbers(inspector.first(Q, 9)) == [0, 1, 2, 3, 4]
    assert inspector.first(Q, 0) == []


def test_all_jobs_are_read_once_while_others_are_pushed_and_fetched(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    count = 3 * PAGE
    push(redis, count)
    found, pages = [], inspector.pages(Q)
    for page in pages:
        found += numbers(page)
        redis.lpush("queue:q", job("J", -len(found)), job("J", -len(found) - 1))  # pushed
        redis.rpop("queue:q", 3)  # fetched
    assert len(found) == len(set(found))
    assert found == sorted(found, reverse=True)
    assert set(range(20, count)) <= set(found)


def deleted(steps: Steps) -> int:
    return sum(changed.done for _, changed in steps)


class Even(Wanted):
    def fits(self, job: StoredJob) -> bool:
        return job.message is not None and job.message.args[0] % 2 == 0


def test_exactly_the_wanted_jobs_are_deleted(inspector: Inspector, redis: redis_py.Redis) -> None:
    push(redis, 2 * PAGE + 10)
    odd_one = b'{"class":"J", "jid":"spaced","args":[1.0e+16]}'
    redis.lpush("queue:q", b"{no job", odd_one)
    assert deleted(inspector.delete(Q, Even(), dry_run=True)) == PAGE + 6
    assert redis.llen("queue:q") == 2 * PAGE + 12
    steps = list(inspector.delete(Q, Even()))
    assert (sum(looked for looked, _ in steps), deleted(iter(steps))) == (2 * PAGE + 12, PAGE + 6)
    assert fields(queue(redis)[:-1], "args") == [[n] for n in range(1, 2 * PAGE + 10, 2)]
    assert deleted(inspector.delete(Q, Filter(match="no job"))) == 1


def test_all_jobs_with_equal_payloads_are_deleted(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", *[job("Same")] * 3, job("Other"))
    assert list(inspector.delete(Q, Filter(job_class="Same"))) == [(4, Changed(3))]
    assert queue(redis) == [job("Other")]


def test_no_wanted_job_is_missed_when_others_are_pushed_during_the_deletion(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    push(redis, 3 * PAGE)
    pushed = iter(range(4))

    class OfJ(Wanted):
        def fits(self, one: StoredJob) -> bool:
            if one.message and one.message.args == [3 * PAGE - 1] and next(pushed, None) is not None:
                redis.lpush("queue:q", *[job("New")] * (3 * PAGE))  # more jobs than the queue held
            return one.message is not None and one.message.job_class == "J"

    assert deleted(inspector.delete(Q, OfJ())) == 3 * PAGE
    assert set(queue(redis)) == {job("New")}


def moved(steps: Steps) -> int:
    return sum(changed.done for _, changed in steps)


def test_the_wanted_jobs_are_moved_behind_those_of_another_queue(inspector: Inspector, redis: redis_py.Redis) -> None:
    push(redis, 2 * PAGE + 3)
    push(redis, 1, ODD)
    before = inspector.now()
    assert moved(inspector.move("q", ODD, Filter(match="1"), dry_run=True)) == 274
    assert inspector.queue("q").size == 2 * PAGE + 3
    assert moved(inspector.move("q", ODD, Filter(match="1"))) == 274
    there = inspector.first(waiting_in(ODD), 1000)
    assert numbers(there) == [0, *(n for n in range(2 * PAGE + 3) if "1" in str(n))]
    assert {(one.message.get("queue"), one.message.enqueued_at > before - 5) for one in there[1:]} == {(ODD, True)}
    assert [n for n in numbers(inspector.first(Q, 2000)) if "1" in str(n)] == []


def test_every_job_that_stays_is_looked_at_once_when_others_are_fetched_during_the_move(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    push(redis, 6 * PAGE)
    looked_at: list[int] = []

    class Even(Wanted):
        def fits(self, one: StoredJob) -> bool:
            assert one.message is not None
            [number] = one.message.args
            looked_at.append(number)
            if number % PAGE == PAGE - 20:
                redis.rpop("queue:q", 30)  # fetched
            return number % 2 == 0

    taken = moved(inspector.move("q", "o", Even()))
    stayed = numbers(inspector.first(Q, 6 * PAGE))
    assert len(looked_at) == len(set(looked_at))
    assert {*stayed} <= {*looked_at}
    assert [number for number in stayed if number % 2 == 0] == []
    assert taken == redis.llen("queue:o")


def test_a_move_goes_on_when_more_are_fetched_meanwhile_than_were_looked_at(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    push(redis, 6 * PAGE)
    fetches = iter([2 * PAGE, 2 * PAGE])

    class Even(Wanted):
        def fits(self, one: StoredJob) -> bool:
            assert one.message is not None
            [number] = one.message.args
            if number % PAGE == PAGE - 1 and (many := next(fetches, 0)):
                redis.rpop("queue:q", many)
            return number % 2 == 0

    list(inspector.move("q", "o", Even()))
    assert [number for number in numbers(inspector.first(Q, 6 * PAGE)) if number % 2 == 0] == []


@pytest.mark.parametrize("raw", [b"no job", job("Stays", jid="twice")])
def test_a_move_ends_in_a_queue_of_equal_jobs_that_stay(
    inspector: Inspector, redis: redis_py.Redis, raw: bytes
) -> None:
    redis.lpush("queue:q", *[raw] * (5 * PAGE))
    steps = islice(inspector.move("q", "o", Filter(job_class="J")), 100)
    assert sum(looked_at for looked_at, _ in steps) == 5 * PAGE


def test_jobs_are_moved_when_others_are_given_back_before_them_during_the_move(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    push(redis, PAGE)
    given_back = iter([[job("J", -n, jid=f"back-{n}") for n in range(20)]])

    def fits(one: StoredJob) -> bool:
        if jobs := next(given_back, []):
            redis.rpush("queue:q", *jobs)
        return True

    assert moved(inspector.move("q", "o", Refined(Filter(), fits))) == PAGE + 20
    assert queue(redis) == []


@pytest.mark.parametrize("fetched", [30, 2 * PAGE, 7 * PAGE])
def test_a_move_over_several_calls_misses_no_job_when_others_are_fetched_between_them(
    inspector: Inspector, redis: redis_py.Redis, fetched: int
) -> None:
    push(redis, 20 * PAGE)
    wanted = Refined(Filter(), lambda one: numbers([one])[0] % 10 == 0)
    start, calls = BEGINNING, 0
    while steps := list(islice(inspector.move("q", "o", wanted, start=start), 3)):
        start, calls = Reached.read(str(steps[-1][1].reached)), calls + 1
        redis.rpop("queue:q", fetched)
        assert calls < 20
    assert [one for one in numbers(inspector.first(Q, 20 * PAGE)) if one % 10 == 0] == []


def test_a_job_that_is_no_job_stays_and_a_key_that_is_no_list_gets_none(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    push(redis, 1)
    redis.lpush("queue:q", "no job")
    redis.set("queue:broken", "no list")
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        list(inspector.move("q", "broken"))
    assert redis.llen("queue:q") == 2
    [(_, changed)] = inspector.move("q", "o")
    assert (changed.done, len(changed.problems), queue(redis)) == (1, 1, [b"no job"])
    for wrong in ("q", ""):
        with pytest.raises(ArgumentError):
            inspector.move("q", wrong)


def test_clear_deletes_the_queue_and_no_other(inspector: Inspector, redis: redis_py.Redis) -> None:
    push(redis, 3, ODD)
    push(redis, 1)
    assert inspector.clear(waiting_in(ODD)) == 3
    assert inspector.clear(waiting_in(ODD)) == 0
    assert [one.name for one in inspector.queues()] == ["q"]
