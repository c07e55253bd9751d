"""The access rules of tracking."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, ProducerRight, Rules
from goworkers_py.features.tracking.redis_part import record_key


def _probes(keys: Keys) -> list[Probe]:
    return [("PUBLISH", record_key(keys, "doctor:1:aaaaaaaaaaaa"), "")]


ACCESS = FeatureAccess(
    rules=(
        Rules("lists of ended jobs", "ttl", ""),
        Rules("results at once", "publish subscribe unsubscribe", "", channels="pyworkers:*"),
    ),
    producer=(
        ProducerRight("hget hset hlen hgetall del expire", "pyworkers:job:*"),
        ProducerRight("subscribe unsubscribe", channels="pyworkers:job:*", scripted=False),
    ),
    probes=_probes,
)
