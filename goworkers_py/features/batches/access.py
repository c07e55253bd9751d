"""The access rules of batches."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, ProducerRight, Rules
from goworkers_py.features.batches.redis_part import batch_key


def _probes(keys: Keys) -> list[Probe]:
    return [("HINCRBY", batch_key(keys, "doctor"), "total", 0)]


ACCESS = FeatureAccess(
    rules=(Rules("batches", "hmget hincrby", ""),),
    producer=(
        ProducerRight("hget hset hdel hmget hlen hexists hsetnx hincrby expire", "pyworkers:batch:*"),
        ProducerRight("zadd zrem zcard zremrangebyscore", "pyworkers:batches"),
        ProducerRight("lrange expire", "pyworkers:deaths:*"),
        # A block of a batch that fails cancels what it has pushed.
        ProducerRight("hset hdel expire publish", "pyworkers:tombstones", "pyworkers:tombstones"),
        ProducerRight("set", "pyworkers:tombstones:version"),
    ),
    probes=_probes,
)
