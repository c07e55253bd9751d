"""A limit of the code, as its section [limit:NAME] changes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from goworkers_py.config.options import Config
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.limits.limit import LimitSettings, LimitSpec
from goworkers_py.features.limits.options import LimitConfig

log = logging.getLogger(__name__)


def configured(limit: LimitSpec, config: Config) -> LimitSpec:
    section = next((section for section in config.sections_of(LimitConfig) if section.name == limit.name), None)
    if section is None:
        return limit
    concurrent = limit.concurrent if section.concurrent is None else section.concurrent
    rate = limit.rate if section.rate is None else section.rate
    if rate is not None and section.burst is not None:
        rate = rate._replace(burst=section.burst)
    return replace(limit, concurrent=concurrent, rate=rate)


def known_limits(declared: Mapping[str, LimitSpec], config: Config) -> list[LimitSettings]:
    """The limits of the code and of the configuration, by name. A limit of the configuration may be that of code that
    this process has not imported."""
    names = sorted({*declared, *(section.name for section in config.sections_of(LimitConfig))})
    return [configured(declared.get(name) or LimitSpec(name), config).settings for name in names]


def check_limits(declared: Mapping[str, LimitSpec], config: Config) -> None:
    """Of a process whose code is imported. Programs may share a file: a limit may be that of another program's code."""
    for section in config.sections_of(LimitConfig):
        if section.name not in declared:
            log.warning(
                "[limit:%s] does nothing here: no code of this program declares this limit%s Correct the name or "
                "delete the section, unless the limit is another program's",
                section.name,
                did_you_mean(section.name, declared) or ".",
            )
        elif section.burst is not None and configured(declared[section.name], config).rate is None:
            raise ConfigError(f"[limit:{section.name}]: burst needs a rate")
