"""The access rules of calls and reports."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, Rules
from goworkers_py.features.calls.redis_part import calls_key


def _probes(keys: Keys) -> list[Probe]:
    return [("XRANGE", calls_key(keys), "-", "+")]


ACCESS = FeatureAccess(rules=(Rules("commands with answers", "xadd xrange xrevrange", ""),), probes=_probes)
