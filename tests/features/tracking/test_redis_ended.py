"""The index of ended jobs in Redis stays small, and never keeps a job from being settled."""

from __future__ import annotations

import time

import pytest
import redis as redis_py
from apps import job
from verbs import KEYS, Make, batch_of, publish
from waiting import eventually

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import Config
from goworkers_py.core.outcome import Done
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.record import ENDED_MOST
from goworkers_py.features.tracking.redis import RedisRecords, _Entry
from goworkers_py.features.tracking.redis_part import ended_key, record_key
from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.wire.stored_job import StoredJob

INDEX = ended_key(KEYS, "completed")


def complete(broker: RedisBroker, *jids: str, life_s: int = 60) -> None:
    publish(broker, *(job(jid=jid) for jid in jids))
    taken = broker.transport.consume("here:1:aaaa", [("q", len(jids))], len(jids))
    ends = [(one, Done(effects=(note(StoredJob(one.payload).jid, life_s),))) for one in taken]
    assert broker.transport.settle(batch_of(*ends)) == [True] * len(jids)


def note(jid: str, life_s: int = 60) -> NoteState:
    return NoteState(TrackedJob(jid, "Job"), "completed", "", life_s)


def members(redis: redis_py.Redis) -> list[str]:
    return [member.decode() for member in redis.zrange(INDEX, 0, -1)]


def test_the_newest_entries_are_kept(broker: RedisBroker, redis: redis_py.Redis) -> None:
    now = time.time()
    redis.zadd(INDEX, {f"old-{number}": now - ENDED_MOST + number for number in range(ENDED_MOST)})
    redis.expire(INDEX, 100_000)
    complete(broker, "a", "b", "c")
    assert redis.zcard(INDEX) == ENDED_MOST
    assert redis.zrange(INDEX, 0, 0) == [b"old-3"]
    assert {*members(redis)[-3:]} == {"a", "b", "c"}


def test_an_index_lives_twice_as_long_as_its_longest_record(broker: RedisBroker, redis: redis_py.Redis) -> None:
    complete(broker, "a", life_s=1_000)
    assert 1_990 <= redis.ttl(INDEX) <= 2_000
    complete(broker, "b", life_s=60)
    assert 1_990 <= redis.ttl(INDEX) <= 2_000
    complete(broker, "c", life_s=3_000)
    assert 5_990 <= redis.ttl(INDEX) <= 6_000


def test_the_longest_record_of_a_settlement_counts(broker: RedisBroker, redis: redis_py.Redis) -> None:
    publish(broker, job(jid="long"), job(jid="short"))
    taken = broker.transport.consume("here:1:aaaa", [("q", 2)], 2)
    ends = zip(taken, (1_000, 10), strict=True)
    broker.transport.settle(batch_of(*((one, Done(effects=(note(StoredJob(one.payload).jid, s),))) for one, s in ends)))
    assert 1_990 <= redis.ttl(INDEX) <= 2_000


def test_entries_whose_records_are_over_for_certain_leave_with_the_next_end(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    now = time.time()
    complete(broker, "a", life_s=1_000)
    redis.zadd(INDEX, {"over": now - 2_010, "may-live": now - 1_900})
    complete(broker, "b", life_s=10)
    assert members(redis) == ["may-live", "a", "b"]


def test_an_entry_of_a_long_record_stays_as_long_as_that_among_short_ones(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    """As if it had ended a while ago: its time and the life of the index are so much earlier."""
    complete(broker, "long", life_s=1_000)
    redis.zadd(INDEX, {"long": time.time() - 990})
    redis.expire(INDEX, redis.ttl(INDEX) - 990)
    complete(broker, "short", life_s=1)
    assert members(redis) == ["long", "short"]


@pytest.mark.parametrize("jids", [["a"], [f"{number:04}" for number in range(700)]])
def test_each_job_of_a_settlement_is_listed_also_among_jobs_with_other_effects(
    broker: RedisBroker, redis: redis_py.Redis, jids: list[str]
) -> None:
    complete(broker, *jids)
    publish(broker, job(jid="other"))
    [one] = broker.transport.consume("here:1:aaaa", [("q", 1)], 1)
    broker.transport.settle(batch_of((one, Done(effects=(note("other"), FreeLock("other", "Order:1"))))))
    assert sorted(members(redis)) == sorted([*jids, "other"])


def test_a_namespace_is_no_part_of_an_entry(make: Make, redis: redis_py.Redis) -> None:
    broker = make(namespace="pyworkers:job:ended:")
    complete(broker, "pyworkers:job:a b")
    assert [one.jid for one in broker.require_part(Records).ended("completed", None, 10).records] == [
        "pyworkers:job:a b"
    ]


def test_a_job_is_settled_though_another_program_has_written_that_key(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    redis.set(INDEX, "no index")
    complete(broker, "a")
    assert redis.get(INDEX) == b"no index"
    assert redis.lrange("queue:q:here:1:aaaa:inprogress", 0, -1) == []


def test_entries_that_tell_nothing_leave_when_they_are_read(broker: RedisBroker, redis: redis_py.Redis) -> None:
    complete(broker, "a", "other-release", "foreign")
    redis.zadd(INDEX, {"gone": time.time() - 1, b"\xff": time.time()})
    redis.hset(record_key(KEYS, "other-release"), "v", "2")
    redis.delete(record_key(KEYS, "foreign"))
    redis.set(record_key(KEYS, "foreign"), "no record")
    page = broker.require_part(Records).ended("completed", None, 10)
    assert ([one.jid for one in page.records], page.total) == (["a"], 3)
    assert sorted(members(redis)) == ["a", "foreign", "other-release"], "others may know what these are"


def test_an_end_that_another_release_has_written_is_not_told_by_the_entry_of_the_one_before(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    complete(broker, "a", "b")
    redis.hset(record_key(KEYS, "a"), "at", f"{time.time() + 5:.6f}")
    assert [one.jid for one in broker.require_part(Records).ended("completed", None, 10).records] == ["b"]


def test_an_entry_that_got_another_time_meanwhile_is_not_removed(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.zadd(INDEX, {"a": 2, "b": 1})
    records = broker.require_part(Records)
    assert isinstance(records, RedisRecords)
    records._forget(INDEX, [_Entry(b"a", b"1"), _Entry(b"b", b"1")])
    assert members(redis) == ["a"]


def test_large_results_are_not_read_with_the_list(broker: RedisBroker, redis: redis_py.Redis) -> None:
    complete(broker, "a")
    redis.hset(record_key(KEYS, "a"), "result", "x" * 1_000_000)
    before = redis.info("stats")["total_net_output_bytes"]
    [found] = broker.require_part(Records).ended("completed", None, 10).records
    assert found.result == b""
    assert redis.info("stats")["total_net_output_bytes"] - before < 500_000


def test_a_reader_who_may_not_write_reads_all_the_same(broker: RedisBroker, redis: redis_py.Redis, make: Make) -> None:
    complete(broker, "a")
    redis.zadd(INDEX, {"gone": time.time() - 1})
    redis.acl_setuser(
        "reader", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all", "-zrem", "-evalsha"]
    )
    try:
        address = redis.connection_pool.connection_kwargs
        url = f"redis://reader:secret@{address['host']}:{address['port']}/{address.get('db', 0)}"
        reader = RedisBroker(url, Config())
        assert [one.jid for one in reader.require_part(Records).ended("completed", None, 10).records] == ["a"]
        reader.close()
        assert members(redis) == ["gone", "a"]
    finally:
        redis.acl_deluser("reader")


def test_an_index_without_jobs_is_forgotten(broker: RedisBroker, redis: redis_py.Redis) -> None:
    complete(broker, "a", life_s=1)
    assert eventually(lambda: not redis.exists(INDEX))
