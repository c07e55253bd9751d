"""The jobs that wait in a queue: people list and delete them while processes push and fetch."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

from goworkers_py.brokers.contracts.admin import PAGE, Changed, Decide, PlacedJobs
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.exchange import Script
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.list_pages import pages_of_list
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.stored_job import StoredJob

# So many jobs may be pushed between the reading of a page and the deletion of jobs of it; more are seen again later.
PUSHED_MEANWHILE = 500
_PICK = Script(Path(__file__).parent / "lua" / "pick.lua")


class QueueJobs(PlacedJobs):
    def __init__(self, connections: Connections, keys: Keys, queue: str) -> None:
        self._connections = connections
        self._keys = keys
        self._queue = queue
        self._key = keys.queue(queue)

    def count(self) -> int:
        return int(self._connections.call("LLEN", self._key))

    def first(self, limit: int) -> list[StoredJob]:
        """In the order in which they are fetched."""
        listed = self._connections.call("LRANGE", self._key, -limit, -1) if limit else []
        return [StoredJob(payload, self._queue) for payload in reversed(listed)]

    def pages(self, newest_first: bool = True) -> Iterator[list[StoredJob]]:
        """All jobs, always the newest first: jobs that are fetched meanwhile leave at the other end, and the positions
        of the other jobs stay."""
        for page in pages_of_list(self._connections, self._key, PAGE):
            yield [StoredJob(payload, self._queue) for payload in page]

    def change(self, decide: Decide) -> Iterator[tuple[int, Changed]]:
        """Jobs that a push has moved into the next page are looked at again, so that no job is missed."""
        start = 0
        while listed := self._connections.call("LRANGE", self._key, start, start + PAGE - 1):
            changes = decide([StoredJob(payload, self._queue) for payload in listed])
            if any(change.to is not None for change in changes):
                raise ArgumentError("jobs that wait in a queue can only be deleted")
            deleted = self._delete([change.job.payload for change in changes], start, start + len(listed))
            start += len(listed) - deleted
            yield len(listed), Changed(deleted)

    def _delete(self, chosen: list[bytes], start: int, end: int) -> int:
        if not chosen:
            return 0
        # Pushes meanwhile have moved the jobs back. A job that moved beyond `end` is in the next page.
        place = (start, end + PUSHED_MEANWHILE, secrets.token_hex(16))
        return int(self._connections.script(_PICK, (self._key, self._keys.nothing), (*place, *chosen)))

    def clear(self) -> int:
        """Removes the queue's name too, as Sidekiq's page does."""
        size, _, _ = self._connections.transaction(
            [("LLEN", self._key), ("UNLINK", self._key), ("SREM", self._keys.queues, self._queue)]
        )
        return int(size)
