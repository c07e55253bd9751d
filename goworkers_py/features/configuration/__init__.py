"""Central configurations: stored in the broker with versions, and taken by the processes while they run.

`pyworkers config push` checks a text and stores it as the newest version of its name. A process with --config-from
starts from the newest version, over its local file (`start`). Then its thread `configuration` looks for newer ones
(`service`), and gives its launchers what can change while they run (`config_change`). The rest waits for the next
start, and the process names it (`differences`). Everybody who may write to the broker could write such a text, so it
holds only options that change how much a process does, see `central`.

In the engine: `central=True` in the rows of `config.options`, `core.config_in_force` (what a process tells of its
configuration), and the group `config` of commands in `cli/config.py`.

- `stored_config`: a version.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`: the broker that does it.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`: people.

For users: docs/central-configuration.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature, SourceFlag

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.cli.base import LocalSettings
    from goworkers_py.config.options import Config
    from goworkers_py.features.configuration.contract import Configurations
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.runtime.daemon import AnyLauncher
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.runtime.service import Service
    from goworkers_py.web.site.table import FeaturePages


class ConfigurationFeature(Feature):
    """Configurations are stored in the broker, with versions, and processes take them."""

    contract, kept = "Configurations", "central configurations"
    verbs = "ConfigurationVerbs"
    source = SourceFlag(
        "config_from",
        "NAME",
        "take threads, weights, limits and other numbers from this central configuration in the broker",
    )

    # --- processes

    def configured_from(self, name: str, local: LocalSettings) -> Config:
        from goworkers_py.features.configuration.start import configured_from

        return configured_from(name, local)

    def summary(self, plans: Sequence[Plan]) -> Iterator[str]:
        from goworkers_py.core.errors import ConfigError
        from goworkers_py.features.configuration.start import CentralSource

        source = plans[0].config.origin if plans else None
        if isinstance(source, CentralSource):
            if source.fault:
                raise ConfigError(source.fault)
            if source.ignored:
                yield f"warning: {source.ignored}"

    def of_daemon(self, launchers: Sequence[AnyLauncher], config: Config) -> Collection[Service]:
        if config.origin is None:
            return ()
        from goworkers_py.features.configuration.service import taker_of

        return taker_of(launchers, config)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Configurations] | None:
        if family == "redis":
            from goworkers_py.features.configuration.redis import RedisConfigurations

            return lambda broker: RedisConfigurations(broker.connections, broker.keys, broker.listener)
        return None

    def redis(self) -> RedisPart:
        from goworkers_py.features.configuration.redis_part import part

        return part()

    # --- people

    commands = tuple(f"config {name}" for name in ("push", "rollback", "list", "show", "diff", "delete"))

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.configuration import commands

        word = name.split()[-1]
        found: click.Command = getattr(commands, "list_" if word == "list" else word)
        return found

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.configuration.findings import config_findings

        return {"configuration": lambda: config_findings(inspector)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.configuration.views import PAGES

        return PAGES


FEATURE = ConfigurationFeature()
