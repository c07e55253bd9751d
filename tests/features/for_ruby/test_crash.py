"""A job of a batch of Ruby ends and has its echo, or goes on and has none, wherever its process is killed."""

from __future__ import annotations

import json

import echo_crash_points
import pytest
from crash_points import lives
from echo_crash_points import payload_of
from servers import RedisServer


@pytest.mark.parametrize("stride", [31, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_job_that_is_killed_has_one_echo_when_it_has_ended_and_else_none(own: RedisServer, stride: int) -> None:
    """Two echoes of one job would end a batch of two jobs early."""
    steps, redis, ended = [step for step, _ in lives(echo_crash_points, own.url, stride)], own.client(), 0
    for step in steps:
        lists = [f"queue:ruby-{step}", *redis.keys(f"queue:ruby-{step}:*:inprogress")]
        goes_on = [raw for key in lists for raw in redis.lrange(key, 0, -1)]
        echoes = redis.lrange(f"queue:echoes-{step}", 0, -1)
        assert [json.loads(raw)["jid"] for raw in (*goes_on, *echoes)] == [str(step)]
        assert echoes in ([], [payload_of(step)])
        ended += len(echoes)
    print(f"{len(steps)} daemons, of which {ended} have ended their job")
    assert 0 < ended < len(steps)
