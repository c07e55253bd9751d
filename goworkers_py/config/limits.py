"""A limit of the code, with what the configuration says of it in [limit:NAME]."""

from __future__ import annotations

from dataclasses import replace

from goworkers_py.config.options import Config
from goworkers_py.core.limit import LimitSpec


def configured(limit: LimitSpec, config: Config) -> LimitSpec:
    told = next((one for one in config.limits if one.name == limit.name), None)
    if told is None:
        return limit
    concurrent = limit.concurrent if told.concurrent is None else told.concurrent
    rate = limit.rate if told.rate is None else told.rate
    if rate is not None and told.burst is not None:
        rate = rate._replace(burst=told.burst)
    return replace(limit, concurrent=concurrent, rate=rate)
