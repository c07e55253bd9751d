"""Plain lists: jobs whose bodies other programs push without class, jid or options.

A queue of plain format has a level for a list of Redis, or a queue of RabbitMQ, that other programs know (`options`,
`queue_rules`). A process fetches bare bodies from it; fetching, settling and recovering them is the engine's part, see
`core.levels`. To be run, a body becomes a job in memory (`payload`), with what its message says beside it
(`properties`). One function, or the message class of the channel, runs all of them (`handler`), by the codec of the
queue or by the content type (`content`). Only where a body must wait, for a retry say, is the job stored.

- `message`: `message.properties`.
- `contract`, `redis`, `memory`: the lists of the other program's own consumers. `commands`: `recover --plain`, which
  takes back what they left.
- `access`: the access rules.

For users: docs/plain-lists.md and docs/rabbitmq-bodies.md.
"""

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
