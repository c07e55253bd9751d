"""Queues, processes and jobs in progress, as a broker shows them to people."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, Literal

import simplejson

from goworkers_py.core.config_in_force import ConfigInForce
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.features.figures import FeatureFigures
from goworkers_py.wire.stored_job import StoredJob


@dataclass(frozen=True, slots=True)
class QueueStats:
    name: str
    size: int
    latency_s: float  # how long the next job has waited; 0 when there is none, or nobody can read it
    paused: bool = False


@dataclass(frozen=True, slots=True)
class LineStats:
    """A line with parked jobs, or an outbox with pushes."""

    name: str
    size: int
    latency_s: float  # how long its first job has been there; 0 when nobody can read that


@dataclass(frozen=True)
class _FleetStats:
    """The fields of `Stats` that are of the engine."""

    processed: int  # since the broker counts
    failed: int  # of the processed ones
    scheduled: int
    parked: int  # in lines
    outbox: int  # pushes that are to be relayed to other brokers
    retries: int
    dead: int
    in_progress: int
    processes: int  # those that have a lease
    queues: list[QueueStats]


@dataclass(frozen=True)
class Stats(FeatureFigures, _FleetStats):  # in this order of the bases, the fields of the engine come first
    """The counts of jobs and processes, and every queue. The figures of a feature are 0 where the broker has no part
    for it."""

    limits: dict[str, int] = field(default_factory=dict)  # jobs that wait, by the name of the limit
    partitions: dict[str, Stats | None] = field(default_factory=dict)  # None: its broker does not answer

    @classmethod
    def nothing(cls) -> Stats:
        return cls(0, 0, 0, 0, 0, 0, 0, 0, 0, [])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Stats:
        """The opposite of `as_dict`."""
        partitions = {name: stats and cls.of(stats) for name, stats in fields.get("partitions", {}).items()}
        queues = [QueueStats(**queue) for queue in fields["queues"]]
        return cls(**{**fields, "queues": queues, "partitions": partitions})


class Counts(NamedTuple):
    processed: int = 0
    failed: int = 0  # of the processed ones

    def since(self, before: Counts) -> Counts:
        return Counts(self.processed - before.processed, self.failed - before.failed)


@dataclass(frozen=True, slots=True)
class Day:
    """The jobs of one day, in UTC."""

    date: str  # 2026-11-23
    processed: int  # in any language
    failed: int  # of the processed ones
    queues: Mapping[str, Counts]  # by pyworkers, since 0.4.0


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """An identity under which jobs may be in progress."""

    identity: str
    queues: list[str]
    here: bool  # its process runs, or ran, on this machine
    trouble: str  # why it fetches no jobs; empty while it fetches, and mostly when it is dead
    alive: bool  # has a lease, and did not end
    dead_for_sure: bool  # declared dead, or its process has ended; if neither and not alive, its lease has expired
    speaks: Collection[str] = ()  # the needs of jobs that its release knows
    frees_by_lease: bool = False  # a build before 0.9.0: it frees what an owner holds when its lease is missing


@dataclass(frozen=True, slots=True)
class InProgressJob:
    """A job that was fetched under `owner` and not settled."""

    owner: LeaseOwner
    queue: str
    job: StoredJob
    running_since: float | None  # epoch seconds; None: not begun, or its owner does not say

    @property
    def as_json(self) -> str:
        fields = {"owner": self.owner.identity, "alive": self.owner.alive, "queue": self.queue}
        return f"{simplejson.dumps(fields | {'running_since': self.running_since})[:-1]},{self.job.as_json[1:]}"


@dataclass(frozen=True, slots=True)
class ThreadPool:
    """The queues that share threads in one process, and how many threads."""

    queues: tuple[str, ...]
    threads: int


# Of the program of a process; empty: a program that nobody knows.
Language = Literal["Python", "Ruby", "Go", ""]


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the fleet, in whatever language."""

    identity: str
    version: str  # as the process says it; empty for Sidekiq before 7
    tag: str
    queues: list[str]
    concurrency: int
    pools: Sequence[ThreadPool]
    busy: int  # jobs that it runs
    quiet: bool
    embedded: bool  # part of another program: it must not be asked to stop
    rss_kb: int
    started_at: float  # epoch seconds
    beat: float  # `at` of its last report, epoch seconds
    standby: str = ""  # whom the process stands by for; empty while it works
    commands: Sequence[str] = ()  # that it answers; none before 0.4.0 and in other programs
    config: ConfigInForce | None = None  # None: it has not started from one in the broker
    partition: str = ""  # that it works, `main` for the one of [pyworkers]; empty: other programs, and older releases
    # CPU that it used between its last two beats, as a share of one core: 1.5 is one and a half. None before its second
    # beat, in other programs and in older releases.
    cpu_share: float | None = None
    language: Language = "Python"

    @property
    def state(self) -> str:
        return "quiet" if self.quiet else self.standby or "working"


@dataclass(frozen=True, slots=True)
class Running:
    """A job that a process reports as running."""

    identity: str
    queue: str
    job: StoredJob
    since: float | None  # epoch seconds; None: its process does not say, as those of go-workers2

    @property
    def order(self) -> float:
        """For a list with the longest running first, and those at the end of which nobody knows."""
        return math.inf if self.since is None else self.since


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Version, memory, clients and uptime of a server of the broker. A number that it does not tell is None."""

    address: str  # without a password: "10.0.0.7:6379", or the path of a socket
    product: str  # "Redis"
    version: str
    role: str  # "master" or "replica"
    uptime_s: int | None
    clients: int | None  # connections, the one that asks among them
    memory_bytes: int | None  # that it uses
    peak_bytes: int | None  # the most that it has used since it started
    max_bytes: int | None  # that it may use; None also for: as much as it wants


@dataclass(frozen=True, slots=True)
class Leftover:
    """Jobs of `queue` that are in progress under a process of another program, and how many."""

    queue: str
    process: str
    size: int
