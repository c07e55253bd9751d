"""The jobs of dead owners are recovered, each once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis as redis_py
from servers import RedisServer
from verbs import (
    KEYS,
    OTHER,
    OWNER,
    THIRD,
    Make,
    as_it_was,
    back,
    beat,
    child,
    consume_all,
    held,
    hold,
    job,
    leave,
    let_lease_run_out,
    promote_all,
    publish,
    recover,
    strand,
)
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence, Recovered
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.errors import BrokerUnavailable, PoisonPill
from goworkers_py.policy.poison import RecoveryDecision


def test_a_process_does_not_recover_its_own_jobs(make: Make, redis: redis_py.Redis) -> None:
    broker = make("another")
    strand(broker, job(1), owner=OWNER)
    let_lease_run_out(redis, OWNER)
    assert recover(broker, by_lease=True) == []
    beat(broker, OWNER)  # an expired lease is made again: no process has declared its owner dead
    assert recover(make(), by_lease=True, owner=OTHER) == []
    assert held(broker) == [job(1)]


def test_jobs_of_an_owner_whose_lease_ran_out_go_to_the_back_of_their_queue_in_order(
    make: Make, broker: RedisBroker, redis: redis_py.Redis
) -> None:
    strand(make("another"), *map(job, range(250)))
    publish(broker, job("waits"))
    let_lease_run_out(redis, OTHER)
    assert recover(broker, by_lease=False) == []
    recovered = recover(broker, by_lease=True)
    assert recovered == [back("q", OTHER, job(n)) for n in range(250)]
    assert held(broker, OTHER) == []
    assert consume_all(broker) == [job("waits"), *map(job, range(250))]


def test_every_queue_of_a_dead_owner_is_recovered(make: Make, broker: RedisBroker, redis: redis_py.Redis) -> None:
    other = make("another")
    beat(other, OTHER, ["a", "b", "empty"])
    for queue in "ab":
        hold(other, job(queue), owner=OTHER, queue=queue)
    let_lease_run_out(redis, OTHER)
    recovered = recover(broker, by_lease=True)
    assert sorted((one.queue, one.payload) for one in recovered) == [("a", job("a")), ("b", job("b"))]


def test_an_in_progress_key_of_a_wrong_type_does_not_stop_the_recovery_of_other_jobs(
    make: Make, broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    other = make("another")
    beat(other, OTHER, ["a", "b"])
    hold(other, job("b"), owner=OTHER, queue="b")
    redis.set(KEYS.inprogress("a", OTHER), "not a list")
    let_lease_run_out(redis, OTHER)
    assert [one.payload for one in recover(broker, by_lease=True)] == [job("b")]
    assert f"jobs of {OTHER} in queue a cannot be recovered: " in caplog.text


@pytest.mark.parametrize("jobs", [3, 250])
def test_the_judge_of_a_recovery_gets_which_jobs_can_have_begun_and_which_ran_alone(
    make: Make, broker: RedisBroker, jobs: int, redis: redis_py.Redis
) -> None:
    def judge(one: FoundJob) -> RecoveryDecision:
        found.append(one)
        return RecoveryDecision(one.payload)

    other, begun = make("another"), {3: 2, 250: 120}[jobs]
    other.recoverable.beat(Presence(OTHER, {"q": 1, "mail": 0}, alone="that of an earlier beat"))
    other.recoverable.beat(Presence(OTHER, {"q": begun, "mail": 1}, alone="abc"))
    hold(other, *map(job, range(jobs)), owner=OTHER)
    let_lease_run_out(redis, OTHER)
    found: list[FoundJob] = []
    assert len(list(broker.recoverable.recover(OWNER, judge, proof=""))) == jobs
    assert found == [FoundJob("q", OTHER, job(n), n < begun, "abc") for n in range(jobs)]


def test_a_recovered_job_goes_where_the_judge_says(make: Make, broker: RedisBroker, redis: redis_py.Redis) -> None:
    decisions = {
        job(1): RecoveryDecision(job("changed")),
        job(2): RecoveryDecision(job("buried"), PoisonPill("three times")),
        job(4): RecoveryDecision(job(4)),
    }
    strand(make("another"), *decisions)
    let_lease_run_out(redis, OTHER)
    recovered = list(broker.recoverable.recover(OWNER, lambda found: decisions[found.payload], proof=""))
    assert recovered == [Recovered("q", OTHER, raw, decision) for raw, decision in decisions.items()]
    assert held(broker, OTHER) == []
    assert promote_all(broker) == 0
    assert consume_all(broker) == [job("changed"), job(4)]


def test_a_job_that_reaches_the_list_of_a_dead_owner_later_is_recovered_too(
    make: Make, broker: RedisBroker, redis: redis_py.Redis
) -> None:
    other = make("another")
    strand(other, job(1))
    let_lease_run_out(redis, OTHER)
    recover(broker, by_lease=True)
    assert consume_all(other, OTHER) == [job(1)]  # the owner was frozen, and wakes in the middle of a fetch
    for by_lease in (False, True):
        assert recover(broker, by_lease=by_lease) == ([] if by_lease else [back("q", OTHER, job(1))])


@pytest.mark.parametrize("reaped", [True, False])
def test_jobs_of_a_process_that_ended_on_this_machine_are_recovered_at_once(
    redis_url: str, broker: RedisBroker, reaped: bool
) -> None:
    publish(broker, job(1))
    with child(redis_url, OTHER) as process:
        assert recover(broker, by_lease=False) == []
        process.kill()
        if reaped:
            process.wait()
        assert eventually(lambda: recover(broker, by_lease=False)) == [back("q", OTHER, job(1))]
    assert consume_all(broker) == [job(1)]


def test_processes_that_recover_at_the_same_time_recover_each_job_once(make: Make, redis: redis_py.Redis) -> None:
    other = make("another")
    owners = [f"there:{n}:bbbb" for n in range(4)]
    for owner in owners:
        strand(other, *(job(f"{owner}:{n}") for n in range(150)), owner=owner)
        let_lease_run_out(redis, owner)
    brokers = [make() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda broker: recover(broker, by_lease=True), brokers))
    recovered = Counter(one.payload for answer in answers for one in answer)
    assert recovered == Counter(job(f"{owner}:{n}") for owner in owners for n in range(150))
    fetched = consume_all(other)
    assert Counter(fetched) == recovered
    for owner in owners:
        mine = [raw for raw in fetched if owner.encode() in raw]
        assert mine == [job(f"{owner}:{n}") for n in range(150)]


def test_a_recovery_that_is_broken_off_has_yielded_the_jobs_that_it_moved(
    own_redis: RedisServer, own_broker: RedisBroker
) -> None:
    def break_off(found: FoundJob) -> RecoveryDecision:
        judged.append(found)
        if len(judged) == 2:
            own_redis.kill()
        return as_it_was(found)

    owners, judged = (OTHER, THIRD), list[FoundJob]()
    for owner in owners:
        strand(own_broker, job(owner), owner=owner)
        own_redis.client().delete(KEYS.lease(owner))
    recovering = own_broker.recoverable.recover(OWNER, break_off, proof="")
    first = next(recovering)
    with pytest.raises(BrokerUnavailable):
        next(recovering)
    own_redis.start()
    (second,) = recover(own_broker, by_lease=True)
    assert {first.payload, second.payload} == set(map(job, owners))
    assert consume_all(own_broker) == [first.payload, second.payload]


def test_recovered_jobs_count_neither_as_processed_nor_as_failed(broker: RedisBroker, redis: redis_py.Redis) -> None:
    strand(broker, job(1), owner=OWNER)
    leave(broker)
    assert redis.keys("stat:*") == []


def test_jobs_that_a_recovery_buries_count_as_processed_and_failed(broker: RedisBroker, redis: redis_py.Redis) -> None:
    decisions = {job(1): RecoveryDecision(job("buried"), PoisonPill("three times")), job(3): RecoveryDecision(job(3))}
    strand(broker, *decisions)
    redis.delete(KEYS.lease(OTHER))
    list(broker.recoverable.recover(OWNER, lambda found: decisions[found.payload], proof=""))
    assert (redis.get(KEYS.processed), redis.get(KEYS.failed)) == (b"1", b"1")
    assert redis.zrange(KEYS.dead, 0, -1) == [job("buried")]
