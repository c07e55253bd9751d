"""A limit of the code, with what the configuration says of it in [limit:NAME]."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from goworkers_py.config.options import Config
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.limit import LimitSpec

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


def check_limits(declared: Mapping[str, LimitSpec], config: Config) -> None:
    """Of a process whose code is imported. Programs may share a file: a limit may be that of another program's code."""
    for told in config.limits:
        if told.name not in declared:
            unknown = f"[limit:{told.name}]: no code declares this limit"
            if meant := did_you_mean(told.name, declared):
                raise ConfigError(unknown + meant)
            log.warning("%s", unknown)
        elif told.burst is not None and configured(declared[told.name], config).rate is None:
            raise ConfigError(f"[limit:{told.name}]: burst needs a rate")
