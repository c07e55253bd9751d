"""The configuration: one table of options drives the file, the environment, the flags and the sample in conf/.

`loader` reads the options. They are checked there and here before the first thread starts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, TypeVar

from goworkers_py.config.home import home_of
from goworkers_py.config.option_rows import FeatureSection, option
from goworkers_py.config.option_rows import help_of as help_of
from goworkers_py.config.option_rows import names_of as names_of
from goworkers_py.config.option_rows import options_by_any_name as options_by_any_name
from goworkers_py.config.option_rows import options_of as options_of
from goworkers_py.config.parsers import (
    bare_name,
    broker_address,
    octal,
    one_of,
    seconds,
    several,
    size,
    store_address,
    text,
    whole,
    words,
    yes_or_no,
)
from goworkers_py.config.queue_options import SERIAL as SERIAL
from goworkers_py.config.queue_options import PoolConfig as PoolConfig
from goworkers_py.config.queue_options import QueueConfig as QueueConfig
from goworkers_py.config.web_options import WebConfig as WebConfig
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.home import Home
from goworkers_py.core.timing import TIMING, Timing
from goworkers_py.core.values import dataclass

SECTION = "pyworkers"
MAIN = "main"  # how people name the configuration of [pyworkers]

S = TypeVar("S", bound=FeatureSection)


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """A section [partition:NAME]: queues that may be on a broker of their own, with threads of their own. It may also
    give the options of `OF_PARTITION` in `config.partitions`."""

    name: str
    queues: tuple[QueueConfig, ...] = option(
        (),
        several(lambda name, threads: QueueConfig(name, threads)),
        "queues of this partition, each with its worker threads, such as invoices 10, mail 5",
        central=True,
    )
    handler: str = option("", text, "module:function that runs every job of these queues, whatever its class")
    pools: tuple[PoolConfig, ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict)  # its options of [pyworkers]


@dataclass(frozen=True, slots=True)
class MiddlewareConfig:
    """The section [middleware]."""

    prepend: tuple[str, ...] = option((), words, "links before the built-in ones: module:Class, ...")
    append: tuple[str, ...] = option((), words, "links after the built-in ones, around the job")
    client: tuple[str, ...] = option((), words, "links around every push, which may change or stop it")


@dataclass(frozen=True, slots=True)
class Config:
    """The section [pyworkers]; the other sections are in `queues`, `pools`, `partitions`, `sections`,
    `middleware` and `web`."""

    broker: str = option(
        "redis://localhost:6379/0",
        broker_address,
        "redis://host:port/db, rediss://... (TLS), unix:///path, sentinel://host:port,host:port/service/db, "
        "redis+cluster://host:port,host:port/namespace, "
        "disque://host:port,host:port, amqp://host:port/vhost (RabbitMQ), "
        "embedded: a server of our own in data_dir, or memory://: the memory of this process",
        secret=True,
        alias="redis",
    )
    broker_password_file: str = option(
        "",
        text,
        "file with the password for `broker`, readable by the user that runs the jobs; then the address has none",
        alias="redis_password_file",
    )
    store: str = option(
        "",
        store_address,
        "Redis beside a queue service at `broker` (amqp://, disque://): it keeps what the service cannot, such as "
        "jobs that wait, retries, locks and batches",
        secret=True,
    )
    data_dir: str = option(".pyworkers", text, "directory in which the embedded server keeps its data")
    namespace: str = option("", text, "puts the prefix `name:` before every key, as go-workers and redis-namespace do")
    process: str = option("", text, "fixed name of this process, as in go-workers; empty: host:pid:nonce")
    tag: str = option("", text, "word that Sidekiq's Busy page shows beside this process")
    require: tuple[str, ...] = option((), words, "modules to import at the start, which register the jobs", "-r")
    processes: int = option(1, whole(1, 1_000), "number of processes that run the same queues under one parent")
    max_jobs: int = option(0, whole(0), "replace a process by a new one after this many jobs; 0: never")
    max_memory: int = option(
        0, size(2**24), "replace a process by a new one when it uses more memory than this: 512M, 2G; 0: never"
    )
    timeout: float = option(25.0, seconds(0), "seconds that running jobs get to finish after TERM", "-t")
    poll_interval: float = option(
        5.0,
        seconds(0.01, 3600),
        "seconds until the scheduler notices a job that another program scheduled",
        central=True,
    )
    max_retries: int = option(25, whole(0), "number of retries of a job with `retry: true`")
    timestamps: str = option(
        "seconds",
        one_of("seconds", "ms"),
        "unit of the times in payloads: seconds, or ms if all other programs run Sidekiq 8",
    )
    dead_max_jobs: int = option(10_000, whole(1), "keep at most this many dead jobs")
    dead_timeout: float = option(15_552_000.0, seconds(1, math.inf), "seconds after which a dead job is deleted")
    result_max_bytes: int = option(
        1_000_000, whole(1, 100_000_000), "bytes of the largest result that is kept of a job with `retain`"
    )
    source: str = option(
        "",
        bare_name,
        "name of this application for its periodic jobs; empty: the first package of `require`, or default",
    )
    generation: str = option(
        "",
        text,
        "release of this application, such as 118 or 2.10.1, which only grows: an older one fires no periodic jobs",
    )
    poison_limit: int = option(
        3, whole(0), "bury a job after this many processes died while running it, at least 2; 0: never"
    )
    poison_window: float = option(259_200.0, seconds(1), "seconds within which the deaths for poison_limit count")
    stuck_grace: float = option(10.0, seconds(0), "seconds after its time limit until a running job counts as stuck")
    stuck_spares: int = option(10, whole(0), "at most this many workers with a stuck job are replaced by new ones")
    stuck_exit: int = option(
        0, whole(0), "stop this process at this many stuck jobs, so that its supervisor restarts it; 0: never"
    )
    standby: bool = option(
        False, yes_or_no, "of all processes with this configuration one works, and the others are ready to take over"
    )
    leader_lease: float = option(
        5.0, seconds(0.5, 3600), "seconds after which another process takes over from one that does not answer"
    )
    prefer_leader: bool = option(
        False, yes_or_no, "this process leads when it can: it asks a leader without this option to step down"
    )
    metrics: str = option(
        "auto",
        one_of("auto", "7", "8", "off"),
        "write runs for Sidekiq's Metrics page, in the layout of Sidekiq 7 or 8; auto: the layouts of the live "
        "processes",
    )
    log_level: str = option(
        "info",
        one_of("debug", "info", "warning", "error"),
        "lowest level that is logged: debug, info, warning or error",
        central=True,
    )
    log_format: str = option("plain", one_of("plain", "json"), "format of log lines: plain or json")
    logfile: str = option("", text, "file for log lines, reopened on HUP; empty: standard error")
    pidfile: str = option("", text, "file with the pid of the main process, locked while that process lives")
    directory: str = option("", text, "working directory; relative paths in this file are relative to it")
    user: str = option("", text, "user that runs the jobs, when started by root")
    group: str = option("", text, "group that runs the jobs; empty: the group of `user`")
    umask: str = option("", octal, "permissions that new files do not get, such as 027; empty: unchanged")
    stats_port: int = option(0, whole(0, 65_535), "HTTP port for /stats, /metrics, /live and /ready; 0: none")
    stats_host: str = option("127.0.0.1", text, "address on which stats_port listens; 0.0.0.0: all addresses")
    stats_jobs: bool = option(
        False,
        yes_or_no,
        "/stats shows the jobs that run, with their arguments but for those in `hide` of [web]: yes or no",
    )
    queues: tuple[QueueConfig, ...] = ()  # those of pools too
    pools: tuple[PoolConfig, ...] = ()  # those of several queues; each other queue has threads of its own
    partition: str = ""  # that of which this is the configuration; empty: the main one
    partitions: tuple[PartitionConfig, ...] = ()
    worked: tuple[str, ...] = ()  # the partitions that a process works, the main one by an empty name; (): all
    middleware: MiddlewareConfig = MiddlewareConfig()
    sections: tuple[FeatureSection, ...] = ()  # of features, such as [limit:NAME], see `sections_of`, `section_of`
    web: WebConfig = field(default_factory=WebConfig)
    timing: Timing = TIMING  # no option, see there
    # Another source from which it comes, see `Feature.source`: an object of that feature.
    origin: object = field(default=None, compare=False, repr=False)
    # The name under which each option was given, for errors only: the comparison of two configurations leaves it out.
    spelled: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.process and self.needs_a_parent:
            raise ConfigError(
                "process: a fixed name is for one process only; leave out processes, max_jobs and max_memory"
            )
        self.check_queues([queue.name for queue in self.queues])
        if self.web.port:
            self.web.check()
        if self.poison_limit == 1:
            raise ConfigError(
                "poison_limit: one crash does not tell which of the running jobs caused it; "
                "set 2 or more, or 0 to bury no job for crashes"
            )

    @property
    def partition_name(self) -> str:
        """As people call the partition: `main` for the one of [pyworkers]."""
        return self.partition or MAIN

    def check_queues(self, queues: Collection[str]) -> None:
        """Raises ConfigError when a process cannot work these queues."""
        for section in self.sections:
            section.check_queues(queues)

    @property
    def needs_a_parent(self) -> bool:
        return self.processes > 1 or bool(self.max_jobs or self.max_memory)

    @property
    def home(self) -> Home:
        return home_of(self.broker, self.namespace, self.data_dir)

    def sections_of(self, table: type[S]) -> tuple[S, ...]:
        """The sections of one kind: `config.sections_of(LimitConfig)`."""
        return tuple(section for section in self.sections if isinstance(section, table))

    def section_of(self, table: type[S]) -> S:
        """The section of a kind of which there is one: that of the file, or one with the defaults."""
        return next((section for section in self.sections if isinstance(section, table)), None) or table()

    def spelling(self, name: str) -> str:
        """The name under which the user gave an option: the alias, if the user wrote the alias."""
        return self.spelled.get(name, name)
