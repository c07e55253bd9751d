"""Waits for the result of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any

import simplejson

from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.job_status import check_jid
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import DELETED
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, JobCancelled, JobFailed, NoResult
from goworkers_py.core.home import Home
from goworkers_py.core.job_state import ENDED
from goworkers_py.core.pool_here import pool_here
from goworkers_py.features.tracking.contract import Records
from goworkers_py.wire.job_record import JobRecord
from goworkers_py.wire.message import current_message

# A waiting caller is told of the end of the job, and reads the record then. A message may get lost, or the server's
# access rules may not allow them: so it also reads after these pauses, the last one again and again.
PAUSES_S = (0.05, 0.2, 1.0)
# Programs that know of no records move jobs too. So the job itself is looked for after each of these pauses.
LOOKS_S = (5.0, 10.0, 20.0, 60.0)
# Without a record, or when the job was found nowhere: the pause until the second look, which decides.
SECOND_LOOK_S = 1.0


class _Wait:
    """The wait for one result. Used by one thread at a time."""

    def __init__(self, broker: Broker, jid: str, timeout: float | None, own_queues: Collection[str]) -> None:
        """`own_queues` are those of the pool whose thread waits."""
        check_jid(jid)
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
            raise ArgumentError(f"timeout must be seconds, is {timeout!r}")
        self.records = broker.require_part(Records)
        self._broker = broker
        self._jid = jid
        self._timeout = timeout
        self._own_queues = own_queues
        now = machine.monotonic()
        self._give_up_at = None if timeout is None else now + timeout
        self._look_at: float | None = None
        self._looks = self._pauses = self._absent = 0

    def ended(self) -> JobRecord | None:
        """The record of the job if it has ended. Raises when no end will come."""
        record = self.records.record(self._jid)
        if record is not None and record.state in ENDED:
            return record
        if record is not None:
            self._refuse_own(record.queue)
        now = machine.monotonic()
        if self._look_at is None:
            self._look_at = now if record is None else now + LOOKS_S[0]
        if now >= self._look_at:
            self._look()
        return None

    def _refuse_own(self, queue: str) -> None:
        """Each job that waits like this holds a thread: when all do, none is left for the jobs that they wait for."""
        if queue in self._own_queues:
            raise ArgumentError(
                f"job {self._jid} needs a thread of the pool of queue {queue}, and this job waits in such a thread: "
                "when all threads wait so, none of these jobs ends. Push what comes afterwards as a chain or as the "
                "callback of a batch, or give the other job a queue of another pool; same_pool=True waits all the same"
            )

    def _look(self) -> None:
        status = JobLookup(self._broker).status(self._jid)
        if status.state == "dead" and status.verified:
            raise JobFailed(self._jid, status.error_class, status.error_message)
        if not status.absent:
            self._refuse_own(status.queue or "")
        self._absent = self._absent + 1 if status.absent else 0
        if self._absent > 1:
            reason = f"it was last {status.state}, and another program has moved or deleted it" if status.tracked else (
                "it has no `retain`, was never pushed, or ended longer ago than its `retain` seconds"
            )  # fmt: skip
            raise NoResult(f"job {self._jid} is found nowhere: {reason}")
        pause_s = SECOND_LOOK_S if self._absent else LOOKS_S[min(self._looks, len(LOOKS_S) - 1)]
        self._looks += 1
        self._look_at = machine.monotonic() + pause_s

    def pause_s(self) -> float:
        """How long to wait for a message. Raises TimeoutError at the end of the wait."""
        pause_s = PAUSES_S[min(self._pauses, len(PAUSES_S) - 1)]
        self._pauses += 1
        if self._give_up_at is None:
            return pause_s
        left_s = self._give_up_at - machine.monotonic()
        if left_s <= 0:
            raise TimeoutError(
                f"job {self._jid} has not ended within {self._timeout:g} s, or its result is not kept; "
                f"workers.status({self._jid!r}) says where it is"
            )
        return min(pause_s, left_s)


def _own_queues(home: Home, same_pool: bool) -> Collection[str]:
    """The queues whose jobs the code that runs now must not wait for."""
    here = None if same_pool or current_message() is None else pool_here.get()
    return here.queues if here is not None and here.home == home else ()


def result(broker: Broker, home: Home, jid: str, timeout: float | None, same_pool: bool) -> Any:
    """See `Producer.result`."""
    wait = _Wait(broker, jid, timeout, _own_queues(home, same_pool))
    # No Event: an exception could strike this thread inside of its lock.
    changed: machine.SimpleQueue[None] = machine.SimpleQueue()
    if (record := wait.ended()) is not None:
        return _result_of(record)
    stop = wait.records.watch(jid, partial(changed.put, None))
    try:
        while (record := wait.ended()) is None:
            with suppress(Empty):
                changed.get(timeout=wait.pause_s())
        return _result_of(record)
    finally:
        stop()


async def aresult(broker: Broker, home: Home, jid: str, timeout: float | None, same_pool: bool) -> Any:
    """See `Producer.aresult`."""
    wait = _Wait(broker, jid, timeout, _own_queues(home, same_pool))
    changed, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(changed.set)

    if (record := await asyncio.to_thread(wait.ended)) is not None:
        return _result_of(record)
    stop = wait.records.watch(jid, tell)  # it does not wait, and nothing may come between it and the `try`
    try:
        while (record := await asyncio.to_thread(wait.ended)) is None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), wait.pause_s())
            changed.clear()
        return _result_of(record)
    finally:
        stop()


def _result_of(record: JobRecord) -> Any:
    if record.state == "dead":
        raise JobFailed(record.jid, record.error_class, record.error_message)
    if record.state != "completed":
        raise JobCancelled(f"job {record.jid} was {_reason(record)}")
    if record.lost:
        raise NoResult(f"job {record.jid} has completed, and its result was not kept: {record.lost}")
    if record.result is None:
        raise NoResult(f"job {record.jid} has completed, and its result was not kept: give the job `retain=` seconds")
    return simplejson.loads(record.result)


def _reason(record: JobRecord) -> str:
    last = record.timeline[-1].reason if record.timeline else ""
    return "deleted while it waited" if last == DELETED else record.state
