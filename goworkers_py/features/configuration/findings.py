"""The doctor's check of central configurations: processes that have not taken the newest version, or all of it."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.core.config_in_force import ConfigInForce
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.configuration.admin import CentralConfiguration
from goworkers_py.features.configuration.stored_config import StoredConfig, has_taken

# A process takes a version within half a minute, also where it was not told.
LATE_S = 60
PROBLEM, NOTE = True, False


def config_findings(inspector: Inspector) -> Iterator[Advice]:
    having = [(process.identity, process.config) for process in inspector.processes() if process.config is not None]
    stored = _stored(inspector) if having else {}
    now = inspector.now() if having else 0.0
    for identity, config in having:
        newest = stored.get(config.name)
        if newest is not None and not has_taken(config, newest) and now - newest.at > LATE_S:
            other = " with another text" if newest.version == config.applied else ""
            what = (
                f"process {identity} has {config.name} version {config.applied}, and the newest is {newest.version}"
                f"{other}"
            )
            yield Advice(PROBLEM, what, f"its log says why, at `{config.name} version`; then push a corrected text")
        if config.waiting:
            yield Advice(NOTE, f"process {identity} {_difference(config)}", "restart it when that suits")


def _stored(inspector: Inspector) -> dict[str, StoredConfig]:
    try:
        found: CentralConfiguration = inspector.configurations
    except ConfigError:  # another broker has them
        return {}
    return {config.name: config for config in found.newest()}


def _difference(config: ConfigInForce) -> str:
    waiting = ", ".join(config.waiting)
    return f"has {config.name} version {config.applied}, but this waits for its next start: {waiting}"
