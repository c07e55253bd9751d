"""Indexes, which are read page by page."""

from __future__ import annotations

import redis as redis_py

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.index import PAGE, last_changed_first


def test_a_name_that_another_one_has_moved_back_meanwhile_is_told_once(
    connections: Connections, redis: redis_py.Redis
) -> None:
    redis.zadd("index", {str(number): number for number in range(2 * PAGE)})
    pages = last_changed_first(connections, "index")
    first = next(pages)
    redis.zadd("index", {"0": 2 * PAGE})
    rest = [name for page in pages for name in page]
    assert first + rest == [str(number) for number in range(2 * PAGE - 1, 0, -1)]
