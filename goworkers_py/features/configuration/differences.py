"""The options in which two configurations differ, by name: `timeout`, `[queue:mail] concurrency`, `[pool:web]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goworkers_py.config.feature_options import feature_sections, named_sections
from goworkers_py.config.option_rows import NamedSection
from goworkers_py.config.options import Config, options_of

SECTION = ""  # in the place of an option's name: that the section is there


def differences(old: Config, new: Config) -> set[str]:
    """A section that only one of them has is one difference."""
    before, after = dict(_values(old)), dict(_values(new))
    differing = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    alone = {section for section, name in differing if name == SECTION}
    return alone | {f"{section} {name}".strip() for section, name in differing if section not in alone}


def _values(config: Config) -> Iterator[tuple[tuple[str, str], Any]]:
    """Each value by its section, which is empty for [pyworkers], and its name."""
    yield from _options("", config)
    yield from _options("[middleware]", config.middleware)
    yield from _options("[web]", config.web)
    yield from _of_features(config)
    for partition in config.partitions:
        yield from _section("partition", partition)
    for partition in config.partitions:
        for name, value in partition.said.items():
            yield (f"[partition:{partition.name}]", name), value
    for queue in (*config.queues, *(queue for partition in config.partitions for queue in partition.queues)):
        yield from _section("queue", queue)
    for pool in (*config.pools, *(pool for partition in config.partitions for pool in partition.pools)):
        yield from _section("pool", pool)


def _of_features(config: Config) -> Iterator[tuple[tuple[str, str], Any]]:
    for kind, table in feature_sections().items():
        if kind not in named_sections():
            yield from _options(f"[{kind}]", config.section_of(table))
    for section in config.sections:
        if isinstance(section, NamedSection):
            yield from _section(section.kind, section)


def _section(kind: str, section: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    title = f"[{kind}:{section.name}]"
    yield (title, SECTION), True
    # The queues of a partition are compared one by one.
    yield from (pair for pair in _options(title, section) if pair[0] != (title, "queues") or kind != "partition")


def _options(title: str, table: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    for name, row in options_of(type(table)).items():
        yield (title, name), getattr(table, row.name)
