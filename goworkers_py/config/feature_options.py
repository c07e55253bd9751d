"""The options of features that have a section of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from goworkers_py.config.option_rows import FeatureSection, option
from goworkers_py.config.parsers import one_of, text, yes_or_no
from goworkers_py.core.values import dataclass
from goworkers_py.features import BY_NAME


@cache
def feature_sections() -> Mapping[str, type[FeatureSection]]:
    """The tables of the sections that the features have, by kind. They are loaded when a configuration is read."""
    return {table.kind: table for feature in BY_NAME for table in feature.sections()}


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
