"""The configuration: one table of options drives the file, the environment, the flags and the sample in conf/.

It is read in `sources`, and checked there and here before the first thread starts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from goworkers_py.config.parsers import auto_or_whole, octal, one_of, redis_address, seconds, size, text, whole, words
from goworkers_py.core.errors import ConfigError

SECTION = "pyworkers"

T = TypeVar("T")


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
    redis_password_file: str = option(
        "", text, "a file that holds the password for `redis`, read by the user that works; then the address has none"
    )
    data_dir: str = option(".pyworkers", text, "where the embedded server keeps its data")
    namespace: str = option("", text, "prefix `name:` on every key, as go-workers and redis-namespace have it")
    process: str = option("", text, "a fixed name for this process, as in go-workers; empty: host:pid:nonce")
    tag: str = option("", text, "a word that Sidekiq's Busy page shows beside this process")
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
    poison_limit: int = option(3, whole(0), "a job during which so many processes died is buried, from 2 on; 0: never")
    poison_window: float = option(259_200.0, seconds(1), "seconds within which those deaths count")
    stuck_grace: float = option(
        10.0, seconds(0), "seconds after its time limit until a job that does not end is called stuck"
    )
    stuck_spares: int = option(10, whole(0), "stuck workers that are replaced by new ones, at most")
    stuck_exit: int = option(
        0, whole(0), "stop this process, for its supervisor to start again, at this many stuck jobs; 0: never"
    )
    metrics: str = option(
        "auto",
        one_of("auto", "7", "8", "off"),
        "executions for Sidekiq's Metrics page, in the layout of Sidekiq 7 or 8; auto: those of the processes that "
        "are there",
    )
    log_level: str = option("info", one_of("debug", "info", "warning", "error"), "debug, info, warning or error")
    log_format: str = option("plain", one_of("plain", "json"), "plain or json")
    logfile: str = option("", text, "where log lines go, opened anew on HUP; empty: standard error")
    pidfile: str = option("", text, "holds the number of the main process, locked while that lives")
    directory: str = option("", text, "where to work; also relative paths in this file are meant from there")
    user: str = option("", text, "as whom to work, when started by root")
    group: str = option("", text, "with which group; empty: that of `user`")
    umask: str = option("", octal, "which permissions new files do not have, such as 027; empty: as it is")
    stats_port: int = option(0, whole(0, 65_535), "HTTP port for /stats, /metrics, /live and /ready; 0: none")
    stats_host: str = option("127.0.0.1", text, "where stats_port listens; 0.0.0.0: at every address")
    queues: tuple[QueueConfig, ...] = ()
    middleware: MiddlewareConfig = MiddlewareConfig()

    def __post_init__(self) -> None:
        if self.process and self.needs_a_parent:
            raise ConfigError(
                "process: a fixed name is for one process, so not beside processes, max_jobs or max_memory"
            )
        if self.poison_limit == 1:
            raise ConfigError(
                "poison_limit: one crash does not tell which of the running jobs caused it; "
                "set 2 or more, or 0 to bury no job for crashes"
            )

    @property
    def needs_a_parent(self) -> bool:
        return self.processes > 1 or bool(self.max_jobs or self.max_memory)


def options_of(section: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The rows of a section's table."""
    return {row.name: row for row in dataclasses.fields(section) if "parse" in row.metadata}
