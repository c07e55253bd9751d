"""The options of features that have a section of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from goworkers_py.config.option_rows import FeatureSection, NamedSection
from goworkers_py.features import BY_NAME


@cache
def feature_sections() -> Mapping[str, type[FeatureSection]]:
    """The tables of the sections that the features have, by kind. They are loaded when a configuration is read."""
    return {table.kind: table for feature in BY_NAME for table in feature.sections()}


def named_sections() -> dict[str, type[NamedSection]]:
    """Those of the form [KIND:NAME]."""
    return {kind: table for kind, table in feature_sections().items() if issubclass(table, NamedSection)}
