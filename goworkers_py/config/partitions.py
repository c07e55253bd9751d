"""Partitions: each has a configuration of its own, made from [pyworkers] and its section [partition:NAME].

A partition with a `broker` of its own takes from [pyworkers] nothing that says where the main broker is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from goworkers_py.config.options import MAIN as MAIN
from goworkers_py.config.options import Config, PartitionConfig, PoolConfig, QueueConfig, options_by_any_name
from goworkers_py.config.parsers import did_you_mean, without_password
from goworkers_py.core.errors import ConfigError

ALL = "all"  # in the place of a partition's name

# Where a broker is.
_OF_BROKER = ("broker", "broker_password_file", "store", "namespace")
# The options of [pyworkers] that a partition may give for itself.
OF_PARTITION = (
    *_OF_BROKER, "data_dir", "process", "tag", "poll_interval", "max_retries", "dead_max_jobs", "dead_timeout",
    "poison_limit", "poison_window", "standby", "leader_lease", "prefer_leader", "metrics",
)  # fmt: skip


def of_partition(config: Config, name: str) -> Config:
    """The configuration of one partition, from any configuration of the program. Raises ConfigError for an unknown
    name."""
    if name == config.partition:
        return config
    found = next((partition for partition in config.partitions if partition.name == name), None)
    if found is None:
        raise ConfigError(_unknown(name, [partition.name for partition in config.partitions]))
    fresh = {row.name: row.default for row in dataclasses.fields(Config) if row.name in _OF_BROKER}
    ours = {**(fresh if "broker" in found.said else {}), "process": "", "tag": config.tag or name, **found.said}
    spelled = {name: config.spelled[name] for name in config.spelled if name not in ours}
    sections = tuple([section for section in config.sections if section.of_partitions])
    return dataclasses.replace(
        config, **ours, partition=name, queues=found.queues, pools=found.pools, sections=sections, spelled=spelled
    )


def place_of_broker(config: Config) -> tuple[str, str]:
    """For `BrokerUnreachable.with_advice`: the address that may be shown, and what sets it."""
    return without_password(config.broker), _settings_of_broker(config)


def _settings_of_broker(config: Config) -> str:
    """For people: what sets `broker` of this configuration. The flag and the variable of the main one do not reach a
    partition that has a broker of its own."""
    if not has_own_broker(config):
        return "PYWORKERS_BROKER, --broker or configure(broker=...)"
    variable = f"PYWORKERS_{partition_variable(config.partition).upper()}BROKER"
    return f"`broker` in [partition:{config.partition}], or {variable}"


def has_own_broker(config: Config) -> bool:
    return any(partition.name == config.partition and "broker" in partition.said for partition in config.partitions)


def of_connection(given: Mapping[str, str], spell: Callable[[str], str] = str) -> dict[str, str]:
    """The given options that say where the main broker is. `spell` makes the name of an option in `given`."""
    names = [name for name, row in of_partitions().items() if row.name in (*_OF_BROKER, "data_dir")]
    return {spell(name): given[spell(name)] for name in names if spell(name) in given}


def working(config: Config, partitions: Iterable[str]) -> Config:
    """The configuration of a process that works only these partitions."""
    worked = tuple(dict.fromkeys(partitions))
    for name in worked:
        of_partition(config, name)  # raises for an unknown one
    if config.worked:
        raise ConfigError("-q and --partition: leave one of them out; -q names queues of the main broker")
    return dataclasses.replace(config, worked=worked)


def _unknown(name: str, known: Sequence[str]) -> str:
    if not known:
        return (
            f"there is no partition {name!r}: no section [partition:{name}] was read; write one, or name the file with "
            "-c, PYWORKERS_CONFIG or configure('FILE')"
        )
    return f"there is no partition {name!r}; there are {', '.join(known)}{did_you_mean(name, known)}"


def of_partitions() -> dict[str, dataclasses.Field[Any]]:
    """The rows of the options of [pyworkers] that a partition may give, by any name."""
    return {name: row for name, row in options_by_any_name(Config).items() if row.name in OF_PARTITION}


def partition_of(
    name: str, options: Mapping[str, Any], queues: Sequence[QueueConfig], pools: Sequence[PoolConfig], place: str
) -> PartitionConfig:
    """The partition of a section that has these `options`. `queues` and `pools` are those of all partitions."""
    said = {option: value for option, value in options.items() if option in OF_PARTITION}
    found = {queue.name: queue for queue in queues if queue.partition == name}
    for queue in options.get("queues", ()):
        if queue.name in found:
            raise ConfigError(f"{place} queues: {queue.name} has a section [queue:{queue.name}]; name it in one place")
        found[queue.name] = queue
    if not found:
        raise ConfigError(f"{place} has no queues: write queues = invoices 10, mail 5")
    handler = options.get("handler", "")
    own = tuple(
        dataclasses.replace(queue, partition=name, handler=queue.handler or handler) for queue in found.values()
    )
    return PartitionConfig(name, own, handler, tuple(pool for pool in pools if pool.partition == name), said)


def check_partition_name(name: str, place: str) -> None:
    if name in (MAIN, ALL):
        meaning = "[pyworkers] itself" if name == MAIN else "all partitions"
        raise ConfigError(f"{place}: --partition {name} means {meaning}; choose another name")


def check_partitions(config: Config, where: str) -> None:
    """Raises ConfigError for a partition that nobody has declared, and for a queue that two partitions work."""
    known = [partition.name for partition in config.partitions]
    owners: dict[tuple[str, str], str] = {}
    for part in (config, *(of_partition(config, name) for name in known)):
        for queue in part.queues:
            owner = owners.setdefault((part.home.name, queue.name), part.partition or MAIN)
            if owner != (part.partition or MAIN):
                raise ConfigError(
                    f"{where}: [partition:{part.partition}] queues: {queue.name} of {part.home.name} is in {owner} "
                    "too; name it in one of them"
                )


def check_names(partitions: Sequence[PartitionConfig], named: Sequence[QueueConfig | PoolConfig], where: str) -> None:
    known = [partition.name for partition in partitions]
    for section in named:
        if section.partition and section.partition not in known:
            kind = "queue" if isinstance(section, QueueConfig) else "pool"
            raise ConfigError(f"{where}: [{kind}:{section.name}] partition: {_unknown(section.partition, known)}")


def partitions_of_environment(environment: Mapping[str, str], partitions: Sequence[str]) -> dict[str, dict[str, str]]:
    """`PYWORKERS_PARTITION_BILLING_BROKER` is the option `broker` of the partition `billing`. `environment` has names
    in lower case, without PYWORKERS."""
    options: dict[str, dict[str, str]] = {}
    for name, value in environment.items():
        if not name.startswith("partition_"):
            continue
        owners = [partition for partition in partitions if name.startswith(partition_variable(partition))]
        if not owners:
            raise ConfigError(
                f"environment: PYWORKERS_{name.upper()} is for no partition of the configuration; there are "
                f"{', '.join(partitions) or 'none'}"
            )
        owner = max(owners, key=len)
        options.setdefault(owner, {})[name.removeprefix(partition_variable(owner))] = value
    return options


def partition_variable(partition: str) -> str:
    """The beginning of the names of its variables."""
    return f"partition_{re.sub(r'[^a-z0-9]', '_', partition.lower())}_"
