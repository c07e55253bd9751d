"""Writes the payloads of the jobs of one push."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from goworkers_py.core import machine
from goworkers_py.core.batch import BatchTie
from goworkers_py.core.effect import Push, ties_of
from goworkers_py.core.group import GroupMembership
from goworkers_py.features.limits.limit import SlotClaim, SlotTie
from goworkers_py.features.limits.payload import SLOTS, slots_field, slots_of
from goworkers_py.features.tracking.effects import Tracked
from goworkers_py.features.tracking.record import says_tracked, tracked_of
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.payload import lock_of
from goworkers_py.wire import payload
from goworkers_py.wire.needs import FIELD

if TYPE_CHECKING:
    from goworkers_py.core.group import GroupMembership
    from goworkers_py.features.unique.lock import LockClaim
    from goworkers_py.features.unique.uniqueness import Uniqueness
    from goworkers_py.policy.grouping import Grouping

Times = Mapping[str, float | int]
# Stands for the name of a lock where the text around the name is made. Nobody else can write it.
_GAP = machine.token_hex(16)


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
        record = None if self.track is None else RecordTie(self.track)
        ties = ties_of(record, self.lock, slot, BatchTie(bid) if bid else None, group)
        return Push(self.queue, self.payload, at, ties=ties)


class Ties(NamedTuple):
    """How the jobs of one push are tied to something beside their queue."""

    # The names of the locks of unique jobs, one for each job, where the push does not make them from the arguments.
    locks: Sequence[str] | None = None
    # The slots of a strict limit, one for each job.
    slots: Sequence[SlotTie] = ()
    members: Mapping[str, Any] = MappingProxyType({})  # of the payload's field `pyworkers`, beside the needs
    needs: Collection[str] = ()
    batch: str = ""  # the batch that the jobs join
    is_later: bool = False  # pushed at a time that nobody knows yet


NO_TIES = Ties()


class JobWriter:
    """The fields that all jobs of some pushes share. The jobs differ in their arguments, jids and times, and those with
    locks or slots in these. It does not change, so threads and pushes share it."""

    def __init__(
        self,
        fields: dict[str, Any],
        needs: frozenset[str],
        unique: Uniqueness | None = None,
        grouping: Grouping | None = None,
    ) -> None:
        """`needs` names the features that the worker must know."""
        self.queue: str = fields["queue"]
        self.needs = needs
        self.unique = unique
        self._fields = fields
        self._tracked = says_tracked(fields)
        self._grouping = grouping
        self._ours: dict[str, Any] = fields.get(FIELD, {})
        # Made at their first use: not by `cached_property`, whose lock another thread may hold in the moment of a fork.
        self._heads, self._lock_parts = ["", ""], list[str]()

    def claims(
        self, rows: Sequence[Sequence[Any]], jids: Sequence[str], locks: Sequence[str]
    ) -> Iterable[LockClaim | None]:
        unique = self.unique
        if unique is None:
            return repeat(None, len(rows))
        if unique.on_conflict != "replace":
            return [unique.claim(lock, jid) for lock, jid in zip(locks, jids, strict=True)]
        told = zip(rows, jids, locks, strict=True)
        return [unique.claim(lock, jid, {**self._fields, "args": list(args)}) for args, jid, lock in told]

    def written(self, job: dict[str, Any]) -> WrittenJob:
        track, lock = tracked_of(job) if says_tracked(job) else None, None
        if self.unique is not None and (found := lock_of(job)) is not None:
            lock = self.unique.claim(found.name, job["jid"], job)
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

    def as_texts(
        self,
        rows: Sequence[Sequence[Any]],
        jids: Sequence[str],
        times: Times,
        locks: Sequence[str] = (),
        slots: Sequence[SlotTie] = (),
    ) -> list[bytes]:
        texts = payload.encode_each(rows) if len(rows) > 1 else [payload.encode(rows[0])]
        owns = self._own_texts(locks, slots) or repeat("", len(rows))
        head = self._head(of_owners=bool(locks or slots))
        tail = "".join([f',"{name}":{time}' for name, time in times.items()])
        return [
            f'{head},"args":{args},"jid":{payload.encode(jid)}{own}{tail}}}'.encode()
            for args, jid, own in zip(texts, jids, owns, strict=True)
        ]

    def _head(self, of_owners: bool) -> str:
        """The JSON of what is the same in all jobs, without the last bracket; `of_owners`: and without what locks and
        slots change. It is made once: the encoder's preparation takes longer than a job's own fields."""
        if not self._heads[of_owners]:
            fields = {name: value for name, value in self._fields.items() if not of_owners or name != FIELD}
            self._heads[of_owners] = payload.encode(fields)[:-1]
        return self._heads[of_owners]

    def _around_lock(self, unique: Uniqueness) -> list[str]:
        """The field of a job that has a lock and no slot, before and after the name of the lock."""
        if not self._lock_parts:
            self._lock_parts = self._own_text(unique.field(_GAP)).split(payload.encode(_GAP))
        return self._lock_parts

    def _own_texts(self, locks: Sequence[str], slots: Sequence[SlotTie]) -> list[str]:
        """The field `pyworkers` of each job that has a lock or a slot of its own."""
        if self.unique is not None and locks and not slots:
            before, after = self._around_lock(self.unique)
            return [f"{before}{payload.encode(lock)}{after}" for lock in locks]
        return [self._own_text(own) for own in self._owns(locks, slots)]

    def _own_text(self, own: Mapping[str, Any]) -> str:
        return f',"{FIELD}":{payload.encode({**self._ours, **own})}'

    def as_dicts(
        self,
        rows: Sequence[Sequence[Any]],
        jids: Sequence[str],
        times: Times,
        locks: Sequence[str],
        slots: Sequence[SlotTie],
    ) -> Iterator[dict[str, Any]]:
        owns = self._owns(locks, slots) or repeat(None, len(rows))
        for args, jid, own in zip(rows, jids, owns, strict=True):
            fields = {**self._fields, "args": list(args), "jid": jid, **times}
            if own:
                fields[FIELD] = {**self._ours, **own}
            yield fields

    def _owns(self, locks: Sequence[str], slots: Sequence[SlotTie]) -> list[Mapping[str, Any]]:
        """The members of the field `pyworkers` that each job has of its own: its lock, its slot."""
        of_locks = [self.unique.field(lock) for lock in locks] if self.unique is not None else []
        of_slots = [{SLOTS: slots_field([slot])} for slot in slots]
        if of_locks and of_slots:
            return [{**lock, **slot} for lock, slot in zip(of_locks, of_slots, strict=True)]
        return [*of_locks, *of_slots]
