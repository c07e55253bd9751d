"""The access rules of what sidekiq-status shows."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.access import FeatureAccess, Probe, Rules
from goworkers_py.features.ruby_status.redis_part import channel, status_key
from goworkers_py.features.ruby_status.status import CHANNEL


def _probes(keys: Keys) -> list[Probe]:
    return [("TTL", status_key(keys, "doctor")), ("PUBLISH", channel(keys), "")]


ACCESS = FeatureAccess(
    rules=(Rules("status of sidekiq-status", "ttl publish", "sidekiq:status:*", channels=CHANNEL),), probes=_probes
)
