"""The verbs of the inspector that cancel one job, or all jobs that a filter wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from goworkers_py.admin import places
from goworkers_py.admin.filter import Wanted
from goworkers_py.admin.job_lookup import CANCELLED, JobLookup
from goworkers_py.admin.job_status import JobStatus, check_jid
from goworkers_py.admin.jobs import change_in
from goworkers_py.admin.verbs import Verbs
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import Change, Place
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.core import machine
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.job_state import ENDED
from goworkers_py.core.values import dataclass
from goworkers_py.features.cancelling.api import handlers_of
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.links.handlers import tell
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

CancelAnswer = Literal[
    "cancelled", "interrupted", "requested", "too late", "not found", "not running", "runs in Ruby", "runs in Go"
]

Step = Callable[[], None]

# By how the job has ended, as the process tells it that has met the job.
_ANSWERS: dict[str, CancelAnswer] = {"cancelled": "cancelled", "retry": "interrupted", "waiting": "interrupted"}

IN_OTHERS = "they run in Ruby or Go, which do not obey a cancel"

# The versions of Sidekiq since which iterable jobs look for a cancel: when they begin, and while they run.
_SIDEKIQ_LOOKS_FIRST, _SIDEKIQ_LOOKS = (7, 3, 3), (7, 3, 9)

# A process that has met the job tells it. The message may get lost, so the answer is looked for now and then.
LOOK_EVERY_S = 0.25


@dataclass(slots=True)
class CancelCounts:
    """The result of a cancel of many jobs."""

    cancelled: int = 0  # they were removed, or have ended as cancelled: from now on they do not run
    requested: int = 0  # they run, and no process has confirmed their end yet
    too_late: int = 0  # they have ended in another way meanwhile
    foreign: int = 0  # they run in Ruby or Go, which do not obey


class CancelVerbs(Verbs):
    def cancel(self, jid: str, *, retry: bool = False, timeout: float = 2.0) -> CancelAnswer:
        """Cancels one job, wherever it is: `inspector.cancel(jid)`. See `workers.cancel`."""
        return self._people.cancel(jid, retry, timeout)

    def cancel_all(
        self, wanted: Wanted, *, timeout: float = 2.0, dry_run: bool = False, only_running: bool = False,
        advance: Callable[[int], object] = lambda jobs: None,
    ) -> CancelCounts:  # fmt: skip
        """Cancels all wanted jobs that wait or run: `inspector.cancel_all(workers.Filter(tag="import"))`. With
        `only_running`, those that wait stay; a job that a process has fetched waits no more.

        Returns how many were `cancelled`; the others are `requested`: they were asked for, and no process has confirmed
        them within `timeout` seconds; or `foreign`: they run in Ruby or Go, which do not obey. Jobs that are pushed
        meanwhile may be left out. `advance` is called with the number of jobs of each page that was looked at.
        """
        people, counts = self._people, CancelCounts()

        def cancel_in(place: Place) -> None:
            how = partial(Change, reason=CANCELLED)
            for looked_at, changed in change_in(self._broker, place, wanted, how, dry_run):
                counts.cancelled += changed.done
                for job in changed.jobs:
                    people.tell_of(job)
                advance(looked_at)

        def cancel_waiting() -> None:
            # In the order in which a job moves.
            queues = [places.waiting_in(queue.name) for queue in self._admin.queues()]
            for place in () if only_running else (places.SCHEDULED, places.RETRIES, *queues, places.PARKED):
                cancel_in(place)

        cancel_waiting()
        running = people.running(wanted)
        people.cancel_foreign(wanted, counts, dry_run)
        if dry_run:
            counts.cancelled += len(running)
            return counts
        people.cancel_running(wanted, running, timeout, counts, cancel_waiting)
        return counts

    @property
    def _people(self) -> PeopleCancel:
        return PeopleCancel(self._broker, lambda message: tell(handlers_of(self._registry), message))


class PeopleCancel:
    def __init__(self, broker: Broker, tell: Callable[[Message], object]) -> None:
        """`tell` is called with each job that was removed from where it waited."""
        self._broker = broker
        self._cancels = broker.require_part(Cancels)
        self._tell = tell

    def cancel(self, jid: str, retry: bool, timeout: float) -> CancelAnswer:
        check_jid(jid)
        lookup = JobLookup(self._broker)
        status = lookup.status(jid)
        before = _ended(status)
        if before == "too late":
            return before
        if status.state == "running" and (process := self._others().get(status.owner)) is not None:
            return self._ask_other(jid, process, retry)
        return self._cancel(lookup, jid, before, retry, timeout)

    def _cancel(
        self, lookup: JobLookup, jid: str, before: CancelAnswer | None, retry: bool, timeout: float
    ) -> CancelAnswer:
        """Of a job that no other program runs. `before`: how it had ended, if a copy of it may be left."""
        give_up_at = machine.monotonic() + timeout
        asked = self._cancels.ask(jid, retry)  # first: from here on no process begins it
        removed = not retry and self._remove(lookup, jid)
        if (removed or before == "cancelled") and not self._is_left(lookup, jid, retry):
            self._cancels.withdraw(jid, asked)
            return "cancelled"
        while (answer := self._await_answer(jid, give_up_at)) == "cancelled" and self._is_left(lookup, jid, retry):
            asked = self._cancels.ask(jid, retry)  # the first of its copies has met the tombstone, which is gone
        if answer is not None:
            return answer
        status = lookup.status(jid)
        ended: CancelAnswer | None = "not found" if status.absent else _ended(status)
        if retry and status.state != "running":
            ended = ended or "not running"
        if ended == "cancelled" and lookup.is_held(jid):
            ended = None
        if ended is not None:
            self._cancels.withdraw(jid, asked)
        return ended or "requested"

    def _others(self) -> dict[str, Process]:
        """The processes of other programs, by identity."""
        found = self._broker.admin.processes()
        return {process.identity: process for process in found if process.language in ("Ruby", "Go")}

    def _ask_other(self, jid: str, process: Process, retry: bool = False) -> CancelAnswer:
        """No tombstone: these processes would not meet it."""
        if process.language == "Go":
            return "runs in Go"
        version = tuple(int(part) for part in re.findall(r"\d+", process.version)[:3])
        if retry or version < _SIDEKIQ_LOOKS_FIRST:
            return "runs in Ruby"
        is_iterable = self._cancels.ask_sidekiq(jid)
        return "requested" if is_iterable and version >= _SIDEKIQ_LOOKS else "runs in Ruby"

    def _remove(self, lookup: JobLookup, jid: str) -> bool:
        if (job := lookup.remove(jid)) is not None:
            self.tell_of(job)
        return job is not None

    def _is_left(self, lookup: JobLookup, jid: str, retry: bool) -> bool:
        """Whether a copy of the job is held, and so out of reach. Removes those that wait, unless the caller only wants
        to interrupt a run."""
        while not (held := lookup.is_held(jid)) and not retry and self._remove(lookup, jid):
            pass  # it was held before, and has come back: from a process that stops, say
        return held

    def tell_of(self, job: StoredJob) -> None:
        with suppress(UnreadablePayload):
            self._tell(Message(job.payload, job.queue))

    def _await_answer(self, jid: str, give_up_at: float) -> CancelAnswer | None:
        """None when no process has met the job in time."""
        changed = machine.Event()
        words: list[str] = []

        def hear(word: str) -> None:
            words.extend([word] if word else [])
            changed.set()

        stop = self._cancels.watch(jid, hear)
        try:
            while True:
                answer = next(iter(words), None) or self._cancels.answer(jid)
                if answer:
                    return _ANSWERS.get(answer, "too late")
                left_s = give_up_at - machine.monotonic()
                if left_s <= 0:
                    return None
                changed.wait(min(left_s, LOOK_EVERY_S))
                changed.clear()
        finally:
            stop()

    def running(self, wanted: Wanted) -> list[str]:
        """The jids of the wanted jobs in progress."""
        jobs = [held.job for held in self._broker.admin.in_progress() if wanted.fits(held.job)]
        return [job.jid for job in jobs if job.message is not None and job.message.jid]

    def cancel_foreign(self, wanted: Wanted, counts: CancelCounts, dry_run: bool) -> None:
        """Counts the wanted jobs that run in Ruby and Go, and asks those that may obey."""
        if not (others := self._others()):
            return
        for run in self._broker.admin.running():
            if run.identity in others and wanted.fits(run.job):
                jid = "" if dry_run else run.job.jid
                answer = self._ask_other(jid, others[run.identity]) if jid else "runs in Ruby"
                if answer == "requested":
                    counts.requested += 1
                else:
                    counts.foreign += 1

    def cancel_running(
        self, wanted: Wanted, jids: Sequence[str], timeout: float, counts: CancelCounts, cancel_waiting: Step
    ) -> None:
        """`cancel_waiting` removes and counts those of the wanted jobs that wait."""
        asked = {jid: self._cancels.ask(jid, False) for jid in jids}
        answers = self._await_answers(jids, timeout)
        held, gone = set(self.running(wanted)), []
        for jid, word in answers.items():
            if word and word != "cancelled":
                counts.too_late += 1
            elif jid in held:
                counts.requested += 1
                if word:
                    self._cancels.ask(jid, False)  # the first of its copies has met the tombstone, which is gone
            elif word:
                counts.cancelled += 1
            else:
                gone.append(jid)
        if gone:  # they had ended before they were asked for, and may wait again
            before = counts.cancelled
            cancel_waiting()
            counts.too_late += max(0, len(gone) - (counts.cancelled - before))
        for jid in gone:
            self._cancels.withdraw(jid, asked[jid])

    def _await_answers(self, jids: Sequence[str], timeout: float) -> dict[str, str | None]:
        """By jid, how the job has ended; None when no process has met it in time."""
        give_up_at = machine.monotonic() + timeout
        answers: dict[str, str | None] = dict.fromkeys(jids)
        while True:
            answers |= {jid: self._cancels.answer(jid) for jid, word in answers.items() if not word}
            if all(answers.values()) or machine.monotonic() >= give_up_at:
                return answers
            machine.Event().wait(LOOK_EVERY_S)


def not_obeyed(answer: CancelAnswer) -> str:
    """Tells people how to end a job that runs in Ruby or Go."""
    if answer == "runs in Go":
        return "only the end of its process ends this run, and a process that is started in its place runs it again"
    return (
        "a stop of its process ends this run, and Sidekiq puts the job back into its queue, where a cancel removes it"
    )


def _ended(status: JobStatus) -> CancelAnswer | None:
    if status.state not in ENDED or not status.verified:
        return None
    return "cancelled" if status.state == "cancelled" else "too late"
