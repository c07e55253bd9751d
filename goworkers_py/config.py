"""The configuration: one table of options drives the file, the environment, the flags and the sample in conf/.

File < environment (`PYWORKERS_REDIS`, ...) < flags. Everything is checked here, before the first thread starts, and
an error names the file, the section, the key and the word that was probably meant.
"""

from __future__ import annotations

import configparser
import dataclasses
import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from goworkers_py.errors import ConfigError

ENVIRONMENT_PREFIX = "PYWORKERS_"
SECTION = "pyworkers"

T = TypeVar("T")


# How a value is read from text. Each raises ValueError with what it wants.
def text(value: str) -> str:
    return value.strip()


def words(value: str) -> tuple[str, ...]:
    return tuple(value.replace(",", " ").split())


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        value = value.strip().lower()
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}{_did_you_mean(value, choices)}")
        return value

    return parse


def whole(lowest: int, highest: int = 2**31) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"must be a whole number, is {value!r}") from None
        return int(_within(number, lowest, highest))

    return parse


def seconds(lowest: float, highest: float = 365 * 86400) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError(f"must be a number of seconds, is {value!r}")
        return _within(number, lowest, highest)

    return parse


def size(lowest: int) -> Callable[[str], int]:
    """In bytes; 0 for no limit."""

    def parse(value: str) -> int:
        fits = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG])(?:I?B)?", value.strip().upper())
        if value.strip() == "0":
            return 0
        if fits is None:
            raise ValueError(f"must be 0 or a number with a unit, such as 512M or 2G, is {value!r}")
        number = float(fits[1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[fits[2]]
        if number < lowest:
            raise ValueError(f"must be at least {lowest // 2**20}M, is {value!r}")
        return int(number)

    return parse


def auto_or_whole(lowest: int, highest: int) -> Callable[[str], int | None]:
    def parse(value: str) -> int | None:
        return None if value.strip().lower() == "auto" else whole(lowest, highest)(value)

    return parse


def redis_address(value: str) -> str:
    """What is wrong is said without showing where a password may stand."""
    value = value.strip()
    if value == "embedded" or value.startswith(("unix://", "/")):
        return value if not value.startswith("/") else f"unix://{value}"
    schemes = ("redis", "rediss", "unix", "sentinel")
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in schemes:
        raise ValueError(
            "must be redis://host:port/db, rediss://..., unix:///path, sentinel://host:port,.../service/db or embedded"
            + _did_you_mean(scheme, schemes)
        )
    place = re.split(r"[/?#]", rest)[0]
    if "@" in rest.removeprefix(place):
        raise ValueError(
            "has an @ behind its host: in a password and a query, / ? # @ and % are written %2F %3F %23 %40 and %25"
        )
    hosts, path = place.rpartition("@")[2], re.split(r"[?#]", rest.removeprefix(place))[0]
    for host in hosts.split(",") if scheme == "sentinel" else [hosts]:
        _check_host(host, needed=scheme == "sentinel")
    db = path.strip("/").partition("/")[2] if scheme == "sentinel" else path.strip("/")
    if db and not db.isdigit():
        raise ValueError(f"must end in the number of a database, not '/{db}'")
    return value


def _check_host(text: str, needed: bool) -> None:
    fits = re.fullmatch(r"(\[[^\]]*\]|[^\[\]:]*)(:(\d{0,5}))?", text)
    if fits is None or int(fits[3] or 1) not in range(1, 65_536):
        raise ValueError("is no address: a host may be followed by a colon and a port number up to 65535")
    if needed and not fits[1]:
        raise ValueError("is no address: a sentinel has no host")


def has_password(address: str) -> bool:
    return re.search(r"//[^/@]*:[^/@]+@|[?&]\w*password=", address) is not None


def without_password(address: str) -> str:
    """An address that may be shown: what is between the colon and the at sign is left out, and so is the query."""
    return re.sub(r"(?<=//)([^/@:]*)(:[^/]*)?@", r"\1:***@", address.partition("?")[0])


def _within(number: float, lowest: float, highest: float) -> float:
    if number < lowest:
        raise ValueError(f"must be at least {lowest:.12g}, is {number}")
    if number > highest:
        raise ValueError(f"must be at most {highest:.12g}, is {number}")
    return number


def option(default: T, parse: Callable[[str], T], about: str, flag: str = "", secret: bool = False) -> T:
    """A row of the table. `flag` is a short flag for the command line; what is secret is not shown."""
    return field(default=default, metadata={"parse": parse, "help": about, "flag": flag}, repr=not secret)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """A section [queue:NAME]."""

    name: str
    concurrency: int = option(10, whole(1, 10_000), "worker threads, in each of `processes`")
    prefetch: int | None = option(
        None, auto_or_whole(0, 10_000), "jobs fetched beyond the free workers: auto (about 20 ms of work), or a number"
    )
    handler: str = option("", text, "module:function that runs every job of this queue, whatever its class")
    middleware: tuple[str, ...] = option((), words, "links for this queue, after the global ones: module:Class, ...")


@dataclass(frozen=True, slots=True)
class MiddlewareConfig:
    """The section [middleware]."""

    prepend: tuple[str, ...] = option((), words, "links before the built-in ones: module:Class, ...")
    append: tuple[str, ...] = option((), words, "links after the built-in ones, around the job")
    client: tuple[str, ...] = option((), words, "links around every push, which may change or stop it")


@dataclass(frozen=True, slots=True)
class Config:
    """The section [pyworkers], and the others."""

    redis: str = option(
        "redis://localhost:6379/0",
        redis_address,
        "redis://host:port/db, rediss://... (TLS), unix:///path, sentinel://host:port,host:port/service/db, "
        "or embedded: a server of our own in data_dir",
        secret=True,
    )
    data_dir: str = option(".pyworkers", text, "where the embedded server keeps its data")
    namespace: str = option("", text, "prefix `name:` on every key, as go-workers and redis-namespace have it")
    process: str = option("", text, "a fixed name for this process, as in go-workers; empty: host:pid:nonce")
    require: tuple[str, ...] = option((), words, "modules to import at boot: they register the jobs", "-r")
    processes: int = option(
        1, whole(1, 1_000), "how many processes do the same work beside each other, under one parent"
    )
    max_jobs: int = option(0, whole(0), "a process is replaced by a new one after so many jobs; 0: never")
    max_memory: int = option(
        0, size(2**24), "a process that grows beyond this is replaced by a new one: 512M, 2G; 0: never"
    )
    timeout: float = option(25.0, seconds(0), "seconds that running jobs have to finish on TERM", "-t")
    poll_interval: float = option(
        5.0, seconds(0.01, 3600), "seconds until a scheduled job that another program added is noticed"
    )
    max_retries: int = option(25, whole(0), "retries of a job that says only `retry: true`")
    timestamps: str = option(
        "seconds", one_of("seconds", "ms"), "how times are written: seconds, or ms where all others run Sidekiq 8"
    )
    dead_max_jobs: int = option(10_000, whole(1), "the dead set is trimmed to this many")
    dead_timeout: float = option(15_552_000.0, seconds(1, math.inf), "seconds until a dead job is forgotten")
    poison_limit: int = option(3, whole(0), "a job during which this many processes died is buried; 0: never")
    poison_window: float = option(259_200.0, seconds(1), "seconds within which those deaths count")
    stuck_grace: float = option(
        10.0, seconds(0), "seconds after its time limit until a job that does not end is called stuck"
    )
    stuck_spares: int = option(10, whole(0), "stuck workers that are replaced by new ones, at most")
    stuck_exit: int = option(
        0, whole(0), "stop this process, for its supervisor to start again, at this many stuck jobs; 0: never"
    )
    log_level: str = option("info", one_of("debug", "info", "warning", "error"), "debug, info, warning or error")
    log_format: str = option("plain", one_of("plain", "json"), "plain or json")
    queues: tuple[QueueConfig, ...] = ()
    middleware: MiddlewareConfig = MiddlewareConfig()

    def __post_init__(self) -> None:
        if self.process and self.needs_a_parent:
            raise ConfigError(
                "process: a fixed name is for one process, so not beside processes, max_jobs or max_memory"
            )

    @property
    def needs_a_parent(self) -> bool:
        return self.processes > 1 or bool(self.max_jobs or self.max_memory)


def options_of(section: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The rows of a section's table."""
    return {row.name: row for row in dataclasses.fields(section) if "parse" in row.metadata}


def load(
    path: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    queues: Iterable[str] = (),
) -> Config:
    """The configuration of one program. `queues` are flags `NAME` or `NAME=CONCURRENCY` that replace the file's."""
    file = _read_file(path) if path else configparser.ConfigParser()
    where = str(path) if path else ""
    _refuse_unknown_sections(file, where)
    values = _section(file, SECTION, Config, where)
    values |= _from_environment(environment)
    values |= _parse_all(Config, flags or {}, lambda name: f"--{name.replace('_', '-')}")
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
            hint = _did_you_mean(section, [*known, "queue:NAME"])
            raise ConfigError(f"{where}: [{section}] is not a section{hint}")


def _section(file: configparser.ConfigParser, section: str, table: type[Any], where: str) -> dict[str, Any]:
    values = dict(file[section]) if section in file else {}
    return _parse_all(table, values, lambda name: f"{where}: [{section}] {name}")


def _parse_all(table: type[Any], values: Mapping[str, str], place: Callable[[str], str]) -> dict[str, Any]:
    rows = options_of(table)
    parsed = {}
    for name, value in values.items():
        if name not in rows:
            raise ConfigError(f"{place(name)} is not an option{_elsewhere(name, table) or _did_you_mean(name, rows)}")
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
        hint = _did_you_mean(unknown[0], rows, lambda name: ENVIRONMENT_PREFIX + name.upper())
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


def _did_you_mean(word: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {spell(near[0])!r}?" if near else ""
