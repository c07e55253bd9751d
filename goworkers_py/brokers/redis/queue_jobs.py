"""The jobs that wait in a queue: people list and delete them while processes push and fetch."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.contracts.admin import DELETED, PAGE, Change, Changed, Decide, PlacedJobs
from goworkers_py.brokers.contracts.span import EVERY_JOB, Span
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.exchange import Argument, Script
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.list_pages import pages_of_list, ranges
from goworkers_py.brokers.redis.moved_jobs import MovedJobs
from goworkers_py.brokers.redis.replies import list_of
from goworkers_py.core.errors import ArgumentError
from goworkers_py.policy.for_ruby import ForRuby
from goworkers_py.wire.job_record import ENDED_S
from goworkers_py.wire.stored_job import StoredJob

# So many jobs may be pushed between the reading of a page and the deletion of jobs of it; more are seen again later.
PUSHED_MEANWHILE = FETCHED_MEANWHILE = 500
# Jobs that are looked at at each of a few places of a queue, and how many such pages before the place of a time.
NEAR, PAGES_NEAR = 500, 20
_PICK = Script(Path(__file__).parent / "lua" / "pick.lua", list_of(int))


class QueueJobs(PlacedJobs):
    def __init__(self, connections: Connections, keys: Keys, queue: str, ruby: ForRuby | None = None) -> None:
        self._connections = connections
        self._keys = keys
        self._queue = queue
        self._key = keys.queue(queue)
        self._ruby = ruby

    def count(self) -> int:
        return int(self._connections.call("LLEN", self._key))

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        """In the order in which they are fetched."""
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
            listed = self._connections.call("LRANGE", self._key, -start - NEAR, -start - 1)
            for place, payload in enumerate(reversed(listed), start):
                yield place, StoredJob(payload, self._queue)

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
        for page in pages_of_list(self._connections, self._key, PAGE, start):
            yield [StoredJob(payload, self._queue) for payload in page]

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        """Jobs that a push has moved into the next page are looked at again, so that no job is missed."""
        start = span.start(self.before)
        while listed := self._connections.call("LRANGE", self._key, start, start + PAGE - 1):
            changes = decide([StoredJob(payload, self._queue) for payload in listed])
            if any(change.to is not None or change.at is not None for change in changes):
                raise ArgumentError("jobs that wait in a queue can only be deleted")
            gone = self._delete(changes, start, start + len(listed))
            start += len(listed) - len(gone)
            yield len(listed), Changed(len(gone), jobs=gone)

    def _delete(self, changes: Sequence[Change], start: int, end: int) -> list[StoredJob]:
        if not changes:
            return []
        # Pushes meanwhile have moved the jobs back. A job that moved beyond `end` is in the next page.
        return self._pick([change.job for change in changes], start, end + PUSHED_MEANWHILE, changes[0].reason)

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        # Places count from the next job to run, which is the last of the list. Fetches meanwhile have moved it on.
        return bool(self._pick([job], -place - 1, -max(0, place - FETCHED_MEANWHILE) - 1, reason))

    def _pick(self, chosen: list[StoredJob], first: int, last: int, reason: str) -> list[StoredJob]:
        place = (first, last, secrets.token_hex(16))
        jobs = MovedJobs(self._keys, self._ruby)
        entries: list[Argument] = []
        for job in chosen:
            entries += (jobs.record(job.payload), job.payload, *jobs.effects(job.payload, "cancelled"))
        told = (*place, ENDED_S, reason, jobs.records, jobs.index())
        keys = (self._key, self._keys.nothing, self._keys.queues, *jobs.names)
        answer = self._connections.script(_PICK, keys, (*told, *entries))
        return list(itertools.compress(chosen, answer))

    def clear(self) -> int:
        """Removes the queue's name too, as Sidekiq's page does."""
        size, _, _ = self._connections.transaction(
            [("LLEN", self._key), ("UNLINK", self._key), ("SREM", self._keys.queues, self._queue)]
        )
        return int(size)
