"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.cli.recovery_flag import RecoveryFlag
    from goworkers_py.config.job_options import CodeOptions
    from goworkers_py.config.options import QueueConfig
    from goworkers_py.features.plain_lists.contract import PlainLists
    from goworkers_py.policy.registry import QueueHandler, Registry
    from goworkers_py.wire.properties import Properties


class PlainListsFeature(Feature):
    """Other programs push bodies without class, jid or options."""

    name = "plain_lists"
    contract = "PlainLists"
    queue_options = "PlainListOptions"
    message = "BodyMessage"

    def checked_queue(self, queue: QueueConfig, place: str) -> QueueConfig:
        from goworkers_py.features.plain_lists.queue_rules import with_list

        return with_list(queue, place)

    def handler_of(self, queue: QueueConfig, registry: Registry) -> tuple[QueueHandler, CodeOptions] | None:
        if not queue.bare_list:
            return None
        from goworkers_py.features.plain_lists.handler import plain_handler

        return plain_handler(queue, registry)

    def job_of_body(self, body: bytes, queue: str, at: float, properties: Properties | None) -> bytes:
        from goworkers_py.features.plain_lists.payload import wrapped

        return wrapped(body, queue, at, properties)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], PlainLists] | None:
        if family == "redis":
            from goworkers_py.features.plain_lists.redis import RedisPlainLists

            return lambda broker: RedisPlainLists(broker.connections)
        if family == "memory":
            from goworkers_py.features.plain_lists.memory import MemoryPlainLists

            return lambda broker: MemoryPlainLists()
        return None

    def access(self) -> FeatureAccess:
        from goworkers_py.features.plain_lists.access import ACCESS

        return ACCESS

    # --- people

    def flags_of_recovery(self) -> Collection[RecoveryFlag]:
        from goworkers_py.features.plain_lists.commands import PLAIN

        return (PLAIN,)


FEATURE = PlainListsFeature()
