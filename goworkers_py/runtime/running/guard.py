"""The outermost link: turns a delivery into an outcome. Handles payloads that are no job, unmet needs, jobs whose time
has passed, and suspects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import Outcome, Reschedule
from goworkers_py.features.tracking import record as job_record
from goworkers_py.features.unique.payload import JobLock, lock_of
from goworkers_py.links.chain import Run
from goworkers_py.links.expiry import Expiry
from goworkers_py.policy import poison
from goworkers_py.policy.batch_members import BatchMembers
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.running.net import Net
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.special_runs import SpecialRuns
from goworkers_py.wire import needs
from goworkers_py.wire.group import group_of
from goworkers_py.wire.message import EXPIRES_AT, EXPIRY, Message, reset_current, set_current
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

# Fields of a payload. As globals of this module they are quicker to read, and every job asks for each.
_NEEDS, _POISON, _EXPIRES_AT, _EXPIRY, _TRACK, _RETAIN = (
    needs.FIELD, poison.FIELD, EXPIRES_AT, EXPIRY, job_record.TRACK, job_record.RETAIN,
)  # fmt: skip

# Between two looks at a job that can wait in its queue only.
BACK_AGAIN_S = 1.0


class RunSuspect(Protocol):
    def __call__(self, message: Message, delivery: Delivery, chain: Run) -> Outcome: ...


class Guard:
    """Shared by all workers of a queue."""

    def __init__(
        self,
        chain: Run,
        net: Net,
        needs: Needs,
        quarantine: Quarantine,
        expiry: Expiry,
        runs: SpecialRuns,
        aggregation: Run | None = None,
    ) -> None:
        """`aggregation` is the chain around a function that aggregates a group; None: that of all jobs."""
        # Makes the message of a body that is no payload. Set before the start for the bodies of other programs.
        self.read: Callable[[Delivery], Message] | None = None
        self._chain = chain
        self._net = net
        self._sound = sound = net.around(chain)  # for jobs with ties
        self._aggregation = sound if aggregation is None else net.around(aggregation)
        self._needs = needs
        self._members = BatchMembers(needs)
        # Runs a job that may be a suspect. Replaced before the start where the broker keeps marks of deaths.
        self.run_suspect: RunSuspect = quarantine.run
        self._expiry = expiry
        self._timely = expiry.around(sound)
        self._runs = runs
        self._ruby = runs.ties.ruby

    def run(self, delivery: Delivery) -> Outcome:
        try:
            read = self.read
            message = Message(delivery.payload, delivery.queue) if read is None else read(delivery)
        except UnreadablePayload as error:
            return self._unreadable(delivery, error)
        except BaseException as error:
            return self._net.buried(delivery.payload, error)
        outcome: Outcome | None = None
        # First `message`, then `alert`: the canceller's thread raises the alert first, and looks for the messages of
        # running jobs then. So a job that is cancelled just now is found by one of the two.
        delivery.message = message
        message.begun_at = delivery.begun_at
        fields = message.fields
        token = set_current(message)
        try:
            # One `in` for each is quicker than a set of them.
            if (
                _NEEDS in fields or _EXPIRES_AT in fields or _EXPIRY in fields or _TRACK in fields or _RETAIN in fields
                or _POISON in fields or delivery.mark or self._runs.alert
                or (self._ruby is not None and self._ruby.marked(fields))
            ):  # fmt: skip
                return self._run_special(message, delivery)
            outcome = self._chain(message)
            return outcome if message.cancel is None else self._runs.ended(message, outcome)
        except BaseException as error:
            return self._caught(message, outcome or getattr(message, "outcome", None), error)
        finally:
            reset_current(token)
            delivery.message = message.held = None  # a delivery lives until it is settled, and would keep the message

    def _unreadable(self, delivery: Delivery, error: UnreadablePayload) -> Outcome:
        try:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return self._runs.unreadable(delivery.payload, error)
        except Exception as fault:
            return self._net.buried(delivery.payload, fault)

    def _caught(self, message: Message, outcome: Outcome | None, error: BaseException) -> Outcome:
        """`outcome`: that of the chain, if it has ended."""
        if outcome is not None:
            return self._net.kept(outcome, error)
        return self._runs.with_ties(message, self._net.failed(message, error))

    def broken_off(self, delivery: Delivery) -> Outcome:
        """The outcome of a job whose run an exception has ended that was thrown into the thread from outside. How far
        the job got is not known. It counts as failed: else it would run again and again."""
        error = RuntimeError("an exception was thrown into its thread; how far it got is not known")
        try:
            read = self.read
            message = Message(delivery.payload, delivery.queue) if read is None else read(delivery)
            message.tracked = delivery.tracked
        except Exception:
            return self._net.buried(delivery.payload, error)
        return self._runs.with_ties(message, self._net.failed(message, error))

    def _run_special(self, message: Message, delivery: Delivery) -> Outcome:
        """A job that is more than its class and arguments; or one of a class that is tracked; or any job while jobs are
        to be cancelled."""
        fields = message.fields
        if (member := self._members.batch_of(fields)) is not None and self._is_special_by_need_only(message, delivery):
            return self._runs.run_member(message, member, self._sound)
        if _NEEDS in fields and (unmet := self._needs.unmet(message)) is not None:
            return self._runs.run(message, delivery, lambda message: unmet, self._expiry.run_stats)
        if _NEEDS in fields and (group := group_of(fields, message.queue)) is not None:
            ended = self._runs.ties.groups.begin(message, group)
            chain = self._aggregate if ended is None else partial(_answer, ended)
            return self._run_with(message, delivery, chain, self._expiry.around(chain))
        return self._run_tied(message, delivery)

    def _aggregate(self, message: Message) -> Outcome:
        return self._runs.ties.groups.after(message, self._aggregation(message))

    def _run_tied(self, message: Message, delivery: Delivery) -> Outcome:
        """A job that may have a lock or limits."""
        limits = self._runs.ties.limits.of(message)
        lock = lock_of(message.fields) if _NEEDS in message.fields else None
        if (ended := self._begin_lock(message, lock, bool(limits), delivery)) is not None:
            chain: Run = partial(_answer, ended)
            # The newest fields of a job that reads them may have a later time at which it expires.
            if (_EXPIRES_AT in message.fields or _EXPIRY in message.fields) and not (lock is not None and lock.reads):
                chain = self._expiry.around(chain)
            return self._runs.run(message, delivery, chain, self._expiry.run_stats)
        chain, timely = self._sound, self._timely
        if limits:  # a job that has expired takes no place
            if lock is not None:
                chain = self._runs.ties.locks.after_limits(lock, chain, delivery)
            chain = partial(self._runs.ties.limits.run, delivery=delivery, chain=chain, limits=limits)
            timely = self._expiry.around(chain)
        return self._run_with(message, delivery, chain, timely)

    def _is_special_by_need_only(self, message: Message, delivery: Delivery) -> bool:
        fields = message.fields
        return not (
            _EXPIRES_AT in fields or _EXPIRY in fields or _TRACK in fields or _RETAIN in fields or _POISON in fields
            or delivery.mark or self._runs.alert_for_ties or self._ruby is not None
        )  # fmt: skip

    def _run_with(self, message: Message, delivery: Delivery, chain: Run, timely: Run) -> Outcome:
        """`timely` is the chain for a job that expires."""
        fields = message.fields
        expires = _EXPIRES_AT in fields or _EXPIRY in fields
        if expires:
            chain = timely
        if _POISON in fields or delivery.mark:  # rare; `run_suspect` decides whether the job is a suspect
            chain = partial(self.run_suspect, delivery=delivery, chain=chain)
            if expires:  # the job may expire before it waits to run alone, too
                chain = self._expiry.around(chain)
        return self._runs.run(message, delivery, chain, self._expiry.run_stats)

    def _begin_lock(self, message: Message, lock: JobLock | None, looks: bool, delivery: Delivery) -> Outcome | None:
        """The outcome of a job whose lock keeps it from beginning now. `looks`: it may have to wait for a limit yet."""
        if lock is not None and lock.asks:
            return self._runs.ties.locks.begin(message, lock, looks, delivery)
        return None if self._ruby is None else self._ruby.begin(message)


def _answer(outcome: Outcome, message: Message) -> Outcome:
    """Of a job that does not begin now. One that Ruby cannot read does not wait in the schedule, which Ruby reads: it
    goes to the back of its queue, and would come again at once, thousands of times a second."""
    if isinstance(outcome, Reschedule) and ruby_flaw(outcome.payload):
        machine.sleep(BACK_AGAIN_S)  # no Event: an exception thrown into its `wait` could leave its lock locked
    return outcome
