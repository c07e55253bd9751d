"""The jobs that wait in a queue: people list, delete and move them while processes push and fetch."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.admin import DELETED, MOVED, PAGE, Change, Changed, Decide, Glance, PlacedJobs
from goworkers_py.brokers.contracts.span import EVERY_JOB, Reached, Span
from goworkers_py.brokers.redis.admin.glances import glances
from goworkers_py.brokers.redis.admin.list_pages import fresh_pages, pages_of_list, ranges
from goworkers_py.brokers.redis.admin.moved_jobs import MovedJobs
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, Script
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.features.parts import FollowMove
from goworkers_py.wire.stored_job import StoredJob

# So many jobs may be pushed between the reading of a page and the deletion of jobs of it; more are seen again later.
# The same for jobs that are fetched, and for those that a process gives back to the beginning of the queue.
PUSHED_MEANWHILE = FETCHED_MEANWHILE = 500
GIVEN_BACK_MEANWHILE = 250
AT_ONCE = 250  # jobs of one step of a move: with those that come and go meanwhile, it looks at 1,000
# Jobs that are looked at at each of a few places of a queue, and how many such pages before the place of a time.
NEAR, PAGES_NEAR = 500, 20
_PICK = Script(LUA / "pick.lua", list_of(int))


class QueueJobs(PlacedJobs):
    def __init__(self, connections: Connections, keys: Keys, queue: str, follow: Sequence[FollowMove] = (),
                 glance: Glance | None = None) -> None:  # fmt: skip
        self._glance = glance
        self._connections = connections
        self._keys = keys
        self._queue = queue
        self._key = keys.queue(queue)
        self._follow = follow

    def count(self) -> int:
        return int(self._connections.call("LLEN", self._key))

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        """In the order in which they are fetched."""
        if self._glance is not None:
            return [job for page in self._glances(self._glance, -start - 1, limit) for job in page]
        pieces = ranges(start, limit, self.count)
        listed = self._connections.exchange([("LRANGE", self._key, -last - 1, -first - 1) for first, last in pieces])
        return [StoredJob(payload, self._queue) for piece in listed for payload in reversed(piece)]

    def before(self, time: float, newest_first: bool = False) -> int:
        raise ArgumentError("jobs that wait in a queue wait for no time")

    def at(self, time: float) -> list[StoredJob]:
        raise ArgumentError("jobs that wait in a queue wait for no time")

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        size = self.count()
        middle = self._place_of(time, size)
        # Jobs of one bulk push have the same time, so the place of one may be far before the last of them.
        near = range(middle, max(0, middle - PAGES_NEAR * NEAR) - NEAR, -NEAR)
        for start in dict.fromkeys(max(0, place) for place in (middle, 0, size - NEAR, *near)):
            yield from enumerate(self.first(NEAR, start), start)

    def _place_of(self, time: float, size: int) -> int:
        """How many jobs came into the queue before this time. Most queues are in the order of these times, so it is
        found by halving: each look is at one job."""
        low, high = 0, size
        while high - low > NEAR:
            middle = (low + high) // 2
            raw = self._connections.call("LINDEX", self._key, -middle - 1)
            message = StoredJob(raw, self._queue).message if raw is not None else None
            since = message.enqueued_at if message is not None else None
            if since is not None and since < time:
                low = middle
            else:
                high = middle
        return low

    def pages(self, newest_first: bool = True, start: int = 0) -> Iterator[list[StoredJob]]:
        """All jobs, always the newest first: jobs that are fetched meanwhile leave at the other end, and the positions
        of the other jobs stay."""
        if (glance := self._glance) is not None:
            yield from fresh_pages(lambda first: next(self._glances(glance, first, PAGE), []), start)
            return
        for page in pages_of_list(self._connections, self._key, PAGE, start):
            yield [StoredJob(payload, self._queue) for payload in page]

    def _glances(self, glance: Glance, start: int, count: int) -> Iterator[list[StoredJob]]:
        for page in glances(self._connections, glance, "list", self._key, start, count):
            yield [StoredJob(entry.raw, self._queue, whole=entry.whole) for entry in page]

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        yield from self._from_next(decide, span) if span.next_first else self._from_newest(decide, span)

    def _from_newest(self, decide: Decide, span: Span) -> Iterator[tuple[int, Changed]]:
        """Jobs that a push has moved into the next page are looked at again, so that no job is missed."""
        start = span.start(self.before)
        while listed := self._connections.call("LRANGE", self._key, start, start + PAGE - 1):
            changes = decide([StoredJob(payload, self._queue) for payload in listed])
            # Pushes meanwhile have moved the jobs back. A job that moved beyond the end is in the next page.
            gone = self._pick(changes, start, start + len(listed) + PUSHED_MEANWHILE)
            start += len(listed) - len(gone)
            yield len(listed), Changed(len(gone), jobs=gone)

    def _from_next(self, decide: Decide, span: Span) -> Iterator[tuple[int, Changed]]:
        """Places count from the next job to run. Fetches move the jobs on, so each page is looked for behind the last
        job that stayed, and where that has left, at the beginning."""
        start, stayed = self._place_behind(span.reached)
        while True:
            seen = min(start, FETCHED_MEANWHILE) if stayed else 0
            listed = self._connections.call("LRANGE", self._key, -start - AT_ONCE, -start - 1 + seen)
            listed.reverse()
            at = _index_of(stayed, listed, seen) + 1 if stayed else 0
            if stayed and not at:
                start, stayed = 0, b""
                continue
            start += at - seen
            if not (page := listed[at : at + AT_ONCE]):
                return
            changes = decide([StoredJob(payload, self._queue) for payload in page])
            gone = self._pick(changes, *_near_next(start, len(page)))
            left = Counter(page) - Counter(job.payload for job in gone)
            stayed = next((payload for payload in reversed(page) if payload in left), stayed)
            start += len(page) - len(gone)
            yield len(page), Changed(len(gone), jobs=gone)

    def _place_behind(self, reached: Reached) -> tuple[int, bytes]:
        """The place behind the last job that stayed in a former call, and this job. Fetches since have moved it on, so
        it is looked for from its former place to the beginning. Once it has left, all jobs before it have left too."""
        if not reached.behind:
            return reached.skip, b""
        end = min(reached.skip, self.count())
        while end > 0:
            first = max(0, end - PAGE)
            listed = self._connections.call("LRANGE", self._key, -end, -first - 1)
            for before, payload in zip(range(first + len(listed), first, -1), listed, strict=True):
                if StoredJob(payload, self._queue).jid == reached.behind:
                    return before, payload
            end = first
        return 0, b""

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        return bool(self._pick([Change(job, reason=reason)], *_near_next(place)))

    def _pick(self, changes: Sequence[Change], first: int, last: int) -> list[StoredJob]:
        """The changes of each goal are one step."""
        gone: list[StoredJob] = []
        for goal, of_goal in itertools.groupby(changes, self._goal):
            gone += self._pick_for(goal, list(of_goal), first, last)
        return gone

    def _goal(self, change: Change) -> str:
        """The queue to which the job goes; empty: it is deleted."""
        if change.to is None and change.at is None:
            return ""
        if change.to is None or change.to.state is not JobState.WAITING or change.to.queue == self._queue:
            raise ArgumentError("jobs that wait in a queue can only be deleted, or moved into another queue")
        return change.to.queue

    def _pick_for(self, goal: str, changes: list[Change], first: int, last: int) -> list[StoredJob]:
        jobs = MovedJobs(self._keys, follow=self._follow)
        entries: list[Argument] = []
        for change in changes:
            entry = change.job.payload
            if goal:
                effects = jobs.notes(entry, MOVED, goal, may_be_dead=True)
            else:
                effects = jobs.effects(entry, "cancelled", change.reason, may_be_dead=True)
            entries += (entry, change.payload, *effects)
        place = (first, last, machine.token_hex(16))
        keys = (
            self._key,
            self._keys.nothing,
            self._keys.queues,
            self._keys.queue(goal) if goal else self._keys.nothing,
        )
        arguments = (*place, goal, *entries)
        answer = self._connections.script(_PICK, (*keys, *jobs.names), arguments)
        return [change.job for change in itertools.compress(changes, answer)]

    def clear(self) -> int:
        """Removes the queue's name too, as Sidekiq's page does."""
        size, _, _ = self._connections.transaction(
            [("LLEN", self._key), ("UNLINK", self._key), ("SREM", self._keys.queues, self._queue)]
        )
        return int(size)


def _near_next(start: int, count: int = 1) -> tuple[int, int]:
    """The first and the last index of the places, counted from the next job to run, near `count` jobs from `start` on.
    The next job is the last of the list."""
    return -start - count - GIVEN_BACK_MEANWHILE, -max(0, start - FETCHED_MEANWHILE) - 1


def _index_of(stayed: bytes, listed: Sequence[bytes], seen: int) -> int:
    """Where the job is that was the last of the `seen` ones; -1: nowhere. Of equal jobs the one that is nearest to that
    place: behind the first of them, the same jobs would be looked at forever."""
    nearest = itertools.chain(range(min(seen, len(listed)) - 1, -1, -1), range(seen, len(listed)))
    return next((at for at in nearest if listed[at] == stayed), -1)
