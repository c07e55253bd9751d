"""A job whose queue and whose store are on two servers is never lost, wherever its process is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
import two_server_crash_points
from crash_points import lives
from harness import as_it_was
from servers import RedisServer
from two_server_crash_points import CHILDREN, OUTCOMES, Process

pytestmark = pytest.mark.server


STRIDES = pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])


@pytest.fixture
def other(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        yield server


def left(redis: redis_py.Redis, step: int) -> int:
    """How often the job is in its queue or in progress."""
    in_progress = sum(redis.llen(key) for key in redis.keys(f"queue:parents-{step}:*:inprogress"))
    return redis.llen(f"queue:parents-{step}") + in_progress


def run_again(queues: RedisServer, store: RedisServer, outcome: str, steps: list[int]) -> None:
    """As a process does that recovers the jobs of the dead ones."""
    with closing(Process(queues.url, store.url)) as process:
        list(process.queues.recoverable.recover(process.identity, as_it_was, None))
        for step in steps:
            process.settle(step, OUTCOMES[outcome](step))


@STRIDES
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_job_that_is_done_is_done_with_all_its_effects_and_these_happen_once(
    own_redis: RedisServer, other: RedisServer, stride: int
) -> None:
    queues, store = own_redis.client(), other.client()
    steps = [step for step, _ in lives(two_server_crash_points, own_redis.url, other.url, "done", stride)]
    again = [step for step in steps if left(queues, step)]
    twice = [step for step in again if store.exists(f"pyworkers:value:result:parent-{step}")]
    print(f"{len(steps)} processes, {len(again)} jobs run again, {len(twice)} of them twice")
    for step in set(steps) - set(again):
        assert store.exists(f"pyworkers:value:result:parent-{step}"), "acknowledged before the store was written"
    run_again(own_redis, other, "done", again)
    assert [left(queues, step) for step in steps] == [0] * len(steps)
    assert [store.llen(f"queue:children-{step}") for step in steps] == [CHILDREN] * len(steps)
    assert store.zcard("schedule") == len(steps)
    assert int(store.get("stat:processed")) == len(steps) + len(twice)
    assert twice, "no process was killed between the two servers"


@STRIDES
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_job_that_failed_is_among_the_retries_or_runs_again(
    own_redis: RedisServer, other: RedisServer, stride: int
) -> None:
    queues, store = own_redis.client(), other.client()
    steps = [step for step, _ in lives(two_server_crash_points, own_redis.url, other.url, "retry", stride)]
    retries = {member for member, _ in store.zscan_iter("retry")}
    for step in steps:
        stored = sum(f'"parent-{step}"'.encode() in member for member in retries)
        assert left(queues, step) + stored >= 1, f"step {step}: the job is lost"
    run_again(own_redis, other, "retry", [step for step in steps if left(queues, step)])
    assert store.zcard("retry") == len(steps)
    assert [left(queues, step) for step in steps] == [0] * len(steps)
