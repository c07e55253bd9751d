"""An atomic job ends with all its children or runs again with none, wherever a process or the server is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import crash_points
import pytest
import redis as redis_py
from apps import job, own_broker
from crash_points import CHILDREN, lives
from servers import RedisServer
from verbs import OWNER

from goworkers_py.brokers.contracts.transport import Push, SettlementBatch
from goworkers_py.core.effect import PushJobs
from goworkers_py.core.outcome import Done


@pytest.fixture
def own(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer(auto_aof_rewrite_percentage="0")) as server:
        yield server


def assert_whole(redis: redis_py.Redis, step: int) -> bool:
    """Returns whether the parent has ended."""
    left = redis.llen(f"queue:parents-{step}")
    in_progress = sum(redis.llen(key) for key in redis.keys(f"queue:parents-{step}:*:inprogress"))
    children = redis.llen(f"queue:children-{step}")
    assert (left + in_progress, children) in ((1, 0), (0, CHILDREN)), f"step {step}"
    return children > 0


@pytest.mark.parametrize("stride", [29, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_daemon_that_is_killed_at_any_step_of_the_end_leaves_the_job_or_all_its_children(
    own: RedisServer, stride: int
) -> None:
    redis, killed = own.client(), set[bool]()
    for offset in range(0, stride, 7):
        steps = lives(crash_points, own.url, stride, offset)
        print(f"{len(steps)} daemons")
        ended = [assert_whole(redis, step) for step, _ in steps]
        assert ended[-1], "the one that survived"
        killed |= set(ended[:-1])
        if killed == {False, True}:
            break
    # Some were killed before the settlement, and some after it, where fewer steps may be left than a stride has.
    assert killed == {False, True}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_server_whose_file_ends_at_any_byte_of_the_settlement_has_the_job_or_all_its_children(
    own: RedisServer, stride: int
) -> None:
    """A power failure cuts the append-only file off anywhere. The server then loads what is whole."""
    redis = own.client()
    with own_broker(own.url) as broker:
        broker.transport.publish([Push("parents-1", job("Parent"))])
        [parent] = broker.transport.consume(OWNER, [("parents-1", 1)], 1)
        before = redis.info("persistence")["aof_current_size"]
        pushes = PushJobs("jid", tuple(Push("children-1", job("Child", number)) for number in range(CHILDREN)))
        batch = SettlementBatch("settler", 1, [(parent, Done(effects=(pushes,)))])
        assert broker.transport.settle(batch) == [True]
        after = redis.info("persistence")["aof_current_size"]
    last, ended = own.append_only_file, [assert_whole(redis, 1)]
    size = last.stat().st_size
    for cut in range(1, after - before + 1, stride):
        own.kill()
        if last.stat().st_size > size - cut:  # else the server has cut off as much itself, when it loaded the file
            os.truncate(last, size - cut)
        own.start()
        ended.append(assert_whole(redis, 1))
    print(f"{len(ended)} files, {sum(ended)} with the end of the job")
    assert ended == sorted(ended, reverse=True)
    assert {False, True} == set(ended)
