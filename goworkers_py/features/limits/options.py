"""The options of a limit in the configuration."""

from __future__ import annotations

from goworkers_py.config.option_rows import NamedSection, option
from goworkers_py.config.parsers import whole
from goworkers_py.core.values import dataclass
from goworkers_py.features.limits.limit import MOST, Rate, rate_of


@dataclass(frozen=True, slots=True)
class LimitConfig(NamedSection):
    """A section [limit:NAME]: it overrides what the code says of this limit."""

    kind, example = "limit", "stripe"
    concurrent: int | None = option(None, whole(0, MOST), "jobs that run at once, over the whole fleet", central=True)
    rate: Rate | None = option(None, rate_of, "jobs that begin in a time, in the whole fleet: 100/minute", central=True)
    burst: int | None = option(None, whole(1, MOST), "jobs of a rate that begin at once after a pause", central=True)
