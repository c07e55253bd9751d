"""The methods of an App that tell where a job is, and wait for its result."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.job_status import JobStatus
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.errors import JobCancelled, JobFailed, NoResult
from goworkers_py.core.job_state import ENDED
from goworkers_py.wire.job_record import JobRecord

# A waiting caller is told of the end of the job, and reads the record then. A message may get lost, or the server's
# access rules may not allow them: so it also reads after these pauses, the last one again and again.
PAUSES_S = (0.05, 0.2, 1.0)


class Results:
    @property
    def broker(self) -> Broker:
        raise NotImplementedError

    @property
    def inspector(self) -> Inspector:
        raise NotImplementedError

    def status(self, jid: str) -> JobStatus:
        """`workers.status(jid).state` is scheduled, waiting, running, retry, dead, completed, cancelled, expired or
        unknown. `verified` says whether the job was seen there, or this is only its last known state.

        For a job with `track` or `retain` this takes the same time however many jobs there are; any other job is
        searched for, among 10,000 jobs of each place at most."""
        return self.inspector.status(jid)

    def result(self, jid: str, timeout: float | None = None) -> Any:
        """`workers.result(jid, timeout=5)` waits until a job with `retain` has ended, and returns its result.

        Raises JobFailed when it failed for good, JobCancelled when it was cancelled, deleted or has expired, and
        TimeoutError after `timeout` seconds. Raises NoResult for a job that nobody tracks, or whose result was not
        kept."""
        changed, give_up_at = threading.Event(), _end_of(timeout)
        if (record := _ended(self.broker, jid)) is not None:
            return _result_of(record)
        stop = self.broker.store.watch(jid, changed.set)
        try:
            for pause_s in _pauses(give_up_at):
                changed.wait(pause_s)
                changed.clear()
                if (record := _ended(self.broker, jid)) is not None:
                    return _result_of(record)
        finally:
            stop()
        raise _timed_out(jid, timeout)

    async def aresult(self, jid: str, timeout: float | None = None) -> Any:
        """`await workers.aresult(jid, timeout=5)` is `workers.result` for a coroutine: it does not block the loop."""
        changed, give_up_at, loop = asyncio.Event(), _end_of(timeout), asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(changed.set)

        if (record := await asyncio.to_thread(_ended, self.broker, jid)) is not None:
            return _result_of(record)
        stop = await asyncio.to_thread(self.broker.store.watch, jid, tell)
        try:
            for pause_s in _pauses(give_up_at):
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), pause_s)
                changed.clear()
                if (record := await asyncio.to_thread(_ended, self.broker, jid)) is not None:
                    return _result_of(record)
        finally:
            stop()
        raise _timed_out(jid, timeout)


def _end_of(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _pauses(give_up_at: float | None) -> Iterator[float]:
    number = 0
    while give_up_at is None or time.monotonic() < give_up_at:
        pause_s = PAUSES_S[min(number, len(PAUSES_S) - 1)]
        number += 1
        yield pause_s if give_up_at is None else max(0.001, min(pause_s, give_up_at - time.monotonic()))


def _timed_out(jid: str, timeout: float | None) -> TimeoutError:
    return TimeoutError(f"job {jid} has not ended within {timeout:g} s; workers.status({jid!r}) says where it is")


def _ended(broker: Broker, jid: str) -> JobRecord | None:
    """The record of the job if it has ended. Raises NoResult for a job without a record."""
    record = broker.store.record(jid)
    if record is None:
        raise NoResult(
            f"there is no record of job {jid}: it has no `retain`, was never pushed, or ended longer ago than its "
            "`retain` seconds"
        )
    return record if record.state in ENDED else None


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
    return record.state if record.state == "expired" else last or record.state
