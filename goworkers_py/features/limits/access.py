"""The access rules of limits."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, ProducerRight, Rules
from goworkers_py.features.limits.redis_part import places_key


def _probes(keys: Keys) -> list[Probe]:
    return [("PERSIST", places_key(keys, "limit"))]


ACCESS = FeatureAccess(
    rules=(Rules("limits", "hlen hmget persist srem sscan", ""),),
    # A push reads what a limit allows, and takes a place or joins a line.
    producer=(
        ProducerRight("hmget hlen", "pyworkers:limit:*"),
        ProducerRight("hget hset hdel hmget hlen hexists persist expire del", "pyworkers:slot:*"),
        ProducerRight("lpush llen", "pyworkers:line:*"),
        ProducerRight("zadd zcard", "pyworkers:limits:due"),
        ProducerRight("sadd srem", "pyworkers:lines"),
    ),
    probes=_probes,
)
