"""The access rules of groups."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, ProducerRight, Rules


def _probes(keys: Keys) -> list[Probe]:
    return [("RENAMENX", keys.nothing, keys.nothing), ("UNLINK", keys.nothing)]


ACCESS = FeatureAccess(
    rules=(Rules("groups of jobs", "hlen hmget renamenx unlink srem", ""),),
    producer=(
        ProducerRight("hget hset hdel hmget hlen del llen rpush renamenx", "pyworkers:group:* pyworkers:group-set:*"),
        ProducerRight("sadd srem", "pyworkers:groups"),
        ProducerRight("zadd zrem zcard", "pyworkers:groups:*"),
    ),
    probes=_probes,
)
