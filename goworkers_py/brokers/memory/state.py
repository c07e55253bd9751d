"""The state that all memory brokers of one address share. The parts of a broker take its lock, then change it.

A job is in one place at every instant: in its queue, in progress under an identity, or in one of three lists by time.
A step that takes a job out of one place puts it into its next place before the step frees the lock.

The watchdog throws exceptions into worker threads, between any two instructions, and jobs publish in these threads.
Two things hold all the same:

- The lock is free afterwards, see `core.strikes`. A Condition has a lock of its own, which would not be. So a consumer
  waits on a bell of its own, a SimpleQueue, which is rung by one `put`.
- A publish is done whole or not at all, because it is one append to a deque, see `State.publish`.

Only the daemon's own threads and people call the other verbs, and no exceptions are thrown into those threads.
"""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from goworkers_py.brokers.contracts.admin import ACTIONS_KEPT
from goworkers_py.brokers.contracts.fleet import Counts
from goworkers_py.brokers.contracts.transport import Published, PublishResult, Settled
from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.brokers.memory.lease_record import LeaseRecord
from goworkers_py.brokers.memory.line_jobs import ParkedJob, PostedJob
from goworkers_py.brokers.memory.parts import MemoryMoved, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PUSHED, PublishedPush
from goworkers_py.brokers.memory.stream import Stream
from goworkers_py.brokers.memory.timed_jobs import TimedJob, TimedJobs
from goworkers_py.core import machine
from goworkers_py.core.effect import ID_LIFE_S, Effect, Push, Tie
from goworkers_py.core.holder import Holder
from goworkers_py.core.job_state import JobState
from goworkers_py.core.strikes import Lock
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES, rank_of
from goworkers_py.policy.consequences import moved

Bell = machine.SimpleQueue[None]
# The payloads of a queue, the next to be consumed first. A job gets a new number each time it is put into a place.
Waiting = OrderedDict[int, bytes]

MOST_SETTLERS = 1_000  # whose last batch is remembered; each process has one a queue
DUPLICATE = Published.DUPLICATE
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeadLimits:
    """How many dead jobs are kept, and for how long."""

    jobs: int = 10_000
    age_s: float = 15_552_000.0


@dataclass(slots=True)
class FenceLease:
    """The lease of a fence. It may have more fields than those that each write looks at."""

    token: str = ""  # of its term
    until: float = 0.0


class State:
    def __init__(self, clock: Callable[[], float] = lambda: machine.time()) -> None:
        self.clock = clock  # epoch seconds; tests set it
        self.pid = os.getpid()
        self.lock = Lock()
        # Threads change the fields below only under the lock, but for `_numbers` and `_published`.
        self.bells: dict[Bell, None] = {}  # one for each consumer that waits, as they came
        self.paused: set[str] = set()
        self.leases: dict[str, LeaseRecord] = {}
        self.block_owners: dict[str, LeaseRecord] = {}
        self.holders: dict[str, str] = {}  # the identity that claimed a fixed process name last
        # By settler: the number of its last batch, and the results. The settler that settled last is the last.
        self.settled: dict[str, tuple[int, Sequence[Settled]]] = {}
        self.processed = self.failed = 0
        self.days: dict[int, dict[str | None, Counts]] = {}  # by the days since the epoch, and the queue; None: all
        self.lines: dict[str, dict[int, ParkedJob]] = {}  # by line and number, those parked first first
        self.outboxes: dict[str, dict[int, PostedJob]] = {}  # by name and number
        self.applied: Expiring[tuple[str, str], bool] = Expiring(lambda: self.clock())  # by the id of an effect
        self.values: Expiring[tuple[str, str], bytes] = Expiring(lambda: self.clock())
        self.fences: dict[str, FenceLease] = {}  # by the name of the fence
        self.actions: Stream[bytes] = Stream(ACTIONS_KEPT, lambda: self.clock())  # what people have changed
        made = [make(self) for entry in FEATURES if (make := entry.memory()) is not None]
        self.parts: Sequence[MemoryPart] = made
        self._ties = {kind: tie for part in self.parts for kind, tie in part.ties.items()}
        self.effects = {kind: apply for part in self.parts for kind, apply in part.effects.items()}
        self.enclosing = {kind: apply for part in self.parts for kind, apply in part.enclosing.items()}
        self._pushed: Expiring[str, int] = Expiring(lambda: self.clock())  # by the id of a push, its number
        self._numbers = itertools.count(1)  # a job gets the next one each time it is put into a place
        self._queues: dict[str, Waiting] = {}
        self._timed = {state: TimedJobs() for state in (JobState.SCHEDULED, JobState.RETRY, JobState.DEAD)}
        self._published: deque[list[PublishedPush]] = deque()  # `publish` appends without the lock

    def part(self, kind: type[T]) -> T:
        """The part of a feature."""
        return next(part for part in self.parts if isinstance(part, kind))

    def publish(self, pushes: Sequence[Push]) -> list[PublishResult]:
        """The append publishes all of them. If an exception ends this method before the jobs are sorted in, the next
        step that reads `queues` or `timed` sorts them in."""
        numbered = self._numbered(pushes)
        with self.lock:
            self.sort_in()
        return [DUPLICATE if published.result is None else published.result for published in numbered]

    def publish_within(self, pushes: Sequence[Push]) -> list[PublishResult]:
        """`publish` under the lock, as a part of a step."""
        numbered = self._numbered(pushes)
        self.sort_in()
        return [DUPLICATE if published.result is None else published.result for published in numbered]

    def _numbered(self, pushes: Sequence[Push], insists: bool = False) -> list[PublishedPush]:
        numbered = [PublishedPush(next(self._numbers), push, insists=insists) for push in pushes]
        self._published.append(numbered)
        return numbered

    def advance(self, payload: bytes, at: float | None) -> None:
        """Under the lock. Lets a scheduled job wait until an earlier time."""
        due = self.clock() if at is None else at
        scheduled = self._timed[JobState.SCHEDULED]
        for job in [job for job in scheduled if job.payload == payload and job.at > due]:
            scheduled.remove(job)
            scheduled.add(job._replace(at=due))

    @property
    def queues(self) -> dict[str, Waiting]:
        """Under the lock. Every queue that a job was put into."""
        self.sort_in()
        return self._queues

    @property
    def timed(self) -> dict[JobState, TimedJobs]:
        """Under the lock."""
        self.sort_in()
        return self._timed

    def sort_in(self) -> None:
        """Under the lock. If an exception ends this method halfway, its next call sorts in that batch again from the
        start. No job is added twice: each has its number, and no step takes a job before all are sorted in."""
        while self._published:
            for published in self._published[0]:
                if published.result is None:
                    self._push(published)
            self.ring()
            self._published.popleft()

    def add(self, push: Push) -> None:
        """Under the lock. Pushes a job that a settlement pushes."""
        self._numbered([push], insists=True)
        self.sort_in()

    def _push(self, published: PublishedPush) -> None:
        """Under the lock. All ties decide before the first one takes. An exception may strike, and the push is done
        again from the start."""
        push = published.push
        result: PublishResult = PUSHED
        if push.id and self._pushed.get(push.id) not in (None, published.number):
            published.result = DUPLICATE
            return
        place: Callable[[], object] = partial(self._put_push, published)
        goes_elsewhere, taken = push.at is not None, list[tuple[TieInMemory, Tie]]()
        for tie in sorted(push.ties, key=rank_of):
            kind = self._ties[type(tie)]
            if goes_elsewhere and kind.of_queue:
                continue
            decision = kind.decide(tie, published)
            if decision is None:
                taken.append((kind, tie))
            elif decision.place is None:
                published.result = decision.result
                return
            else:
                result, place, goes_elsewhere = decision.result, decision.place, True
        if push.id:
            self._pushed.put(push.id, published.number, ID_LIFE_S)
        for kind, tie in taken:
            kind.take(tie, published)
        place()
        published.result = result

    def _put_push(self, published: PublishedPush) -> None:
        if published.push.at is None:
            self._queues.setdefault(published.push.queue, Waiting())[published.number] = published.push.payload
        else:
            self._timed[JobState.SCHEDULED].add(TimedJob(published.push.at, published.number, published.push.payload))

    def postpone(self, published: PublishedPush, at: float) -> None:
        """Under the lock. The job of a push waits at least until then."""
        published.at = max(published.push.at or 0.0, at) if published.at is None else published.at
        self._timed[JobState.SCHEDULED].add(TimedJob(published.at, published.number, published.push.payload))

    def holder(self, push: Push) -> Holder | None:
        """Under the lock. The job that keeps this push back."""
        return next(filter(None, (self._ties[type(tie)].holder(tie) for tie in push.ties)), None)

    def note_pushed(self, push: Push) -> None:
        """Under the lock. Called when a step of a feature has pushed this job: for a state that keeps all pushes."""

    def begin_wait(self, jid: str) -> None:
        """Called before somebody waits for the end of a job. A state in which no job can end meanwhile may raise."""

    def ring(self) -> None:
        """Under the lock. Wakes every waiting consumer, which looks again; to wake one in vain does no harm."""
        for bell in self.bells:
            bell.put(None)
        self.bells.clear()

    # --- under the lock: puts a job that was taken from its place into another place

    def put(self, queue: str, payload: bytes, first: bool = False) -> int:
        """To the back of the queue, or with `first` to its front. Returns the number of the job."""
        waiting, number = self.queues.setdefault(queue, Waiting()), next(self._numbers)
        waiting[number] = payload
        if first:
            waiting.move_to_end(number, last=False)
        self.ring()
        return number

    def park(self, line: str, queue: str, payload: bytes) -> None:
        job = ParkedJob(next(self._numbers), self.clock(), queue, payload)
        self.lines.setdefault(line, {})[job.number] = job

    def unpark(self, line: str, number: int) -> ParkedJob | None:
        """None when the job has left the line. A line without jobs is forgotten."""
        job = self.lines.get(line, {}).pop(number, None)
        if not self.lines.get(line, True):
            del self.lines[line]
        return job

    def post(self, to: str, push: Push) -> None:
        posted = PostedJob(next(self._numbers), self.clock(), push)
        self.outboxes.setdefault(to, {})[posted.number] = posted

    def unpost(self, to: str, number: int) -> bool:
        """False when the push has left the outbox. An outbox without pushes is forgotten."""
        found = self.outboxes.get(to, {}).pop(number, None) is not None
        if not self.outboxes.get(to, True):
            del self.outboxes[to]
        return found

    def put_timed(self, state: JobState, at: float, payload: bytes) -> None:
        self.timed[state].add(TimedJob(at, next(self._numbers), payload))

    def bury(self, payload: bytes, limits: DeadLimits) -> None:
        now = self.clock()
        self.put_timed(JobState.DEAD, now, payload)
        self._timed[JobState.DEAD].trim(limits.jobs, now - limits.age_s)

    def moved(self, move: MemoryMoved) -> None:
        """People or the scheduler have moved the job. Does what its ties ask for, then tells the parts."""
        self.follow(moved(move.payload, move.state, move.due, self.clock()))
        self.tell(move)

    def tell(self, move: MemoryMoved) -> None:
        for part in self.parts:
            part.moved(move)

    def follow(self, effects: Iterable[Effect]) -> None:
        """Does what these effects of a move say. It leaves out effects that only a settlement has."""
        for effect in effects:
            if (apply := self.effects.get(type(effect))) is not None:
                apply(effect)
            elif (apply_with := self.enclosing.get(type(effect))) is not None:
                apply_with(effect, self.follow)

    def is_dead(self, owner: str) -> bool:
        """Declared dead, or in no registry. A missing lease is no death."""
        record = self.leases.get(owner) or self.block_owners.get(owner)
        return record is None or record.died_at is not None

    def is_in_progress(self, identity: str, queue: str, receipt: int) -> bool:
        record = self.leases.get(identity)
        return record is not None and receipt in record.in_progress.get(queue, {})

    def take_from_progress(self, identity: str, queue: str, receipt: int) -> bool:
        """False when that delivery was no longer in progress."""
        record = self.leases.get(identity)
        return record is not None and record.in_progress.get(queue, {}).pop(receipt, None) is not None

    def remember(self, settler: str, number: int, results: Sequence[Settled]) -> None:
        """Keeps the results for a repetition of the batch, and forgets settlers that ended long ago."""
        self.settled.pop(settler, None)
        self.settled[settler] = number, results
        if len(self.settled) > MOST_SETTLERS:
            del self.settled[next(iter(self.settled))]

    def count(self, failed: bool) -> None:
        self.processed += 1
        self.failed += failed
        self.count_of_day(self.clock(), Counts(1, int(failed)))

    def count_of_day(self, at: float, new: Counts, queue: str | None = None) -> None:
        """Without a queue: the jobs of all queues."""
        day = self.days.setdefault(int(at // 86_400), {})
        counts = day.get(queue, Counts())
        day[queue] = Counts(counts.processed + new.processed, counts.failed + new.failed)
