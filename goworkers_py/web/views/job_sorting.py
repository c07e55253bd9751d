"""Lists of jobs in the order of a column.

A place of a million jobs is kept in the order of their times, and read some hundreds at a time. So the time is an order
of all jobs. By any other column, the first MOST_SORTED jobs that fit are sorted, and the page says so when there are
more. Pages of such a list are parts of the same jobs: `after` is how many jobs come before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from goworkers_py.admin.filter import time_of
from goworkers_py.admin.places import DEAD, TIMED
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.rows import enqueued_at, queue_of, retry_count, shown_class, text_of

T = TypeVar("T")

MOST_SORTED = 1_000
OLDEST, NEWEST = "at", "-at"  # the orders in which a place with times is kept

# All but the arguments: these have no order, and the order must not tell what is hidden in them.
PLACED_JOBS = Columns(
    "jid", at=time_of, job_class=lambda job: shown_class(job.message), queue=queue_of,
    error=lambda job: f"{text_of(job, 'error_class')} {text_of(job, 'error_message')}".strip(),
    retry_count=retry_count, enqueued_at=enqueued_at,
)  # fmt: skip
RUNNING_JOBS = Columns(
    "since", "queue", process=lambda run: run.identity, job_class=lambda run: shown_class(run.job.message),
    jid=lambda run: run.job.jid,
)  # fmt: skip
ENDED_JOBS = Columns(
    "since", "job_class", "queue", "jid", why=lambda record: record.timeline[-1].reason if record.timeline else ""
)


def newest_first(visit: Visit, place: Place) -> bool:
    """The order in which the place is read."""
    if place in TIMED and visit.args["sort"] in (OLDEST, NEWEST):
        return bool(visit.args["sort"] == NEWEST)
    return bool(visit.args["order"] == "newest" or (not visit.args["order"] and place == DEAD))


def sorts(visit: Visit, place: Place) -> bool:
    """Whether jobs are to be sorted here: by another column than that of the place's own order."""
    return bool(visit.args["sort"]) and not (place in TIMED and visit.args["sort"] in (OLDEST, NEWEST))


def window(visit: Visit, found: Sequence[T], most: int) -> tuple[Sequence[T], str]:
    """The part of a whole list that a page shows, and the `after` of the next page; empty for the last one."""
    after, limit = visit.args["after"] or "0", min(visit.args["limit"], most)
    if not (after.isascii() and after.isdigit() and len(after) < 10):
        raise bad_request(f"after: {after!r} is not what `next` of a page was")
    if limit < 1:
        raise bad_request(f"limit: must be at least 1, is {limit}")
    end = int(after) + limit
    return found[int(after) : end], str(end) if len(found) > end else ""
