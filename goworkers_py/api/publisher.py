"""Publishes the pushes of a client, and decides about those whose jid or lock another job has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from goworkers_py.brokers.contracts.transport import Published, PublishResult, Push
from goworkers_py.core.batch import BatchTie, line_of
from goworkers_py.core.errors import BatchEnded, BrokerError, DuplicateJob
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.lock import LockClaim
from goworkers_py.wire.batch import outside

if TYPE_CHECKING:
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.features.unique.holders import LockHolders

log = logging.getLogger(__name__)

# Of one call, so many holders of locks are looked for. The other ones count as there.
MOST_LOOKS = 100

# For each push: True, or the jid of the job that runs in its place; None where none does.
Answer = str | bool | None


class Publisher:
    def __init__(self, broker: Callable[[], Broker], on_later: Callable[[float], None]) -> None:
        """`on_later` is called with the time of each push of scheduled jobs."""
        self._broker = broker
        self._on_later = on_later
        self._holders: LockHolders | None = None  # made at the first conflict; two threads may each make one

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        """Publishes the pushes and returns the broker's result for each. A duplicate or a conflict is left to the
        caller."""
        published = self._broker().transport.publish(pushes)
        for at in {push.at for push in pushes}:
            if at is not None:
                self._on_later(at)
        return published

    def publish_held(self, pushes: Sequence[Push]) -> None:
        """Publishes pushes that `atomic` has held back. Their `enqueue` has returned already, so none of them raises:
        also with `on_conflict="raise"`, a job whose lock another job holds is not pushed. A job whose batch has ended
        meanwhile is pushed in no batch; if the batch was cancelled, the job is not pushed. Of a batch that the broker
        has forgotten nobody knows whether it was cancelled: its jobs are pushed, because a job must not be lost."""
        results = zip(pushes, self.publish(pushes), strict=True)
        refused = [push for push, one in results if one is Published.REFUSED]
        stopped = {bid for bid in map(_bid_of, refused) if self._is_cancelled(bid)}
        for bid in stopped:
            log.info("batch %s was cancelled: jobs that were held back for it are not pushed", bid)
        late = [push for push in refused if _bid_of(push) not in stopped]
        for bid in dict.fromkeys(map(_bid_of, late)):
            log.warning("batch %s ended before jobs joined it that were held back: they are pushed in no batch", bid)
        if late:
            self.publish([replace(push.without_tie(BatchTie), payload=outside(push.payload)) for push in late])

    def _is_cancelled(self, bid: str) -> bool:
        """Whether the batch, or one around it, was cancelled."""
        around = [self._broker().batches.status(one) for one in line_of(bid)]
        return any(one is not None and one.stopped for one in around)

    def push(self, pushes: Sequence[Push], firsts: dict[str, str]) -> Sequence[Answer]:
        """Raises DuplicateJob when a jid is that of another job, or for a lock with `raise`; BatchEnded when its batch
        takes no jobs. The other jobs are pushed then.

        `firsts` belongs to one call, which may push in several steps: the job that was the first to ask for each lock.
        The others that ask for it are not pushed, however soon the first one ends."""
        locks = [push.tie(LockClaim) for push in pushes]
        repeats = [None if lock is None else self._repeat(lock, firsts) for lock in locks]
        asked = [at for at, repeat in enumerate(repeats) if repeat is None]
        pushed = pushes if len(asked) == len(pushes) else [pushes[at] for at in asked]
        try:
            results = self.publish(pushed) if pushed else []
            if len(pushed) == len(pushes) and all(one is Published.PUSHED for one in results):
                return [True] * len(pushes)
            told = iter(self._after_looks(pushed, results, {*firsts.values()}))
        except BrokerError as error:
            error.places = frozenset(asked[place] for place in error.places)
            raise
        results = [repeat or next(told) for repeat in repeats]
        for push, one in zip(pushes, results, strict=True):
            if one is Published.REFUSED:
                raise BatchEnded(_bid_of(push))
        answers = [self._answer(push, one) for push, one in zip(pushes, results, strict=True)]
        for lock, one in zip(locks, results, strict=True):
            if lock is not None and lock.on_conflict == "raise" and isinstance(one, Conflict):
                raise DuplicateJob(one.holder.jid, lock=lock.name)
        return answers

    def _repeat(self, lock: LockClaim, firsts: dict[str, str]) -> Conflict | None:
        """Where an earlier job of the call asks for the same lock. With `replace` and `reschedule` each push counts."""
        first = firsts.setdefault(lock.name, lock.jid)
        one_counts = lock.on_conflict in ("skip", "raise")
        return Conflict(Holder(first)) if one_counts and first != lock.jid else None

    def _answer(self, push: Push, result: PublishResult) -> Answer:
        if result is Published.DUPLICATE and (record := push.tie(RecordTie)) is not None:
            self._publish_again(self.free(push), record.job.jid)
        if not isinstance(result, Conflict):
            return True
        if result.how == "replaced":
            return result.holder.jid
        return True if result.how == "rescheduled" else None

    def _publish_again(self, push: Push, jid: str) -> None:
        if self.publish([push])[0] is Published.DUPLICATE:  # somebody else was quicker
            from goworkers_py.admin.job_lookup import JobLookup

            raise DuplicateJob(jid, JobLookup(self._broker()).status(jid).state)

    def free(self, push: Push) -> Push:
        """Raises DuplicateJob while there is a job with the jid of this push. A record does not count if its job is in
        no place any more, because another program has deleted it: the push replaces that record."""
        tie = push.tie(RecordTie)
        if tie is None or (record := self._broker().store.record(tie.job.jid)) is None:
            return push
        from goworkers_py.admin.job_lookup import JobLookup

        status = JobLookup(self._broker()).settled_status(record.jid)
        if not status.absent:
            raise DuplicateJob(record.jid, status.state)
        return push.with_tie(tie._replace(instead_of=record.version))

    def _after_looks(
        self, pushes: Sequence[Push], results: Sequence[PublishResult], ours: Collection[str]
    ) -> list[PublishResult]:
        """Publishes again where the holder of the lock is gone, because another program has deleted it. The jobs
        `ours` of the same call are not looked for: one that is gone has ended."""
        held: dict[int, tuple[LockClaim, Holder]] = {}
        for at, (push, one) in enumerate(zip(pushes, results, strict=True)):
            lock = push.tie(LockClaim)
            if not isinstance(one, Conflict) or lock is None or one.holder.jid in ours:
                continue
            if one.how == "rescheduled" or lock.outlasts:
                continue  # the holder of the first is looked for when the job begins
            if len(held) < MOST_LOOKS:
                held[at] = lock, one.holder
        claims: dict[int, Push] = {}
        try:
            gone = self._gone([(lock.name, holder) for lock, holder in held.values()]) if held else set()
            claims = {
                at: pushes[at].with_tie(lock._replace(instead_of=holder.jid))
                for at, (lock, holder) in held.items()
                if lock.name in gone
            }
            again = self.publish([*claims.values()]) if claims else []
        except BrokerError as error:  # the others were pushed before
            done, places = (at for at, one in enumerate(results) if one is Published.PUSHED), [*claims]
            error.places = frozenset(places[place] for place in error.places).union(done)
            raise
        now = dict(zip(claims, again, strict=True))
        return [now.get(at, one) for at, one in enumerate(results)]

    def _gone(self, held: Sequence[tuple[str, Holder]]) -> set[str]:
        if self._holders is None:
            from goworkers_py.features.unique.holders import LockHolders

            self._holders = LockHolders(self._broker())
        return self._holders.gone(held)


def _bid_of(push: Push) -> str:
    batch = push.tie(BatchTie)
    return "" if batch is None else batch.bid
