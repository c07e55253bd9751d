"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature, Follow

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess


class ChainsFeature(Feature):
    """Each job is pushed when the one before it has ended well. It uses batches: each link of a chain that was pushed
    in a batch joins that batch."""

    # Before batches in `features.NAMES`: the next link joins the batch before the end of the last one is counted.
    name = "chains"

    def followers(self) -> Mapping[str, Follow]:
        from goworkers_py.features.chains.end import of_chain
        from goworkers_py.features.chains.payload import CHAIN

        return {CHAIN: of_chain}

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.chains.memory import ChainTable

        return ChainTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.chains.redis_part import part

        return part()

    def access(self) -> FeatureAccess:
        from goworkers_py.features.chains.access import ACCESS

        return ACCESS

    # --- people

    commands = ("chains",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.chains.commands import chains

        return chains


FEATURE = ChainsFeature()
