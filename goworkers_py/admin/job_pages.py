"""Reads the jobs of a place: those of a span of time, or a page after another in calls that know nothing of each other,
as web pages need it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence

from goworkers_py.admin.filter import Wanted
from goworkers_py.brokers.contracts.admin import PAGE, PlacedJobs
from goworkers_py.brokers.contracts.span import Span
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.wire.stored_job import StoredJob

LOOKS = 100


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs of a place, and where the next page begins."""

    jobs: Sequence[StoredJob]
    next: str  # give it as `after`; empty when there are no more jobs
    looked_at: int  # also those that were not wanted


def pages_in(jobs: PlacedJobs, span: Span) -> Iterator[list[StoredJob]]:
    for page in jobs.pages(span.newest_first, span.start(jobs.before)):
        yield page
        if span.is_behind(page[-1]):
            return


def page_of(
    jobs: PlacedJobs, wanted: Wanted, span: Span, after: str, limit: int, most: int, most_bytes: int | None = None
) -> JobPage:
    """Looks at `most` jobs at most, so that a page comes soon, however few of a million jobs are wanted; with
    `most_bytes`, the page ends behind jobs of so many bytes, or after a look at a hundred times as many."""
    start = _place_after(jobs, after, span.newest_first) if after else span.start(jobs.before)
    found: list[StoredJob] = []
    looked_at = kept = seen = 0
    read = itertools.chain.from_iterable(jobs.pages(span.newest_first, start))
    for looked_at, job in enumerate(read, 1):
        if span.is_behind(job):
            return JobPage(found, "", looked_at)
        if wanted.fits(job):
            found.append(job)
            kept += len(job.payload)
        seen += job.size
        ends = most_bytes is not None and (kept >= most_bytes or seen >= LOOKS * most_bytes)
        if len(found) >= limit or looked_at >= most or ends:
            return JobPage(found, _mark(start + looked_at, job), looked_at)
    return JobPage(found, "", looked_at)


def _mark(place: int, job: StoredJob) -> str:
    """Names the last job of a page: its place, a digest of its bytes, its time."""
    return f"{place}-{_digest(job)}-{'' if job.at is None else repr(job.at)}"


def _place_after(jobs: PlacedJobs, mark: str, newest_first: bool) -> int:
    """The place of the job behind the one that the mark names, which may have moved on. Where that has left: the place
    of the jobs of its time, or in a queue the place itself."""
    try:
        position, digest, at = mark.split("-", 2)
        place, time = int(position), float(at) if at else None
    except ValueError:
        raise ArgumentError(f"after: {mark!r} is not what `next` of a page was") from None
    for start in (max(0, place - 1), max(0, place - PAGE)):
        for number, job in enumerate(next(jobs.pages(newest_first, start), ()), start + 1):
            if job.at == time and _digest(job) == digest:
                return number
    return place if time is None else jobs.before(time, newest_first)


def _digest(job: StoredJob) -> str:
    return hashlib.sha1(job.payload, usedforsecurity=False).hexdigest()[:16]
