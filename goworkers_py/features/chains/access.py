"""The access rules of chains. They need those of batches too."""

from __future__ import annotations

from goworkers_py.brokers.redis.server.access import FeatureAccess, ProducerRight

ACCESS = FeatureAccess(
    producer=(
        ProducerRight("hget hset hdel hmget hlen hexists hsetnx hincrby expire", "pyworkers:chain:*"),
        ProducerRight("zadd zrem zcard zremrangebyscore", "pyworkers:chains"),
    ),
)
