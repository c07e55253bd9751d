"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess


class DelaysFeature(Feature):
    """Tasks are due at a time, in any program, and a persistence keeps them."""

    name = "delays"

    def redis(self) -> RedisPart:
        from goworkers_py.features.delays.redis_part import part

        return part()

    def access(self) -> FeatureAccess:
        from goworkers_py.features.delays.access import ACCESS

        return ACCESS


FEATURE = DelaysFeature()
