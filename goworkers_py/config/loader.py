"""Reads the configuration: file < what is written over it < environment (`PYWORKERS_BROKER`, ...) < flags.

An error names the file, the section, the key and the word that was probably meant.
"""

from __future__ import annotations

import configparser
import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goworkers_py.config.feature_options import feature_sections, named_sections
from goworkers_py.config.go_workers import of_go_workers
from goworkers_py.config.ini_file import ConfigText, kind_and_name, read
from goworkers_py.config.option_rows import FeatureSection, NamedSection
from goworkers_py.config.options import (
    SECTION,
    Config,
    MiddlewareConfig,
    PartitionConfig,
    PoolConfig,
    QueueConfig,
    WebConfig,
    names_of,
    options_by_any_name,
)
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.config.partitions import (
    check_names,
    check_partition_name,
    check_partitions,
    of_partitions,
    partition_of,
    partition_variable,
    partitions_of_environment,
)
from goworkers_py.config.queue_rules import check_pools, check_threads, checked_queue, refuse_weights
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES

ENVIRONMENT_PREFIX = "PYWORKERS_"

# Kinds of sections that have a name each, with an example of it; features have more.
_NAMED = {"queue": "default", "pool": "web", "partition": "billing"}

# Makes the name of an option for an error: "conf.ini: [pyworkers] timeout", "--timeout".
NameOf = Callable[[str], str]
# Writes options over those of a file, which has this name in errors, and returns the name of both.
WriteOver = Callable[[configparser.ConfigParser, str], str]


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    return f"{ENVIRONMENT_PREFIX}{name.upper()}"


def load(
    path: str | Path | ConfigText | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    queues: Iterable[str] = (),
    name_of: NameOf = flag,
    over: WriteOver | None = None,
) -> Config:
    """The configuration of one program. `queues` are flags `NAME` or `NAME=CONCURRENCY` that replace the file's queues
    and pools. `name_of` makes the name of a flag for errors. `over` writes other options over those of the file."""
    file = read(path or ConfigText("", ""))
    where = str(path) if path else ""
    if over is not None:
        where = over(file, where)
    return parsed(file, where, environment, flags or {}, queues, name_of)


def parsed(
    file: configparser.ConfigParser,
    where: str,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    queues: Iterable[str] = (),
    name_of: NameOf = flag,
) -> Config:
    """The configuration of a file that was read already. `where` names the file in errors."""
    _refuse_unknown_sections(file, where)
    values = _merged(
        (_items(file, SECTION), _name_in(where, SECTION)),
        (_from_environment(environment), _in_environment),
        (flags, name_of),
    )
    of_file, pools = _queues_and_pools(file, where)
    partitions = _partitions(file, environment, of_file, pools, where)
    of_flags = tuple(_queue_flag(flag, of_file) for flag in queues)
    links = MiddlewareConfig(**_section(file, "middleware", MiddlewareConfig, where))
    web = WebConfig(**_section(file, "web", WebConfig, where))
    chosen = _distinct(of_flags or tuple(queue for queue in of_file if not queue.partition))
    sections = [section for table in feature_sections().values() for section in _of_feature(file, table, where)]
    pools = () if of_flags else tuple(pool for pool in pools if not pool.partition)
    config = Config(
        **values,
        queues=chosen,
        pools=pools,
        partitions=partitions,
        worked=("",) if of_flags else (),
        sections=tuple(sections),
        middleware=links,
        web=web,
    )
    check_partitions(config, where)
    return config


def _queues_and_pools(
    file: configparser.ConfigParser, where: str
) -> tuple[tuple[QueueConfig, ...], tuple[PoolConfig, ...]]:
    """The queues and pools of all partitions. Each queue of a pool is in the partition of the pool."""
    queues = _named_sections(file, "queue", QueueConfig, where)
    pools = _named_sections(file, "pool", PoolConfig, where)
    given = {kind_and_name(section): set(file[section]) for section in file.sections()}
    check_pools(pools, given, where)
    queues = tuple(checked_queue(queue, given, where) for queue in queues)
    queues += tuple(QueueConfig(name) for pool in pools for name in pool.queues if name not in _names(queues))
    partition_of_queue = {name: pool.partition for pool in pools for name in pool.queues}
    return tuple(
        dataclasses.replace(queue, partition=partition_of_queue.get(queue.name, queue.partition)) for queue in queues
    ), pools


def _partitions(
    file: configparser.ConfigParser,
    environment: Mapping[str, str],
    queues: Sequence[QueueConfig],
    pools: Sequence[PoolConfig],
    where: str,
) -> tuple[PartitionConfig, ...]:
    sections = {_name(title, where): title for title in file.sections() if title.startswith("partition:")}
    of_environment = partitions_of_environment(_ours(environment), [*sections])
    partitions = []
    for name, section in sections.items():
        check_partition_name(name, f"{where}: [{section}]")
        table = {**options_by_any_name(PartitionConfig), **of_partitions()}
        own = _parse_all(PartitionConfig, _items(file, section), _name_in(where, section), table)
        own |= _parse_all(PartitionConfig, of_environment.get(name, {}), _in_environment_of(name), table)
        partitions.append(partition_of(name, own, queues, pools, f"{where}: [{section}]"))
    check_names(partitions, [*queues, *pools], where)
    return tuple(partitions)


def _in_environment_of(partition: str) -> NameOf:
    return lambda name: _in_environment(f"{partition_variable(partition)}{name}")


def of_call(settings: Mapping[str, Any] | str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Config:
    """The configuration of a call of `configure`: a file's path or go-workers' dict, and options by name."""
    if isinstance(settings, Mapping):
        options = of_go_workers(settings, options)
    path = Path(settings) if isinstance(settings, str | os.PathLike) else None
    flags = {name: ",".join(it) if isinstance(it, list | tuple) else str(it) for name, it in options.items()}
    return load(path, flags=flags, name_of=lambda name: f"configure: {name}")


def _refuse_unknown_sections(file: configparser.ConfigParser, where: str) -> None:
    alone = feature_sections().keys() - named_sections().keys()
    known, named = [SECTION, "middleware", *alone, "web"], [f"{kind}:" for kind in (*_NAMED, *named_sections())]
    for section in file.sections():
        if section not in known and not section.startswith((*named,)):
            kind, *name = re.split(r"\W+", section, maxsplit=1)
            near = [f"{kind}:{name[0]}"] if any(name) and f"{kind}:" in named else None
            hint = did_you_mean(section, near or [*known, *(f"{kind}NAME" for kind in named)])
            raise ConfigError(f"{where}: [{section}] is not a section{hint}")


def _of_feature(file: configparser.ConfigParser, table: type[FeatureSection], where: str) -> tuple[FeatureSection, ...]:
    if issubclass(table, NamedSection):
        return _named_sections(file, table.kind, table, where)
    section = table(**_section(file, table.kind, table, where))
    return () if section == table() else (section,)


def _named_sections(file: configparser.ConfigParser, kind: str, table: type[Any], where: str) -> tuple[Any, ...]:
    """The sections [queue:NAME] or [pool:NAME]."""
    sections = [section for section in file.sections() if section.startswith(f"{kind}:")]
    return tuple(table(name=_name(section, where), **_section(file, section, table, where)) for section in sections)


def _section(file: configparser.ConfigParser, section: str, table: type[Any], where: str) -> dict[str, Any]:
    return _parse_all(table, _items(file, section), _name_in(where, section))


def _items(file: configparser.ConfigParser, section: str) -> dict[str, str]:
    return dict(file[section]) if section in file else {}


def _name_in(where: str, section: str) -> NameOf:
    return lambda name: f"{where}: [{section}] {name}"


def _merged(*sources: tuple[Mapping[str, str], NameOf]) -> dict[str, Any]:
    """The arguments of Config. A later source overrides an earlier one, also under the other name of an option."""
    rows = options_by_any_name(Config)
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for given, name_of in sources:
        values |= _parse_all(Config, given, name_of)
        spelled |= {rows[name].name: name for name in given}
    return {**values, "spelled": spelled}


def _parse_all(
    table: type[Any], values: Mapping[str, str], name_of: NameOf, rows: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The parsed values by the option's main name, whichever of its names was used. `rows`: if these are not just those
    of the table."""
    rows = rows or options_by_any_name(table)
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in rows:
            raise ConfigError(
                f"{name_of(name)} is not an option{_elsewhere(name, table) or _nearest(name, table, rows)}"
            )
        row = rows[name]
        if row.name in parsed:
            # The first name has its file and section, so the second one is given without.
            first, second = (name_of(spelling) for spelling in names_of(row))
            raise ConfigError(f"{first} and {second.split()[-1]} are two names of one option: leave one of them out")
        try:
            parsed[row.name] = row.metadata["parse"](value)
        except ValueError as error:
            raise ConfigError(f"{name_of(name)} {error}") from None
    return parsed


def _in_environment(name: str) -> str:
    return f"environment: {variable(name)}"


def _ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    ours = _ours(environment)
    rows = options_by_any_name(Config)
    sources = {feature.source.name for feature in FEATURES if feature.source is not None}
    # An unknown name is refused, as in a file. These are not options and are left alone: variables of the tests, of the
    # command line, of a child's line to its parent, of partitions, of the pages, and those that Kubernetes sets for a
    # service called pyworkers.
    known = {
        name: value
        for name, value in ours.items()
        if name not in sources
        and not re.match(r"test_|config$|partition_|line_to_parent$|web_token$|service_|port(_|$)", name)
    }
    unknown = [name for name in known if name not in rows]
    if unknown:
        hint = did_you_mean(unknown[0], rows, variable)
        raise ConfigError(f"{_in_environment(unknown[0])} is not an option{hint}")
    return known


def _name(section: str, where: str) -> str:
    kind, name = kind_and_name(section)
    if not name:
        example = _NAMED[kind] if kind in _NAMED else named_sections()[kind].example
        raise ConfigError(f"{where}: [{section}] needs the {kind}'s name: [{kind}:{example}]")
    return name


def _queue_flag(flag: str, of_file: tuple[QueueConfig, ...]) -> QueueConfig:
    name, _, concurrency = flag.partition("=")
    if not name:
        raise ConfigError(f"--queue {flag!r} must be NAME or NAME=CONCURRENCY")
    refuse_weights(flag)
    known = next((queue for queue in of_file if queue.name == name), QueueConfig(name=name))
    if not concurrency:
        return known
    said = _parse_all(QueueConfig, {"concurrency": concurrency}, lambda _: f"--queue {flag}")
    return check_threads(dataclasses.replace(known, **said), f"--queue {flag}")


def _names(queues: Iterable[QueueConfig]) -> list[str]:
    return [queue.name for queue in queues]


def _distinct(queues: tuple[QueueConfig, ...]) -> tuple[QueueConfig, ...]:
    return tuple({queue.name: queue for queue in queues}.values())


def _nearest(name: str, table: type[Any], rows: Collection[str]) -> str:
    """The option that was probably meant. People look for those of a queue in [pyworkers]."""
    here = did_you_mean(name, rows)
    anywhere = did_you_mean(name, {*rows, *options_by_any_name(QueueConfig)}) if table is Config else here
    return here if anywhere == here else f"{anywhere} It belongs in a section [queue:NAME]"


def _elsewhere(name: str, table: type[Any]) -> str:
    if table is Config and name in options_by_any_name(QueueConfig):
        return "; it belongs in a section [queue:NAME]"
    if table is QueueConfig and name in options_by_any_name(PoolConfig):
        return "; it belongs in a section [pool:NAME]"
    if table is PoolConfig and name in options_by_any_name(QueueConfig):
        return "; it belongs in a section [queue:NAME] for each queue of the pool"
    if table in (QueueConfig, PoolConfig, PartitionConfig) and name in options_by_any_name(Config):
        return f"; it belongs in the section [{SECTION}]"
    return ""
