"""The options of features that have a section of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from goworkers_py.config.option_rows import FeatureSection, option
from goworkers_py.config.parsers import (
    json_list,
    one_of,
    text,
    whole,
    yes_or_no,
)
from goworkers_py.core.values import dataclass
from goworkers_py.features import BY_NAME


@cache
def feature_sections() -> Mapping[str, type[FeatureSection]]:
    """The tables of the sections that the features have, by kind. They are loaded when a configuration is read."""
    return {table.kind: table for feature in BY_NAME for table in feature.sections()}


@dataclass(frozen=True, slots=True)
class PeriodicConfig:
    """A section [periodic:NAME]."""

    name: str
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


@dataclass(frozen=True, slots=True)
class EchoConfig:
    """The section [echo]."""

    queue: str = option(
        "", text, "queue of a Ruby process that acknowledges jobs of Ruby's batches and locks when they have ended here"
    )
    batches: bool = option(True, yes_or_no, "echo the jobs of Ruby's batches: yes or no")
    locks: str = option(
        "echo",
        one_of("echo", "native", "none"),
        "jobs that hold a lock of Ruby: echo them; free the locks of sidekiq-unique-jobs here (native); or none",
    )
