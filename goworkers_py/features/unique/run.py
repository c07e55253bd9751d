"""Asks for the lock of a unique job before the job begins, where its options want that: `unique_until="start"`,
`on_conflict="replace"`, `on_conflict="reschedule"`, or a `unique_for` of at most SHORT_S seconds. Other unique jobs
hold their lock from the push to the end and do not ask.

A job with limits asks twice. The first time it only looks, because it may have to wait in the line of a limit: it has
not begun while it waits there. It asks again when it has its places.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, UnreadablePayload
from goworkers_py.core.holder import Holder
from goworkers_py.core.outcome import REQUEUE_LAST, Outcome
from goworkers_py.features.in_process import GoodEnd, InProcess, ShortCut, WorkerProcess
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.features.unique.end import given_back
from goworkers_py.features.unique.lock import RESCHEDULED_S, Begin, Begun, TooEarly
from goworkers_py.features.unique.payload import LOCK, JobLock, lock_of, renewed
from goworkers_py.features.unique.service import LockKeeper
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running.rungs import RENEWED, Rung, refused, rescheduled
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD, lacking

if TYPE_CHECKING:
    from goworkers_py.features.unique.holders import LockHolders

log = logging.getLogger("goworkers_py.job")

# The marks of a job that has to ask, beside RENEWED, which may have to take the arguments of a later push; and of one
# that begins when it has its places in limits.
ASKS, BEGINS_LATE = "asks", "begins late"
_MEMBERS = {"v", "needs", LOCK}


class UniqueRuns(InProcess):
    def __init__(self, process: WorkerProcess, locks: Locks) -> None:
        self._locks = locks
        self._broker = process.broker
        self._holders: LockHolders | None = None  # two threads may each make one
        self._wall = process.shared.clock.wall
        self._keeper = LockKeeper(locks, process.running, self._wall, process.shared.outage)

    def markers(self) -> Mapping[str, Callable[[Message], Collection[str]]]:
        return {LOCK: _marks}

    def rungs(self) -> Mapping[str, Rung]:
        first = Rung(self._begin_first, before_wait=self._look, of_stand_ins=False)
        return {
            "newest": first._replace(marks=frozenset((RENEWED,))),
            "lock": first._replace(marks=frozenset((ASKS,))),
            "lock again": Rung(self._begin_again, frozenset((BEGINS_LATE,)), after_wait=True),
        }

    def short_cuts(self, speaks: Collection[str]) -> Mapping[str, ShortCut]:
        return {LOCK: partial(good_end_of, speaks)}

    def given_back(self, delivery: Delivery) -> tuple[Effect, ...]:
        return given_back(delivery)

    def services(self) -> Sequence[BrokerService]:
        return (self._keeper,)

    def _look(self, run: Run, message: Message) -> Outcome:
        """The job may have to wait in a line yet, and does not begin here."""
        return self._begin_first(run, message, looks=True)

    def _begin_first(self, run: Run, message: Message, looks: bool = False) -> Outcome:
        lock = lock_of(message.fields)
        if lock is None:
            return run(message)
        takes = lock.on_conflict == "reschedule"
        return self._begin(message, lock, takes=takes, looks=looks) or run(message)

    def _begin_again(self, run: Run, message: Message) -> Outcome:
        """The job has looked at its lock, and has its places now."""
        lock = lock_of(message.fields)
        if lock is None:
            return run(message)
        # Without `takes`: it would wait for another job, which may wait for its places.
        return self._begin(message, lock, takes=False) or run(message)

    def _begin(self, message: Message, lock: JobLock, takes: bool, looks: bool = False) -> Outcome | None:
        """The outcome of a job that must not begin now. None for one that may; the message has its newest arguments."""
        if not message.jid:
            return None
        delivery: Delivery = message.delivery
        reads, frees = lock.reads, lock.until == "start" and not looks
        owner = delivery.identity if lock.until == "success" and not looks else ""
        asked = Begin(
            lock.name, message.jid, message.queue, lock.for_s, takes, reads, frees, looks=looks, owner=owner,
            fetched=(delivery.queue, delivery.payload),
        )  # fmt: skip
        try:
            answer = self._asked(asked, lock)
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            return refused(message, f"its lock cannot be read: {error}", self._wall())
        match answer:
            case Begun(fields):
                if reads:
                    self._renew(message, fields, looks)
                return None
            case TooEarly(due):
                log.info("rescheduled: a later push has given it a later time")
                return rescheduled(message, due)
            case Holder(jid):
                log.info("rescheduled: job %s holds the lock %s", jid, lock.name)
                return rescheduled(message, self._wall() + RESCHEDULED_S * machine.random.uniform(0.9, 1.1))

    def _asked(self, asked: Begin, lock: JobLock) -> Begun | TooEarly | Holder:
        answer = self._locks.begin(asked)
        if isinstance(answer, Holder) and lock.until != "expiry" and self._is_gone(asked.name, answer):
            answer = self._locks.begin(asked._replace(instead_of=answer.jid))
        return answer

    def _is_gone(self, lock: str, holder: Holder) -> bool:
        if self._holders is None:
            # Most processes never search. Nothing is thrown into the thread here: that strikes the code of a job alone.
            from goworkers_py.features.unique.holders import LockHolders

            self._holders = LockHolders(self._broker)
        return self._holders.is_gone(lock, holder)

    def _renew(self, message: Message, fields: bytes, looks: bool) -> None:
        """Gives the message the newest fields. It says that it has them: its retries do not read the lock again."""
        try:
            changes = payload.read(fields) if fields else {}
        except UnreadablePayload as error:
            log.error("its lock has unreadable arguments of a later push; it runs with its own: %s", error)
            changes = {}
        message.renew(renewed(message.raw, changes, has_begun=not looks))


def good_end_of(speaks: Collection[str], fields: Mapping[str, Any]) -> GoodEnd | None:
    """Of a job that does not ask for its lock: most hold it from the push to the end."""
    lock, field = lock_of(fields), fields[FIELD]
    if lock is None or lock.asks or lock.until == "expiry" or field.keys() != _MEMBERS or lacking(field, speaks):
        return None
    return lambda jid: FreeLock(jid, lock.name)


def _marks(message: Message) -> Collection[str]:
    lock = lock_of(message.fields)
    if lock is None or not lock.asks:
        return ()
    late = (BEGINS_LATE,) if lock.until == "start" or lock.reads or lock.owns_at_once else ()
    return (RENEWED if lock.reads else ASKS, *late)
