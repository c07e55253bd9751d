"""The pushes of unique jobs: each takes the lock of its job, or does what `on_conflict` says."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.api.push_part import Answer, JobTies, Publish, PushCall, PushPart
from goworkers_py.api.request import PushRequest
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.transport import Published, PublishResult, places_pushed
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError, DuplicateJob, PushError
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.features.parts import Pushes
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import LockClaim
from goworkers_py.features.unique.payload import claim_in, lock_of
from goworkers_py.features.unique.uniqueness import Uniqueness, check_lock_options, uniqueness_of

if TYPE_CHECKING:
    from goworkers_py.features.unique.holders import LockHolders

# Of one call, so many holders of locks are looked for. The other ones count as there.
MOST_LOOKS = 100


class LockTies(JobTies):
    def __init__(self, unique: Uniqueness) -> None:
        self._unique = unique

    def own_members(self, asked: PushRequest) -> Sequence[Mapping[str, Any]]:
        unique = self._unique
        if unique.by is not None:  # it gets the arguments as they were given
            return [unique.field(unique.name(*given)) for given in asked.arguments()]
        kwargs = asked.kwargs or {}
        return [unique.field(unique.name(args, kwargs)) for args in asked.rows]

    def tie(self, fields: Mapping[str, Any], goes_elsewhere: bool) -> LockClaim | None:
        lock = lock_of(fields)
        return None if lock is None else self._unique.claim(lock.name, fields["jid"], fields)


class LockCall(PushCall):
    def __init__(self, holders: Callable[[], LockHolders]) -> None:
        self._holders = holders
        # The job of this call that was the first to ask for each lock. The others that ask for it are not pushed,
        # however soon the first one ends.
        self._firsts: dict[str, str] = {}

    def publish(self, pushes: Sequence[Push], publish: Publish) -> Sequence[PublishResult]:
        repeats = [self._repeat(push.tie(LockClaim)) for push in pushes]
        asked = [at for at, repeat in enumerate(repeats) if repeat is None]
        pushed = pushes if len(asked) == len(pushes) else [pushes[at] for at in asked]
        try:
            found = publish(pushed) if pushed else []
            if found.count(Published.PUSHED) < len(found):
                found = self._after_looks(pushed, found, {*self._firsts.values()}, publish)
        except PushError as error:
            error.within(asked, ())
            raise
        if len(asked) == len(pushes):
            return found
        results = iter(found)
        return [repeat or next(results) for repeat in repeats]

    def answer(self, push: Push, result: PublishResult) -> Answer:
        lock = push.tie(LockClaim)
        if lock is None or not isinstance(result, Conflict):
            return True
        if lock.on_conflict == "raise":
            raise DuplicateJob(result.holder.jid, lock=lock.name)
        if result.how == "replaced":
            return result.holder.jid
        return True if result.how == "rescheduled" else None

    def _repeat(self, lock: LockClaim | None) -> Conflict | None:
        """Where an earlier job of the call asks for the same lock. With `replace` and `reschedule` each push counts."""
        if lock is None:
            return None
        first = self._firsts.setdefault(lock.name, lock.jid)
        one_counts = lock.on_conflict in ("skip", "raise")
        return Conflict(Holder(first)) if one_counts and first != lock.jid else None

    def _after_looks(
        self, pushes: Sequence[Push], results: Sequence[PublishResult], ours: Collection[str], publish: Publish
    ) -> list[PublishResult]:
        """Publishes again where the holder of the lock is gone, because another program has deleted it. The jobs
        `ours` of the same call are not looked for: one that is gone has ended."""
        held: dict[int, tuple[LockClaim, Holder]] = {}
        for at, (push, result) in enumerate(zip(pushes, results, strict=True)):
            lock = push.tie(LockClaim)
            if not isinstance(result, Conflict) or lock is None or result.holder.jid in ours:
                continue
            if result.how == "rescheduled" or lock.outlasts:
                continue  # the holder of the first is looked for when the job begins
            if len(held) < MOST_LOOKS:
                held[at] = lock, result.holder
        claims: dict[int, Push] = {}
        try:
            asked = [(lock.name, holder) for lock, holder in held.values()]
            gone = self._holders().gone(asked) if asked else set()
            claims = {
                at: pushes[at].with_tie(lock._replace(instead_of=holder.jid))
                for at, (lock, holder) in held.items()
                if lock.name in gone
            }
            again = publish([*claims.values()]) if claims else []
        except PushError as error:
            error.within([*claims], places_pushed(results))
            raise
        now = dict(zip(claims, again, strict=True))
        return [now.get(at, result) for at, result in enumerate(results)]


class UniquePushes(PushPart):
    def __init__(self, broker: Callable[[], Broker]) -> None:
        super().__init__(broker)
        self._known: LockHolders | None = None  # made at the first conflict; two threads may each make one

    def ties_of(self, asked: PushRequest) -> LockTies | None:
        unique = uniqueness_of(asked.options.said, asked.job_class)
        if unique is None:
            return None
        if asked.by_others:
            raise ArgumentError(
                f"{asked.job_class} is unique, but a link of a chain or a callback of a batch takes no lock: write "
                f"{asked.job_class}.set(unique_for=False).s(...)"
            )
        self._broker().require_part(Locks)
        return LockTies(unique)

    def begin(self) -> LockCall:
        return LockCall(self._holders)

    def _holders(self) -> LockHolders:
        if self._known is None:
            from goworkers_py.features.unique.holders import LockHolders

            self._known = LockHolders(self._broker())
        return self._known


def _tie_of_stored(payload: bytes, goes_elsewhere: bool) -> LockClaim | None:
    return claim_in(payload)


def _why_not_pushed(job_class: str, options: Mapping[str, Any]) -> tuple[str, str] | None:
    if not options.get("unique_for"):
        return None
    shown = f"pyworkers locks list --class {shlex.quote(job_class)}"
    return "another job holds its lock", f"to see the locks: {shown}"


PUSHES = Pushes(
    UniquePushes,
    check_options=check_lock_options,
    tie_of_stored=_tie_of_stored,
    why_not_pushed=_why_not_pushed,
)
