"""The jobs of dead owners are recovered, each once."""

from __future__ import annotations

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
    consume_all,
    hold,
    job,
    leave,
    let_lease_run_out,
    recover,
    strand,
)

from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.policy.poison import RecoveryDecision


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
