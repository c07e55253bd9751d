"""The access rules of iterable jobs."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, Rules
from goworkers_py.features.iteration.redis_part import iteration_key


def _probes(keys: Keys) -> list[Probe]:
    return [("HGET", iteration_key(keys, "doctor"), "")]


ACCESS = FeatureAccess(rules=(Rules("iterable jobs", "hget", "it-*"),), probes=_probes)
