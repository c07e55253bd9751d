"""A limit of the code, with what the configuration says of it in [limit:NAME]."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from goworkers_py.config.options import Config
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.limits.limit import LimitSettings, LimitSpec

log = logging.getLogger(__name__)


def configured(limit: LimitSpec, config: Config) -> LimitSpec:
    told = next((one for one in config.limits if one.name == limit.name), None)
    if told is None:
        return limit
    concurrent = limit.concurrent if told.concurrent is None else told.concurrent
    rate = limit.rate if told.rate is None else told.rate
    if rate is not None and told.burst is not None:
        rate = rate._replace(burst=told.burst)
    return replace(limit, concurrent=concurrent, rate=rate)


def known_limits(declared: Mapping[str, LimitSpec], config: Config) -> list[LimitSettings]:
    """The limits of the code and of the configuration, by name. A limit of the configuration may be that of code that
    this process has not imported."""
    names = sorted({*declared, *(told.name for told in config.limits)})
    return [configured(declared.get(name) or LimitSpec(name), config).settings for name in names]


def check_limits(declared: Mapping[str, LimitSpec], config: Config) -> None:
    """Of a process whose code is imported. Programs may share a file: a limit may be that of another program's code."""
    for told in config.limits:
        if told.name not in declared:
            log.warning(
                "[limit:%s] does nothing here: no code of this program declares this limit%s Correct the name or "
                "delete the section, unless the limit is another program's",
                told.name,
                did_you_mean(told.name, declared) or ".",
            )
        elif told.burst is not None and configured(declared[told.name], config).rate is None:
            raise ConfigError(f"[limit:{told.name}]: burst needs a rate")
