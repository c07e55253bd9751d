"""Reads the configuration: file < environment (`PYWORKERS_REDIS`, ...) < flags.

An error names the file, the section, the key and the word that was probably meant.
"""

from __future__ import annotations

import configparser
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from goworkers_py.config.options import SECTION, Config, MiddlewareConfig, QueueConfig, options_of
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ConfigError

ENVIRONMENT_PREFIX = "PYWORKERS_"


def load(
    path: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    queues: Iterable[str] = (),
    place: Callable[[str], str] = lambda name: f"--{name.replace('_', '-')}",
) -> Config:
    """The configuration of one program. `queues` are flags `NAME` or `NAME=CONCURRENCY` that replace the file's;
    `place` is what people call a flag."""
    file = _read_file(path) if path else configparser.ConfigParser()
    where = str(path) if path else ""
    _refuse_unknown_sections(file, where)
    values = _section(file, SECTION, Config, where)
    values |= _from_environment(environment)
    values |= _parse_all(Config, flags or {}, place)
    of_file = tuple(
        QueueConfig(name=_queue_name(section, where), **_section(file, section, QueueConfig, where))
        for section in file.sections()
        if section.startswith("queue:")
    )
    of_flags = tuple(_queue_flag(flag, of_file) for flag in queues)
    links = MiddlewareConfig(**_section(file, "middleware", MiddlewareConfig, where))
    return Config(**values, queues=_distinct(of_flags or of_file), middleware=links)


def _read_file(path: str | Path) -> configparser.ConfigParser:
    # No interpolation: a password may hold a percent sign. Inline comments as in the samples.
    parser = configparser.ConfigParser(
        interpolation=None, inline_comment_prefixes=(";",), comment_prefixes=(";", "#"), default_section=""
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            parser.read_file(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    return parser


def _refuse_unknown_sections(file: configparser.ConfigParser, where: str) -> None:
    known = [SECTION, "middleware"]
    for section in file.sections():
        if section not in known and not section.startswith("queue:"):
            hint = did_you_mean(section, [*known, "queue:NAME"])
            raise ConfigError(f"{where}: [{section}] is not a section{hint}")


def _section(file: configparser.ConfigParser, section: str, table: type[Any], where: str) -> dict[str, Any]:
    values = dict(file[section]) if section in file else {}
    return _parse_all(table, values, lambda name: f"{where}: [{section}] {name}")


def _parse_all(table: type[Any], values: Mapping[str, str], place: Callable[[str], str]) -> dict[str, Any]:
    rows = options_of(table)
    parsed = {}
    for name, value in values.items():
        if name not in rows:
            raise ConfigError(f"{place(name)} is not an option{_elsewhere(name, table) or did_you_mean(name, rows)}")
        try:
            parsed[name] = rows[name].metadata["parse"](value)
        except ValueError as error:
            raise ConfigError(f"{place(name)} {error}") from None
    return parsed


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    ours = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    rows = options_of(Config)
    # An unknown name is refused as in a file, but for those that are no options: of the tests, of the command line,
    # a child's line to its parent, and what Kubernetes sets in every container beside a service called pyworkers.
    known = {
        name: value
        for name, value in ours.items()
        if not re.match(r"test_|config$|line_to_parent$|service_|port(_|$)", name)
    }
    unknown = [name for name in known if name not in rows]
    if unknown:
        hint = did_you_mean(unknown[0], rows, lambda name: ENVIRONMENT_PREFIX + name.upper())
        raise ConfigError(f"environment: {ENVIRONMENT_PREFIX}{unknown[0].upper()} is not an option{hint}")
    return _parse_all(Config, known, lambda name: f"environment: {ENVIRONMENT_PREFIX}{name.upper()}")


def _queue_name(section: str, where: str) -> str:
    name = section.removeprefix("queue:").strip()
    if not name:
        raise ConfigError(f"{where}: [{section}] needs the queue's name: [queue:default]")
    return name


def _queue_flag(flag: str, of_file: tuple[QueueConfig, ...]) -> QueueConfig:
    name, _, concurrency = flag.partition("=")
    if not name:
        raise ConfigError(f"--queue {flag!r} must be NAME or NAME=CONCURRENCY")
    if as_in_sidekiq := re.fullmatch(r"(.+)[,:](\d+)", flag):
        raise ConfigError(f"--queue {flag!r}: threads are given as {as_in_sidekiq[1]}={as_in_sidekiq[2]}")
    known = next((queue for queue in of_file if queue.name == name), QueueConfig(name=name))
    if not concurrency:
        return known
    return dataclasses.replace(
        known, **_parse_all(QueueConfig, {"concurrency": concurrency}, lambda _: f"--queue {flag}")
    )


def _distinct(queues: tuple[QueueConfig, ...]) -> tuple[QueueConfig, ...]:
    return tuple({queue.name: queue for queue in queues}.values())


def _elsewhere(name: str, table: type[Any]) -> str:
    if table is Config and name in options_of(QueueConfig):
        return "; it belongs into a section [queue:NAME]"
    if table is QueueConfig and name in options_of(Config):
        return f"; it belongs into the section [{SECTION}]"
    return ""


def of_go_workers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Our options for those of go-workers."""
    known = {"server", "database", "password", "pool", "process", "namespace", "poll_interval"}
    unknown = sorted(set(settings) - known)
    if unknown:
        hint = did_you_mean(unknown[0], known) or f"; known are {', '.join(sorted(known))}"
        raise ConfigError(f"configure: {unknown[0]!r} is not an option{hint}")
    password = f":{quote(str(settings['password']), safe='')}@" if settings.get("password") else ""
    address = f"redis://{password}{settings.get('server', 'localhost:6379')}/{settings.get('database', '0')}"
    # `pool` is not needed: connections are made as they are used.
    kept = {name: settings[name] for name in ("process", "namespace", "poll_interval") if name in settings}
    return {"redis": address, **kept}
