"""The rows of the tables of options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import field
from typing import Any, ClassVar, TypeVar

from goworkers_py.core.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FeatureSection:
    """A section [KIND] of the configuration that belongs to a feature: the base class of its table."""

    kind: ClassVar[str]  # "echo"
    of_partitions: ClassVar[bool] = True  # it counts in each partition; else only for the main broker

    def check_queues(self, queues: Collection[str]) -> None:
        """Raises ConfigError when a process cannot work these queues with this section."""


@dataclass(frozen=True, slots=True)
class NamedSection(FeatureSection):
    """A section [KIND:NAME], of which there may be many."""

    example: ClassVar[str]  # a name, for errors and the sample
    name: str


def option(
    default: T,
    parse: Callable[[str], T],
    about: str,
    flag: str = "",
    secret: bool = False,
    alias: str = "",
    central: bool = False,
) -> T:
    """A row of the table. `flag` is a short flag for the command line; a `secret` value is not in the repr; `alias` is
    the option's other name, which every source accepts as well; a `central` option may stand in a central configuration
    too, see `features.configuration.central`: it names no code, file, user or address."""
    metadata = {"parse": parse, "help": about, "flag": flag, "alias": alias, "central": central}
    return field(default=default, metadata=metadata, repr=not secret)


def options_of(section: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The rows of a section's table. Those of features, which it inherits, stand last."""
    rows = {_name_of(row): row for row in dataclasses.fields(section) if "parse" in row.metadata}
    own = {name: row for name, row in rows.items() if row.name in section.__annotations__}
    return {**own, **rows}


def _name_of(row: dataclasses.Field[Any]) -> str:
    """The field of an option whose name is a word of Python, such as `class`, ends in an underscore."""
    return row.name.removesuffix("_")


def names_of(row: dataclasses.Field[Any]) -> list[str]:
    """The option's name, and its alias if it has one."""
    return [name for name in (_name_of(row), row.metadata["alias"]) if name]


def options_by_any_name(section: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The rows of a section's table, each under its alias too."""
    return {name: row for row in options_of(section).values() for name in names_of(row)}


def help_of(row: dataclasses.Field[Any], spell: Callable[[str], str] = str) -> str:
    about, alias = row.metadata["help"], row.metadata["alias"]
    return f"{about}; other name of this option: {spell(alias)}" if alias else str(about)
