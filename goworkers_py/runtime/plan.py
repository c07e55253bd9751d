"""The plan of a daemon: the configuration, and the functions and links that the user's code registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from goworkers_py.config.options import Config, PoolConfig, QueueConfig
from goworkers_py.core.fence import Term
from goworkers_py.core.home import Destination
from goworkers_py.core.values import dataclass
from goworkers_py.links.around import Arounds
from goworkers_py.links.chain import Links, Middleware
from goworkers_py.links.handlers import Handlers
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alive.health_handlers import HealthHandler


@dataclass(frozen=True)
class Plan:
    config: Config
    queues: Sequence[QueueConfig]
    pools: Sequence[PoolConfig]  # each queue is in one of them
    registry: Registry
    handlers: Handlers
    links: Links
    queue_links: Mapping[str, Sequence[Middleware]]
    arounds: Arounds
    before_start: Sequence[Callable[[], None]]
    during_drain: Sequence[Callable[[], None]]
    on_health: Sequence[HealthHandler]
    # The brokers to which this process can relay pushes, by name.
    destinations: Callable[[], Mapping[str, Destination]] = dict
    term: Term | None = None  # in which the jobs run; None where they run behind no fence
    of_features: Mapping[str, Any] = field(default_factory=dict)  # by their names, see `Feature.planned`
