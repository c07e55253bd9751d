"""A broker in a directory, `dir:///var/lib/jobs`, for the processes of one machine. A job is a file:

queues/QUEUE/NAME               it waits; the names sort in the order in which the jobs are consumed
later/QUEUE/DUE NAME            it is scheduled, or a retry, and comes into its queue when DUE (in milliseconds) is over
progress/IDENTITY QUEUE NAME    it is in progress; that process lives as long as it holds the lock of owners/IDENTITY
dead/TIME NAME                  it has failed for good

The files of answers/ tell, for a day, which pushes with an id there were, and what each settler was answered last.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import logging
import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO, TypeVar
from urllib.parse import quote, unquote

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.transport import Published, Settled, SettlementBatch, Transport
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.errors import BrokerFull, BrokerRefused, BrokerUnavailable, ConfigError, UnreadablePayload
from goworkers_py.core.outcome import NOT_SETTLED, Dead, Outcome, Requeue, Reschedule, Retry
from goworkers_py.policy.priorities import Ask
from goworkers_py.wire import payload as wire

LONGEST_WAIT_S = 5.0
LOOKS_EVERY_S = 0.02  # a folder tells nobody that a file has come
TIDIES_EVERY_S = 1.0
DAY_S = 86_400

T = TypeVar("T")
log = logging.getLogger(__name__)


class Folder:
    """The files. They change in steps: one step at a time, and each as a whole, whatever is killed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def step(self, change: Callable[[], T]) -> T:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with (self.root / "lock").open("w") as lock:  # the system frees it, also when this process is killed
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._finish()
                return change()
        except OSError as error:
            kind = BrokerFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else BrokerUnavailable
            raise kind(f"{self.root}: {error.strerror}") from error

    def commit(self, files: dict[str, bytes], gone: Sequence[str] = ()) -> None:
        """Writes `files` and removes those that are `gone`. Once the journal has its name, all of it will be done."""
        texts = {name: raw.decode("latin-1") for name, raw in files.items()}
        self._write("journal", json.dumps([texts, gone]).encode())
        self._finish()

    def _finish(self) -> None:
        """Does what the journal says. When a process was killed in here, the next step begins with doing it again."""
        journal = self.root / "journal"
        if journal.exists():
            texts, gone = json.loads(journal.read_bytes())
            for name, text in texts.items():
                self._write(name, text.encode("latin-1"))
            for name in gone:
                (self.root / name).unlink(missing_ok=True)
            journal.unlink()

    def _write(self, name: str, raw: bytes) -> None:
        (self.root / "new").write_bytes(raw)
        self.move("new", name)

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)

    def names(self, folder: str, pattern: str = "*") -> list[str]:
        return sorted(path.name for path in (self.root / folder).glob(pattern))


class DirTransport(Transport):
    _numbers = itertools.count()

    def __init__(self, folder: Folder, config: Config) -> None:
        self._folder, self._config = folder, config
        self._locks: dict[str, TextIO] = {}  # of the identities of this process; only in a step
        self._tidied_at = -math.inf  # only in a step
        self._woken: set[str] = set()  # each use is one call of C code

    def publish(self, pushes: Sequence[Push]) -> list[Published]:
        return self._folder.step(lambda: self._publish(pushes))

    def _publish(self, pushes: Sequence[Push]) -> list[Published]:
        files: dict[str, bytes] = {}
        results = []
        for push in pushes:
            answer = f"answers/{named(push.id)}"
            is_known = push.id and (answer in files or (self._folder.root / answer).exists())
            if not is_known:
                files |= {answer: b""} if push.id else {}
                files[self._place(push.queue, push.at)] = push.payload
            results.append(Published.DUPLICATE if is_known else Published.PUSHED)
        self._folder.commit(files)
        return results

    def _place(self, queue: str, at: float | None = None, first: bool = False, deaths: int = 0) -> str:
        """A new name at the back of a queue or at its front, or among the jobs that wait until `at`."""
        order = 10**19 + (-time.time_ns() if first else time.time_ns())
        name = f"{order:020d}.{next(self._numbers) % 10**9:09d}.{deaths}"
        folder = f"queues/{named(queue)}" if at is None else f"later/{named(queue)}"
        path = self._folder.root / folder
        if path.exists() and not (path.is_dir() and os.access(path, os.W_OK | os.X_OK)):
            raise BrokerRefused(f"{path} is no folder that this process may write to")
        return f"{folder}/{name}" if at is None else f"{folder}/{sortable(at)} {name}"

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        end = time.monotonic() + min(wait_s, LONGEST_WAIT_S)
        while True:
            taken = self._folder.step(lambda: self._take(identity, asks, limit))
            woken = self._woken.intersection(queue for queue, _ in asks)
            self._woken.difference_update(woken)
            if taken or woken or time.monotonic() >= end:
                return taken
            time.sleep(LOOKS_EVERY_S)

    def _take(self, identity: str, asks: Sequence[Ask], limit: int) -> list[Delivery]:
        self._look_after(identity)
        taken: list[Delivery] = []
        for queue, most in asks:
            place = named(queue)
            for name in itertools.takewhile(sortable(time.time()).__gt__, self._folder.names(f"later/{place}")):
                self._folder.move(f"later/{place}/{name}", self._place(queue))
            for name in self._folder.names(f"queues/{place}")[: min(most, limit - len(taken))]:
                receipt = f"progress/{named(identity)} {place} {name}"
                self._folder.move(f"queues/{place}/{name}", receipt)
                taken.append(Delivery((self._folder.root / receipt).read_bytes(), queue, identity, receipt))
        return taken

    def _look_after(self, identity: str) -> None:
        """Shows that this process lives; now and then recovers what dead processes held, and deletes what is old."""
        owners = self._folder.root / "owners"
        owners.mkdir(exist_ok=True)
        if identity not in self._locks:
            self._locks[identity] = (owners / named(identity)).open("w")
            fcntl.flock(self._locks[identity], fcntl.LOCK_EX)
        if time.monotonic() > self._tidied_at + TIDIES_EVERY_S:
            self._tidied_at = time.monotonic()
            for owner in owners.iterdir():
                with owner.open() as lock, suppress(BlockingIOError):  # it lives
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if self._recover(owner.name):
                        owner.unlink()
            self._delete_old()

    def _recover(self, owner: str) -> bool:
        """Moves the jobs of a dead process. One that was in progress at `poison_limit` deaths may have caused them.
        False when some cannot be moved now: they hold up no other, and are tried again."""
        moved_all = True
        for held in self._folder.names("progress", f"{owner} *"):
            _, queue, name = held.split(" ")
            deaths = int(name.rpartition(".")[2]) + 1
            try:
                place = self._place(unquote(queue[1:]), deaths=deaths)
            except BrokerRefused as error:
                moved_all = False
                log.error("a job of a dead process cannot be recovered: %s file=%s", error, held)
                continue
            buried = deaths == self._config.poison_limit
            if buried:
                place = f"dead/{sortable(time.time())} {name}"
            self._folder.move(f"progress/{held}", place)
            if buried:
                log.error("buried: in progress when %s processes died file=%s", deaths, self._folder.root / place)
        return moved_all

    def _delete_old(self) -> None:
        dead = self._folder.names("dead")
        oldest = sortable(time.time() - self._config.dead_timeout)
        for name in {*dead[: -self._config.dead_max_jobs or None], *itertools.takewhile(oldest.__gt__, dead)}:
            (self._folder.root / "dead" / name).unlink()
        for answer in (self._folder.root / "answers").glob("*"):
            if answer.stat().st_mtime < time.time() - DAY_S:
                answer.unlink()

    def wake(self, queue: str) -> None:
        self._woken.add(queue)

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return []  # its waits end before `consume` returns

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        return []  # there is no connection that could lose one

    def paused(self) -> set[str]:
        return set()

    def settle(self, batch: SettlementBatch) -> list[Settled]:
        if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished):
            raise ValueError("no broker settles an outcome of NOT_SETTLED")
        return self._folder.step(lambda: self._settle(batch))

    def _settle(self, batch: SettlementBatch) -> list[Settled]:
        answer = f"answers/{named(batch.settler)}"
        if (self._folder.root / answer).exists():
            number, known = json.loads((self._folder.root / answer).read_bytes())
            if number == batch.number:
                return list(known)
        files: dict[str, bytes] = {}
        gone: dict[str, Settled] = {}
        results: list[Settled] = []
        for delivery, outcome in batch.finished:
            result: Settled = delivery.receipt not in gone and (self._folder.root / delivery.receipt).exists()
            if result is True:
                try:
                    files |= self._left_by(delivery, outcome)
                    gone[delivery.receipt] = True
                except Exception as error:  # this delivery stays in progress, and holds up no other
                    result = f"{type(error).__name__}: {error}"
            results.append(result)
        self._folder.commit({**files, answer: json.dumps([batch.number, results]).encode()}, [*gone])
        return results

    def _left_by(self, delivery: Delivery, outcome: Outcome) -> dict[str, bytes]:
        """The files that a job leaves behind: itself in its new place, and the jobs that it pushes. This
        raises if one of them cannot be written: a journal has to be done as a whole."""
        if unknown := [one.kind for one in outcome.effects if not (one.repeatable or isinstance(one, PushJobs))]:
            raise BrokerRefused(f"{', '.join(unknown)}: not in a directory")
        pushes = [push for effect in outcome.effects if isinstance(effect, PushJobs) for push in effect.pushes]
        files = {self._place(push.queue, push.at): push.payload for push in pushes}
        if isinstance(outcome, Requeue):
            again = delivery.payload if outcome.payload is None else outcome.payload
            files[self._place(delivery.queue, first=not outcome.last)] = again
        elif isinstance(outcome, (Retry, Reschedule)):
            files[self._place(queue_in(outcome.payload) or delivery.queue, outcome.at)] = outcome.payload
        elif isinstance(outcome, Dead):
            files[f"dead/{sortable(time.time())} {delivery.receipt.rpartition(' ')[2]}"] = outcome.payload
        if not all(isinstance(raw, bytes) for raw in files.values()):
            raise TypeError("a payload is no bytes")
        return files

    def close(self) -> None:
        while self._locks:
            self._locks.popitem()[1].close()


class DirBroker(Broker):
    name = "the directory"  # sentences of the log begin with it
    capabilities = frozenset({Capability.DELAYS, Capability.SHARED, Capability.LASTING, Capability.ORDER})
    redelivers = True

    def __init__(self, config: Config) -> None:
        self.check(config)
        folder = Folder(Path(config.broker.removeprefix("dir://")))
        self.transport = self._transport = DirTransport(folder, config)
        self.close = self._transport.close  # type: ignore[method-assign]

    @classmethod
    def open(cls, config: Config) -> DirBroker:
        return cls(config)

    @classmethod
    def check(cls, config: Config) -> None:
        if not config.broker.startswith("dir:///"):
            raise ConfigError(f"{config.spelling('broker')}: must be dir:///PATH, with the whole path of a directory")


def named(name: str) -> str:
    """Any name as that of a file. The hyphen keeps it from being `.` or `..`."""
    quoted = "-" + quote(name, safe="")
    if len(quoted) > 100:
        raise BrokerRefused(f"the name {name[:40]}... is too long for a file: choose a shorter one")
    return quoted


def queue_in(raw: bytes) -> str:
    """The queue that a payload names; empty where it names none that a file can have the name of."""
    with suppress(UnreadablePayload, BrokerRefused, UnicodeEncodeError):
        queue = wire.read(raw).get("queue")
        if isinstance(queue, str) and named(queue):
            return queue
    return ""


def sortable(at: float) -> str:
    return f"{max(0, round(min(at, 1e11) * 1000)):015d}"
