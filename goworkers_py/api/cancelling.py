"""The method of an App that cancels a job."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Literal

from goworkers_py.admin.job_status import JobLookup, check_jid
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.job_state import ENDED
from goworkers_py.links.retry import Handlers
from goworkers_py.wire.message import Message

CancelAnswer = Literal["cancelled", "interrupted", "requested", "too late", "not found", "not running"]

# By how the job has ended, as the process tells it that has met the job.
_ANSWERS: dict[str, CancelAnswer] = {"cancelled": "cancelled", "retry": "interrupted", "waiting": "interrupted"}

# A process that has met the job tells it. The message may get lost, so the answer is looked for now and then.
LOOK_EVERY_S = 0.25


class Cancelling:
    @property
    def broker(self) -> Broker:
        raise NotImplementedError

    @property
    def handlers(self) -> Handlers:
        raise NotImplementedError

    def cancel(self, jid: str, *, retry: bool = False, timeout: float = 2.0) -> CancelAnswer:
        """`workers.cancel(jid)` cancels a job wherever it is: one that waits never runs, in one that runs JobCancelled
        is raised. With `retry` a running job is interrupted only, and retried as after a failure.

        Returns "cancelled" when the job was removed, or has ended as cancelled: from then on it does not run. Returns
        "interrupted" when it goes on later, as with `retry`; "too late" when it has ended in another way; "not found"
        when it is nowhere; "not running" when it waits, and only a run was to be interrupted. Else returns "requested",
        after `timeout` seconds: the job is cancelled when a process meets it."""
        check_jid(jid)
        self.broker.require(Capability.CONTROL)
        lookup, cancels = JobLookup(self.broker), self.broker.cancels
        if (too_late := _ended(lookup, jid)) is not None:
            return too_late
        cancels.ask(jid, retry)  # first: from here on no process begins it
        job = None if retry else lookup.remove(jid)
        if job is not None:
            cancels.withdraw(jid)
            with suppress(UnreadablePayload):
                self.handlers.tell_of_cancel(Message(job.payload, job.queue))
            return "cancelled"
        if (answer := self._await_answer(jid, timeout)) is not None:
            return answer
        status = lookup.status(jid)
        ended: CancelAnswer | None = "not found" if status.absent else _ended(lookup, jid)
        if retry and status.state != "running":
            ended = ended or "not running"
        if ended is not None:
            cancels.withdraw(jid)
        return ended or "requested"

    def _await_answer(self, jid: str, timeout: float) -> CancelAnswer | None:
        """None when no process has met the job in time."""
        changed, give_up_at = threading.Event(), time.monotonic() + timeout
        words: list[str] = []

        def hear(word: str) -> None:
            words.extend([word] if word else [])
            changed.set()

        stop = self.broker.cancels.watch(jid, hear)
        try:
            while True:
                told = next(iter(words), None) or self.broker.cancels.answer(jid)
                if told:
                    return _ANSWERS.get(told, "too late")
                left_s = give_up_at - time.monotonic()
                if left_s <= 0:
                    return None
                changed.wait(min(left_s, LOOK_EVERY_S))
                changed.clear()
        finally:
            stop()


def _ended(lookup: JobLookup, jid: str) -> CancelAnswer | None:
    status = lookup.status(jid)
    if status.state not in ENDED or not status.verified:
        return None
    return "cancelled" if status.state == "cancelled" else "too late"
