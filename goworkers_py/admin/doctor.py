"""What an operator should mend: looks at everything, changes nothing.

A finding is a line: what is so, and what to do. A problem loses jobs or leaves them lying, sooner or later; a note is
something to know.
"""

from __future__ import annotations

import re
import shlex
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from goworkers_py.admin.entries import Entry, counted
from goworkers_py.admin.foreign import foreign
from goworkers_py.admin.in_progress import InProgress
from goworkers_py.admin.job_sets import JobSet, SetName
from goworkers_py.admin.long_runs import long_runs
from goworkers_py.admin.owners import unreadable_owners
from goworkers_py.admin.processes import Processes
from goworkers_py.admin.queues import Queues
from goworkers_py.admin.stats import Inspector, QueueStats
from goworkers_py.admin.summary import Summary
from goworkers_py.brokers.redis.access import probes
from goworkers_py.brokers.redis.connection import Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.errors import BrokerRefused, NoSuchDatabase, WrongType
from goworkers_py.observe.health_report import OF_SUSPECT, QUIET, STARTING, STOPPING
from goworkers_py.wire.message import Message

OLDEST_SERVER = (6, 2)
PINGS = 9
SLOW_PING_S = 0.010
MOST_SKEW_S = 2.0
# So many of the next jobs of each queue and set are read.
SAMPLE = 1_000
# So many failed jobs of each set are counted, and the most frequent kinds of them told.
MOST_FAILURES, TOP_FAILURES = 5_000, 3

PROBLEM = True
NOTE = False
# Which of the two, what is so, what to do.
Told = tuple[bool, str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    problem: bool
    what: str
    todo: str


@dataclass(frozen=True, slots=True)
class OurWork:
    """What the processes of this configuration run."""

    queues: Collection[str]
    knows: Callable[[Message], bool]  # is code registered for it?


class Doctor:
    def __init__(self, connections: Connections, keys: Keys, work: OurWork | None) -> None:
        """Without `work` nothing is said of classes: the code could not be imported."""
        self._connections = connections
        self._keys = keys
        self._work = work
        self._in_progress = InProgress(connections, keys)

    def findings(self) -> Iterator[Finding]:
        for name, check in self._checks().items():
            try:
                for problem, what, todo in check():
                    yield Finding(name, problem, what, todo)
            except NoSuchDatabase:
                raise
            except WrongType:
                pass  # `types` tells of it
            except BrokerRefused as error:
                todo = f"grant the command, or --skip {name}"
                yield Finding(name, False, f"this could not be looked at: {error}", todo)

    def _checks(self) -> dict[str, Callable[[], Iterable[Told]]]:
        return {
            "version": self._version,
            "eviction": self._eviction,
            "persistence": self._persistence,
            "round-trip": self._round_trip,
            "clock": self._clock,
            "permissions": self._permissions,
            "types": self._types,
            "queues": self._queues,
            "classes": self._classes,
            "processes": self._troubled,
            "owners": self._owner_entries,
            "long-runs": self._long_runs,
            "failures": self._failures,
            "in-progress": self._dead_owners,
            "go-workers": self._go_workers,
            "unreadable": self._unreadable,
        }

    # --- the server

    def _version(self) -> Iterator[Told]:
        info = self._info("server")
        told = info.get("valkey_version") or info.get("redis_version", "")
        version = tuple(int(part) for part in re.findall(r"\d+", told)[:2])
        if version and version < OLDEST_SERVER:
            yield PROBLEM, f"the server is of version {told}", "it must be 6.2 at least"

    def _eviction(self) -> Iterator[Told]:
        policy = self._info("memory").get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            what = f"the server throws jobs away when its memory is full (maxmemory-policy {policy})"
            yield PROBLEM, what, "set maxmemory-policy noeviction"

    def _persistence(self) -> Iterator[Told]:
        info = self._info("persistence")
        for name in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"):
            if info.get(name, "ok") != "ok":
                yield PROBLEM, f"the server cannot write its disk ({name} is {info[name]})", "see the server's log"
        if info.get("aof_enabled") == "1":
            return
        if self._snapshots():
            what = "the server only takes snapshots: when it crashes, all jobs since the last one are lost"
            yield NOTE, what, "set appendonly yes"
        else:
            yield PROBLEM, "the server keeps nothing on disk: when it ends, all jobs are lost", "set appendonly yes"

    def _snapshots(self) -> bool:
        try:
            return bool(self._connections.call("CONFIG", "GET", "save")[1])
        except BrokerRefused:
            return True  # a hosted server does not tell

    def _round_trip(self) -> Iterator[Told]:
        median_s = statistics.median(self._timed_ping() for _ in range(PINGS))
        if median_s > SLOW_PING_S:
            what = f"the server takes {median_s * 1_000:.0f} ms to answer"
            yield NOTE, what, "run the processes nearer to it, or give it less to do"

    def _timed_ping(self) -> float:
        before = time.perf_counter()
        self._connections.call("PING")
        return time.perf_counter() - before

    def _clock(self) -> Iterator[Told]:
        asked_at = time.time()
        seconds, microseconds = self._connections.call("TIME")
        skew_s = (asked_at + time.time()) / 2 - (int(seconds) + int(microseconds) / 1e6)
        if abs(skew_s) > MOST_SKEW_S:
            yield PROBLEM, f"this machine's clock is {skew_s:.1f} s off the server's", "set both by NTP"

    def _permissions(self) -> Iterator[Told]:
        try:
            refused = self._connections.refusals(probes(self._keys))
        except BrokerRefused as error:
            yield PROBLEM, f"transactions are refused: {error}", _RULES
            return
        for command, why in refused:
            yield PROBLEM, f"{' '.join(map(str, command[:2]))} is refused: {why}", _RULES

    # --- the jobs

    def _types(self) -> Iterator[Told]:
        todo = "some other program wrote it: rename or delete it"
        for what in foreign(self._connections, self._keys.types):
            yield PROBLEM, what, todo
        for what in Queues(self._connections, self._keys).foreign(self._work.queues if self._work else ()):
            yield PROBLEM, what, todo
        for key in Inspector(self._connections, self._keys).broken_counters():
            yield PROBLEM, f"key {key} holds no number, so nothing is counted there", "delete it"

    def _queues(self) -> Iterator[Told]:
        processes = Processes(self._connections, self._keys).all()
        owners = self._in_progress.owners()
        worked = {queue for one in processes for queue in one.queues}
        worked |= {queue for owner in owners if owner.alive for queue in owner.queues}
        for queue in self._all_queues():
            if queue.size and queue.paused:
                what = f"queue {queue.name} is paused and holds {counted(queue.size)}"
                yield NOTE, what, f"pyworkers queue resume {queue.name}"
            elif queue.size and queue.name not in worked:
                what = f"queue {queue.name} holds {counted(queue.size)} and no process works it"
                yield PROBLEM, what, "start a process that does"

    def _classes(self) -> Iterator[Told]:
        if self._work is None:
            return
        for queue in self._all_queues():
            if queue.name not in self._work.queues:
                continue
            messages = [entry.message for entry in self._next_jobs(queue) if entry.message is not None]
            unknown = Counter(message.job_class for message in messages if not self._work.knows(message))
            for name, count in unknown.items():
                jobs = f"{counted(count)} waiting in queue {queue.name}"
                what = f"no code is registered for class {name or '(none)'} of {jobs}"
                yield PROBLEM, what, "name its module in require, or let another queue have it"

    def _troubled(self) -> Iterator[Told]:
        for owner in self._in_progress.owners():
            if owner.trouble not in ("", STARTING, QUIET, STOPPING):
                if OF_SUSPECT in owner.trouble:
                    yield NOTE, f"process {owner.identity} {owner.trouble}", "it ends by itself, after minutes at most"
                    continue
                dump = f"its log and `pyworkers processes dump {owner.identity}` tell where it stands"
                yield PROBLEM, f"process {owner.identity} {owner.trouble}", f"{dump}; restart it"

    def _owner_entries(self) -> Iterator[Told]:
        for identity in unreadable_owners(self._connections, self._keys):
            what = f"this release cannot read what {identity} tells in {self._keys.owners}, and recovers no job of it"
            todo = f"upgrade it, or when no such process is left: redis-cli HDEL {self._keys.owners} {identity}"
            yield PROBLEM, what, todo

    def _long_runs(self) -> Iterator[Told]:
        for found in long_runs(self._connections, self._keys):
            todo = "`pyworkers processes dump` tells where they stand; give long jobs a timeout or a queue of their own"
            yield NOTE, str(found), todo

    def _failures(self) -> Iterator[Told]:
        for name in (SetName.RETRIES, SetName.DEAD):
            with suppress(WrongType):  # and the other one is looked at
                yield from self._failures_in(name)

    def _failures_in(self, name: SetName) -> Iterator[Told]:
        jobs, summary, read = JobSet(self._connections, self._keys, name), Summary(), 0
        for page in jobs.pages(newest_first=True):
            summary.add(page)
            read += len(page)
            if read >= MOST_FAILURES:
                break
        size = jobs.size()
        of = counted(size) if size <= read else f"the last {counted(read)}"
        for kind in [kind for kind in summary.kinds() if kind.error_class][:TOP_FAILURES]:
            what = f"{kind.count} of {of} in {name.value} failed with {kind.error_class} in class {kind.job_class}"
            todo = f"pyworkers {name.value} list --class {shlex.quote(kind.job_class)} shows them, summary counts all"
            yield NOTE, what, todo

    def _dead_owners(self) -> Iterator[Told]:
        for owner in self._in_progress.owners():
            held = 0 if owner.alive else self._in_progress.held(owner)
            if held:
                yield PROBLEM, f"{owner.identity} is dead and holds {counted(held)}", "pyworkers recover"

    def _go_workers(self) -> Iterator[Told]:
        for left in self._in_progress.leftovers():
            if not self._in_progress.lives(left.process):
                what = f"process {left.process} of go-workers holds {counted(left.size)} of queue {left.queue}"
                yield PROBLEM, what, f"when it has ended: pyworkers recover --go-workers {left.process}"

    def _unreadable(self) -> Iterator[Told]:
        for queue in self._all_queues():
            count = sum(entry.message is None for entry in self._next_jobs(queue))
            if count:
                what = f"queue {queue.name} holds {counted(count)} that nobody can read"
                yield PROBLEM, what, f"mend their producer; pyworkers queue show {queue.name} shows them"
        for name in SetName:
            with suppress(WrongType):  # and the others are looked at
                yield from self._unreadable_in(name)

    def _unreadable_in(self, name: SetName) -> Iterator[Told]:
        page = next(JobSet(self._connections, self._keys, name).pages(newest_first=name is SetName.DEAD), [])
        count = sum(entry.message is None for entry in page)
        if count:
            what = f"{name.value} holds {counted(count)} that nobody can read"
            yield name is not SetName.DEAD, what, f"mend their producer; pyworkers {name.value} list shows them"

    def _all_queues(self) -> list[QueueStats]:
        return Queues(self._connections, self._keys).all()

    def _next_jobs(self, queue: QueueStats) -> list[Entry]:
        return Queues(self._connections, self._keys).next_jobs(queue.name, min(queue.size, SAMPLE))

    def _info(self, section: str) -> dict[str, str]:
        told = text(self._connections.call("INFO", section))
        return dict(line.split(":", 1) for line in told.splitlines() if ":" in line)


_RULES = "grant what `pyworkers doctor --acl` prints"
