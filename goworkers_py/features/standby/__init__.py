"""Standby: of several processes with `standby` one works, and the others are ready to take over.

The processes find their *leader* in an *election*. Its lease is a record in the broker, and is the lease of a fence,
see `core.fence`: all that a leader writes passes this fence, so one that was paused for too long changes nothing when
it goes on. A `standby` stands in the place of a launcher. Its `elector` looks at the lease, bids, renews and resigns;
for each term that it wins, the thread of `service` starts a launcher of its own, on a broker behind the fence. A
process that stands by is shown to the fleet by `follower_report`.

In the engine: `core.fence`, `links.term`, the fences of the brokers (`brokers/redis/driver/fencing`,
`brokers/memory/fenced_state`), and the options `standby`, `leader_lease` and `prefer_leader` in `config.options`.
RabbitMQ gives the jobs of a queue to one process by itself, see `Broker.one_consumer`.

- `election`: the values, and the functions of `on_lead` and `on_follow`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `admin`: the verb of the inspector. `commands`, `views`, `metrics`, `access`: people.

For users: docs/standby.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.parts import Figures
    from goworkers_py.features.standby.contract import Leadership
    from goworkers_py.runtime.daemon import AnyLauncher, PartitionWork
    from goworkers_py.web.site.table import FeaturePages


class StandbyFeature(Feature):
    """One process of several works, and the others are ready to take over."""

    contract, kept = "Leadership", "elections of a leader"
    # A queue service checks no epoch.
    kept_beside = False
    verbs = "ElectionVerbs"
    commands = ("leader",)

    def launcher(self, work: PartitionWork) -> AnyLauncher | None:
        if not work.plan.config.standby or work.broker.one_consumer:
            return None
        from goworkers_py.features.standby.standby import Standby

        return Standby(work)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Leadership] | None:
        if family == "redis":
            from goworkers_py.features.standby.redis import RedisLeadership, patience_s

            return lambda broker: RedisLeadership(
                broker.unfenced(patience_s(broker.config)), broker.keys, broker.listener
            )
        if family == "memory":
            from goworkers_py.features.standby.memory import MemoryLeadership

            return lambda broker: MemoryLeadership(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.standby.memory import ElectionTable

        return ElectionTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.standby.redis_part import part

        return part()

    # --- people

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.standby.commands import leader

        return leader

    def access(self) -> FeatureAccess:
        from goworkers_py.features.standby.access import ACCESS

        return ACCESS

    def figures(self) -> Figures:
        from goworkers_py.features.standby.metrics import FIGURES

        return FIGURES

    def pages(self) -> FeaturePages:
        from goworkers_py.features.standby.views import PAGES

        return PAGES


FEATURE = StandbyFeature()
