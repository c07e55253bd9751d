"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature, Follow

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.broker import Broker
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.core.effect import Push


class BatchesFeature(Feature):
    """Jobs whose ends are counted together, with callbacks at the end."""

    name = "batches"

    def followers(self) -> Mapping[str, Follow]:
        from goworkers_py.features.batches.end import of_batch
        from goworkers_py.features.batches.payload import BATCH

        return {BATCH: of_batch}

    def refused_late(self, pushes: Sequence[Push], broker: Callable[[], Broker]) -> Sequence[Push]:
        from goworkers_py.features.batches.late_pushes import in_no_batch

        return in_no_batch(pushes, lambda: broker().batches)

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.batches.memory import BatchTable

        return BatchTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.batches.redis_part import part

        return part()

    def access(self) -> FeatureAccess:
        from goworkers_py.features.batches.access import ACCESS

        return ACCESS

    # --- people

    commands = ("batches",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.batches.commands import batches

        return batches


FEATURE = BatchesFeature()
