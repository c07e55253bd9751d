"""The options of a periodic job in the configuration."""

from __future__ import annotations

from typing import Any

from goworkers_py.config.option_rows import NamedSection, option
from goworkers_py.config.parsers import json_list, one_of, text, whole
from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class PeriodicConfig(NamedSection):
    """A section [periodic:NAME]."""

    kind, example = "periodic", "nightly"
    of_partitions = False  # its jobs are those of the main broker
    cron: str = option("", text, "minute, hour, day, month and weekday, such as 0 3 * * *")
    every: int = option(0, whole(1), "instead of `cron`: seconds between two jobs, as multiples since 1970")
    timezone: str = option("UTC", text, "time zone of `cron`, such as Europe/Berlin")
    class_: str = option("", text, "class of the jobs, in any language")
    queue: str = option("", text, "queue of the jobs; empty: that of the class in this program, or default")
    args: tuple[Any, ...] = option((), json_list, 'arguments as JSON, such as ["eu", 7]')
    catch_up: str = option(
        "latest",
        one_of("none", "latest", "all"),
        "what was missed while no process ran: none of it, the latest, or all, in order",
    )
    overlap: str = option(
        "allow",
        one_of("allow", "skip", "queue"),
        "while the last job has not ended: allow another one, skip it, or queue it behind the last one",
    )
