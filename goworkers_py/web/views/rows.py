"""A job as a row of a list, and as the fields of its page. Fields of a payload may have any type: what is shown is what
could be read."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

from goworkers_py.admin.filter import time_of
from goworkers_py.admin.jobs import MOST_BYTES
from goworkers_py.brokers.contracts.admin import Glance
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.budget import Budget
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import BEFORE_VALUES, VALUE_BYTES
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.visit import Visit
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message, epoch, whole_number
from goworkers_py.wire.stored_job import StoredJob

# Bytes that the values of payloads take at once, in all requests; payloads that take less than SMALL do not wait.
PAYLOADS, SMALL = Budget(16_000_000), 1_000_000
# Requests that read lists of payloads at once: each has some megabytes before it can tell what their values take.
READERS = Budget(2)

NAMELESS, UNREADABLE = "(none)", "(unreadable)"


@dataclass(frozen=True, slots=True)
class JobRow:
    jid: str
    key: str  # names just this job in a form: its time, a digest of what is shown of it, its jid
    job_class: str
    queue: str
    args: Any  # with masked values
    at: float | None  # due, died, parked or enqueued
    enqueued_at: float | None
    error_class: str
    error_message: str
    retry_count: int | None
    tags: Sequence[str]
    line: str
    job: StoredJob


def few(jobs: Sequence[StoredJob]) -> list[StoredJob]:
    """The first ones, of few bytes together."""
    ends = itertools.accumulate(len(Glance().of(job).payload) for job in jobs)
    return [job for job, end in zip(jobs, ends, strict=True) if end <= MOST_BYTES]


def begin_reading(visit: Visit) -> None:
    """Waits for the other requests that read lists of payloads."""
    visit.request.take(READERS, 1)


def held(visit: Visit, jobs: Sequence[StoredJob], copies: int = 1) -> Sequence[StoredJob]:
    """The jobs, which this request is going to parse. Large ones wait for those of other requests. The estimate for a
    page of many small values may be above the whole budget: such a page takes all of it. `copies` is how often the
    request has all values of the jobs."""
    cost = copies * sum(len(job.payload) + VALUE_BYTES * sum(map(job.payload.count, BEFORE_VALUES)) for job in jobs)
    if cost > SMALL:
        visit.request.take(PAYLOADS, min(cost, PAYLOADS.most))
    return jobs


def refuse_large(job: StoredJob) -> None:
    if job.whole:
        raise Refused(
            413, f"this job has {job.whole:,} bytes, too many for a page: `pyworkers` shows it and changes it, and "
            "programs read it by `workers.inspector.find(jid)`",
        )  # fmt: skip


def row_of(job: StoredJob, hiding: Hiding) -> JobRow:
    job = Glance().of(job)
    message = job.message
    return JobRow(
        jid=job.jid,
        key=key_of(job, hiding),
        job_class=shown_class(message),
        queue=queue_of(job),
        args=shown_args(job, hiding),
        at=time_of(job),
        enqueued_at=enqueued_at(job),
        error_class=text_of(job, "error_class"),
        error_message=text_of(job, "error_message"),
        retry_count=retry_count(job),
        tags=[] if message is None else list(message.tags),
        line=job.line,
        job=job,
    )


def queue_of(job: StoredJob) -> str:
    return job.queue or text_of(job, "queue")


def enqueued_at(job: StoredJob) -> float | None:
    return None if job.message is None else job.message.enqueued_at or job.message.created_at


def retry_count(job: StoredJob) -> int | None:
    # A longer number cannot be written.
    return None if job.message is None else whole_number(job.message.get("retry_count"))


def text_of(job: StoredJob, field: str) -> str:
    return "" if job.message is None else _text(job.message.get(field))


def key_of(job: StoredJob, hiding: Hiding) -> str:
    if job.size > Glance().longest:
        return short_key_of(job)
    # Of the job as it is shown: from a digest of all its bytes, a short value that is hidden could be guessed.
    digest = hashlib.sha1(hiding.masked(job), usedforsecurity=False).hexdigest()[:12]
    return f"{'' if job.at is None else repr(job.at)}~{digest}|{job.jid}"


def short_key_of(job: StoredJob) -> str:
    """A key without the digest, for who knows the time and the jid alone."""
    return f"{'' if job.at is None else repr(job.at)}|{job.jid}"


def has_key(job: StoredJob, keys: Collection[str], hiding: Hiding) -> bool:
    return short_key_of(job) in keys or key_of(job, hiding) in keys


def time_and_jid(key: str) -> tuple[float | None, str]:
    """The parts of a key. Raises ValueError."""
    head, _, jid = key.partition("|")
    time_text = head.partition("~")[0]
    at = float(time_text) if time_text else None
    if at is not None and math.isnan(at):
        raise ValueError("no job is at a time that is no number")
    return at, jid


def shown_class(message: Message | None) -> str:
    if message is None:
        return UNREADABLE
    if message.get("class") == enclosure.CLASS:
        return _text(message.get("display_class")) or UNREADABLE
    return message.job_class or NAMELESS


def shown_args(job: StoredJob, hiding: Hiding) -> Any:
    """Positional arguments, those of ActiveJob unwrapped, and the keyword arguments behind them as an object."""
    message = job.message
    if message is None or job.original is not None:
        return [hiding.in_place_of(job) if hiding.may_hide(job.payload) else job.escaped]
    args: Any = message.args
    if "wrapped" in message and isinstance(args, list) and args and isinstance(args[0], dict):
        args = args[0].get("arguments", args)
    if message.kwargs:
        args = [*(args if isinstance(args, list) else [args]), message.kwargs]
    return hiding.value(args)


def failed_at(message: Message | None) -> float | None:
    return None if message is None else epoch(message.get("retried_at")) or epoch(message.get("failed_at"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
