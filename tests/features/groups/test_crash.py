"""Every member of a group is aggregated exactly once, wherever a process is killed."""

from __future__ import annotations

import json
from collections import defaultdict

import group_crash_points
import pytest
import redis as redis_py
from crash_points import lives
from group_crash_points import MEMBERS
from servers import RedisServer


def aggregated(redis: redis_py.Redis) -> dict[str, list[str]]:
    """The members of each job that has run instead of some, by its jid. Its run may be there twice."""
    return dict(json.loads(raw)["args"] for raw in redis.lrange("queue:ran", 0, -1))


@pytest.mark.parametrize(
    ("what", "stride"),
    [
        ("flush", 83),
        ("aggregate", 191),
        ("join", 503),
        pytest.param("flush", 4, marks=pytest.mark.slow),
        pytest.param("aggregate", 11, marks=pytest.mark.slow),
        pytest.param("join", 18, marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_every_member_is_aggregated_exactly_once_wherever_its_process_is_killed(
    own: RedisServer, what: str, stride: int
) -> None:
    redis = own.client()
    steps = [step for step, _ in lives(group_crash_points, what, own.url, stride)]
    before = len(aggregated(redis))
    assert lives(group_crash_points, "finish", own.url, stride, steps[-1]) == []
    times: defaultdict[str, int] = defaultdict(int)
    for numbers in aggregated(redis).values():
        assert what == "join" or numbers == sorted(numbers)
        for number in numbers:
            times[number] += 1
    print(f"{what}: {len(steps)} daemons, of which {before} had run the one job")
    assert times == {f"{step}.{number}": 1 for step in steps for number in range(MEMBERS)}
    assert 0 < before < len(steps)
    assert redis.keys("pyworkers:group*") == []
