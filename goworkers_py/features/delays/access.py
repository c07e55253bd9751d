"""The access rules of delay queues."""

from __future__ import annotations

from goworkers_py.brokers.redis.server.access import FeatureAccess, Rules

ACCESS = FeatureAccess(rules=(Rules("delay queues", "hmget", ""),))
