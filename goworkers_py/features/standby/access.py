"""The access rules of elections."""

from __future__ import annotations

from goworkers_py.brokers.redis.server.access import FeatureAccess, Rules

ACCESS = FeatureAccess(rules=(Rules("standby", "pexpire pttl", "", lambda config: config.standby),))
