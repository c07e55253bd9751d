"""The cursors of iterable jobs in Redis."""

from __future__ import annotations

import redis as redis_py

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.features.iteration.contract import Iterations


def test_a_cursor_that_sidekiq_has_written_is_not_taken_for_ours(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """Sidekiq leaves the fields that it does not know."""
    iterations = broker.require_part(Iterations)
    first = iterations.begin("1", "2.0").cursor
    iterations.checkpoint("1", first._replace(value="10"))
    redis.hset("it-1", mapping={"ex": 2, "c": "77", "rt": "1.5"})
    assert iterations.begin("1", "2.0").foreign
    assert redis.hget("it-1", "c") == b"77"
