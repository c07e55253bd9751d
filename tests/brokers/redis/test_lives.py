"""What a feature writes about a job ends by itself: only queues, sets of jobs and registries live for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis as redis_py
from apps import job

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.features.batches.batch import BatchTie, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.chains.chain import LinkJob, NewChain
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.cursor import Cursor
from goworkers_py.features.unique.lock import LockClaim

OF = "1700000000.0"
VERSION = "pyworkers:tombstones:version"


def pushes_a_chain(broker: RedisBroker) -> None:
    broker.require_part(Chains).push(NewChain("c", [[LinkJob("q", job())]]))


def cancels_a_chain(broker: RedisBroker) -> None:
    pushes_a_chain(broker)
    broker.require_part(Chains).cancel("c")


def opens_a_batch(broker: RedisBroker) -> None:
    broker.require_part(Batches).open(NewBatch(Membership("b"), "", "hold"))


def cancels_a_batch(broker: RedisBroker) -> None:
    opens_a_batch(broker)
    broker.transport.publish([Push("q", job(), ties=(BatchTie("b"),))])
    broker.require_part(Batches).cancel("b")


def begins_an_iteration(broker: RedisBroker) -> None:
    broker.require_part(Iterations).begin("1", OF)


def cancels_a_job(broker: RedisBroker) -> None:
    broker.require_part(Cancels).ask("1", False)


def pushes_a_unique_job(broker: RedisBroker) -> None:
    broker.transport.publish([Push("q", job(), id="of the push", ties=(LockClaim("Job:one", "1", 60),))])


STEPS = {
    pushes_a_chain: {"queues", "queue:q", "pyworkers:chains"},
    cancels_a_chain: {"queues", "queue:q", "pyworkers:chains", VERSION},
    opens_a_batch: {"pyworkers:batches"},
    cancels_a_batch: {"queues", "queue:q", "pyworkers:batches", VERSION},
    begins_an_iteration: set(),
    cancels_a_job: {VERSION},
    pushes_a_unique_job: {"queues", "queue:q"},
}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_what_a_feature_writes_has_an_end(
    broker: RedisBroker, redis: redis_py.Redis, step: Callable[[RedisBroker], None]
) -> None:
    step(broker)
    assert {key.decode() for key in redis.scan_iter() if redis.ttl(key) == -1} == STEPS[step]
    assert redis.dbsize() > len(STEPS[step])


@pytest.mark.parametrize("step", [cancels_a_job, cancels_a_batch, cancels_a_chain], ids=lambda step: step.__name__)
def test_what_is_cancelled_is_told_to_all_processes(
    broker: RedisBroker, redis: redis_py.Redis, step: Callable[[RedisBroker], None]
) -> None:
    with redis.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe("pyworkers:tombstones")
        channel.get_message(timeout=5)
        step(broker)
        assert channel.get_message(timeout=5) is not None


def test_each_checkpoint_lets_the_cursor_live_on(broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.require_part(Iterations).begin("1", OF)
    redis.expire("it-1", 5)
    assert broker.require_part(Iterations).checkpoint("1", Cursor(1, "10", 1.0, OF))
    assert redis.ttl("it-1") > 5
