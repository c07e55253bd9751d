"""Writes the payloads of the jobs of one push."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

from goworkers_py.core.effect import Push, Tracked
from goworkers_py.core.group import GroupMembership
from goworkers_py.core.limit import SlotClaim, SlotTie
from goworkers_py.core.lock import LockClaim
from goworkers_py.policy.grouping import Grouping
from goworkers_py.policy.uniqueness import Uniqueness
from goworkers_py.wire import payload
from goworkers_py.wire.job_limits import SLOTS, slots_field, slots_of
from goworkers_py.wire.job_record import says_tracked, tracked_of
from goworkers_py.wire.lock import lock_of
from goworkers_py.wire.needs import FIELD

Own = Mapping[str, Any]


class WrittenJob(NamedTuple):
    jid: str
    queue: str
    payload: bytes
    track: Tracked | None = None
    lock: LockClaim | None = None
    slot: SlotClaim | None = None
    group: GroupMembership | None = None

    def push(self, at: float | None, bid: str = "") -> Push:
        group = None if at else self.group
        slot = None if group else self.slot
        return Push(self.queue, self.payload, at, track=self.track, lock=self.lock, batch=bid, group=group, slot=slot)


class Ties(NamedTuple):
    """How the jobs of one push are tied to something beside their queue."""

    # Of unique jobs, where the caller knows it already.
    unique: Uniqueness | None = None
    # The names of their locks, one for each job, where the push does not make them from the arguments.
    locks: Sequence[str] | None = None
    # The slots of a strict limit, one for each job.
    slots: Sequence[SlotTie] = ()
    members: Mapping[str, Any] = MappingProxyType({})  # of the payload's field `pyworkers`, beside the needs
    needs: Collection[str] = ()
    batch: str = ""  # the batch that the jobs join
    is_later: bool = False  # pushed at a time that nobody knows yet


NO_TIES = Ties()


class JobWriter:
    """The fields that all jobs of one push share. The jobs differ only in their arguments and jids, and
    those with locks or slots in these."""

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
        if unique.on_conflict != "replace":
            return [unique.claim(lock, jid) for lock, jid in zip(locks, jids, strict=True)]
        told = zip(rows, jids, locks, strict=True)
        return [unique.claim(lock, jid, {**self._fields, "args": list(args)}) for args, jid, lock in told]

    def written(self, job: dict[str, Any]) -> WrittenJob:
        track, lock = tracked_of(job) if says_tracked(job) else None, None
        if self._unique is not None and (found := lock_of(job)) is not None:
            lock = self._unique.claim(found.name, job["jid"], job)
        slots = slots_of(job)
        slot = SlotClaim(slots[0].slot, job["jid"]) if slots else None
        return WrittenJob(job["jid"], job["queue"], payload.write(job), track, lock, slot, self.joining(job))

    def joining(self, job: Mapping[str, Any] | None = None) -> GroupMembership | None:
        """The group that a job joins; `job`: its fields, where they are not those of the push."""
        job = self._fields if job is None else job
        if self._grouping is None or job.get("kwargs"):  # a link may have added kwargs: it runs by itself
            return None
        return self._grouping.joining(job["queue"], job["class"])

    def track(self, jid: str) -> Tracked | None:
        return Tracked(jid, self._fields["class"]) if self._tracked else None

    def as_texts(self, rows: Sequence[Sequence[Any]], jids: Sequence[str], owns: Sequence[Own] = ()) -> list[bytes]:
        if len(rows) == 1:  # for one job, this is faster than joining parts
            return [payload.write(self.as_dict(rows[0], jids[0], *owns))]
        fields = {name: value for name, value in self._fields.items() if not owns or name != FIELD}
        head, tail, *each_args = payload.encode_each([fields, self._times, *rows])
        each_own = [f'"{FIELD}":{payload.encode({**self._ours, **own})},' for own in owns]
        return [
            f'{head[:-1]},"args":{args},"jid":{payload.encode(jid)},{own}{tail[1:]}'.encode()
            for args, jid, own in zip(each_args, jids, each_own or repeat("", len(rows)), strict=True)
        ]

    def as_dict(self, args: Sequence[Any], jid: str, own: Own | None = None) -> dict[str, Any]:
        """`own`: see `owns`."""
        fields = {**self._fields, "args": list(args), "jid": jid, **self._times}
        if own:
            fields[FIELD] = {**self._ours, **own}
        return fields

    def owns(self, locks: Sequence[str], slots: Sequence[SlotTie]) -> list[Own]:
        """The members of the field `pyworkers` that each job has of its own: its lock, its slot."""
        of_locks: list[Own] = [self._unique.field(lock) for lock in locks] if self._unique is not None else []
        of_slots: list[Own] = [{SLOTS: slots_field([slot])} for slot in slots]
        if of_locks and of_slots:
            return [{**lock, **slot} for lock, slot in zip(of_locks, of_slots, strict=True)]
        return of_locks or of_slots
