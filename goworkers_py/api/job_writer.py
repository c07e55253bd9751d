"""Writes the payloads of the jobs of one push."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

from goworkers_py.core.effect import Push, Tracked
from goworkers_py.core.group import Joining
from goworkers_py.core.lock import LockClaim
from goworkers_py.policy.grouping import Grouping
from goworkers_py.policy.uniqueness import Uniqueness
from goworkers_py.wire import payload
from goworkers_py.wire.job_record import says_tracked, tracked_of
from goworkers_py.wire.lock import lock_of
from goworkers_py.wire.needs import FIELD


class WrittenJob(NamedTuple):
    jid: str
    queue: str
    payload: bytes
    track: Tracked | None = None
    lock: LockClaim | None = None
    group: Joining | None = None

    def push(self, at: float | None, bid: str = "") -> Push:
        group = None if at else self.group
        return Push(self.queue, self.payload, at, track=self.track, lock=self.lock, batch=bid, group=group)


class Ties(NamedTuple):
    """How the jobs of one push are tied to something beside their queue."""

    # The names of the locks of unique jobs, one for each job, where the push does not make them from the arguments.
    locks: Sequence[str] | None = None
    members: Mapping[str, Any] = MappingProxyType({})  # of the payload's field `pyworkers`, beside the needs
    needs: Collection[str] = ()
    batch: str = ""  # the batch that the jobs join


NO_TIES = Ties()


class JobWriter:
    """The fields that all jobs of one push share. The jobs differ only in their arguments and jids, and unique ones in
    their locks."""

    def __init__(
        self,
        fields: dict[str, Any],
        times: dict[str, Any],
        unique: Uniqueness | None = None,
        grouping: Grouping | None = None,
    ) -> None:
        self.queue: str = fields["queue"]
        self._fields = fields
        self._times = times
        self._tracked = says_tracked(fields)
        self._unique = unique
        self._grouping = grouping
        self._ours: dict[str, Any] = fields.get(FIELD, {})

    def claims(
        self, rows: Sequence[Sequence[Any]], jids: Sequence[str], locks: Sequence[str]
    ) -> Iterable[LockClaim | None]:
        unique = self._unique
        if unique is None:
            return repeat(None, len(rows))
        told = zip(rows, jids, locks, strict=True)
        return [unique.claim(lock, jid, {**self._fields, "args": list(args)}) for args, jid, lock in told]

    def written(self, job: dict[str, Any]) -> WrittenJob:
        track, lock = tracked_of(job) if says_tracked(job) else None, None
        if self._unique is not None and (found := lock_of(job)) is not None:
            lock = self._unique.claim(found.name, job["jid"], job)
        return WrittenJob(job["jid"], job["queue"], payload.write(job), track, lock, self.joining(job))

    def joining(self, job: Mapping[str, Any] | None = None) -> Joining | None:
        """The group that a job joins; `job`: its fields, where they are not those of the push."""
        job = self._fields if job is None else job
        if self._grouping is None or job.get("kwargs"):  # a link may have added kwargs: it runs by itself
            return None
        return self._grouping.joining(job["queue"], job["class"])

    def track(self, jid: str) -> Tracked | None:
        return Tracked(jid, self._fields["class"]) if self._tracked else None

    def as_texts(self, rows: Sequence[Sequence[Any]], jids: Sequence[str], locks: Sequence[str] = ()) -> list[bytes]:
        if len(rows) == 1:  # for one job, this is faster than joining parts
            return [payload.write(self.as_dict(rows[0], jids[0], *locks))]
        fields = {name: value for name, value in self._fields.items() if not locks or name != FIELD}
        head, tail, *each_args = payload.encode_each([fields, self._times, *rows])
        each_lock = [f'"{FIELD}":{payload.encode(self._with_lock(lock))},' for lock in locks]
        return [
            f'{head[:-1]},"args":{args},"jid":{payload.encode(jid)},{lock}{tail[1:]}'.encode()
            for args, jid, lock in zip(each_args, jids, each_lock or repeat("", len(rows)), strict=True)
        ]

    def as_dict(self, args: Sequence[Any], jid: str, lock: str = "") -> dict[str, Any]:
        """`lock`: the name of the lock of a unique job."""
        fields = {**self._fields, "args": list(args), "jid": jid, **self._times}
        if lock:
            fields[FIELD] = self._with_lock(lock)
        return fields

    def _with_lock(self, lock: str) -> dict[str, Any]:
        return {**self._ours, **self._unique.field(lock)} if self._unique is not None else self._ours
