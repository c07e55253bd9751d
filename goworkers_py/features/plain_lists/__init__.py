"""Plain lists: jobs whose bodies other programs push without class, jid or options.

A queue of plain format has a level for a list of Redis, or a queue of RabbitMQ, that other programs know (`options`,
`queue_rules`). A process fetches bare bodies from it; fetching, settling and recovering them is the engine's part, see
`core.levels`. To be run, a body becomes a job in memory (`payload`), with what its message says beside it
(`properties`). One function, or the message class of the channel, runs all of them (`handler`), by the codec of the
queue or by the content type (`content`). The job is stored only where its body must wait, for a retry for example.

In the engine: `core.levels`, `policy.bodies`, `wire.codecs`, `Client.push_body`, and the settlements of brokers.

- `message`: `message.properties`.
- `contract`, `redis`, `memory`: the lists of the other program's own consumers. `commands`: `recover --plain`, which
  takes back the bodies that they left.
- `access`: the access rules.

For users: docs/plain-lists.md and docs/rabbitmq-bodies.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.parts import CommandLine, Queues
    from goworkers_py.features.plain_lists.contract import PlainLists


class PlainListsFeature(Feature):
    """Other programs push bodies without class, jid or options."""

    uses = ("messages",)
    contract = "PlainLists"
    queue_options = "PlainListOptions"
    message = "BodyMessage"

    def queues(self) -> Queues:
        from goworkers_py.features.plain_lists.queue_rules import QUEUES

        return QUEUES

    def command_line(self) -> CommandLine:
        from goworkers_py.features.plain_lists.commands import COMMAND_LINE

        return COMMAND_LINE

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


FEATURE = PlainListsFeature()
