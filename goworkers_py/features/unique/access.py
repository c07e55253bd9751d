"""The access rules of unique jobs."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, ProducerRight, Rules
from goworkers_py.features.unique.redis_part import lock_key


def _probes(keys: Keys) -> list[Probe]:
    return [("HLEN", lock_key(keys, "Job")), ("HMGET", lock_key(keys, "Job"), "")]


ACCESS = FeatureAccess(
    rules=(Rules("unique jobs", "hlen hmget ttl persist", ""),),
    producer=(ProducerRight("hget hset hmget hlen hexists ttl exists del expire", "pyworkers:lock:*"),),
    probes=_probes,
)
