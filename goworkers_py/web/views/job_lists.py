"""Jobs by state: filter them, and act on one, on a selection or on all that fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from goworkers_py.admin.filter import Wanted
from goworkers_py.admin.jobs import Steps
from goworkers_py.brokers.contracts.admin import Glance, Place
from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.brokers.contracts.span import Reached
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.web.http.params import COUNT, TIME, Param
from goworkers_py.web.site.filters import clock
from goworkers_py.web.site.sorting import param_of
from goworkers_py.web.site.table import Action, ActionDone, Data, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.bulk import FIELDS, Bulk, fields_for
from goworkers_py.web.views.filters import FILTER, PLACED, QUEUE, Unrevealing, asked, place_of, wanted_of
from goworkers_py.web.views.job_sorting import (
    ENDED_JOBS,
    MOST_SORTED,
    PLACED_JOBS,
    RUNNING_JOBS,
    newest_first,
    sorts,
    window,
)
from goworkers_py.web.views.questions import question
from goworkers_py.web.views.rows import begin_reading, held, row_of
from goworkers_py.web.views.running_jobs import running
from goworkers_py.web.views.shared import fleet_stats

ENDED: Sequence[StateWord] = ("completed", "cancelled", "expired")
STATES = ("scheduled", "waiting", "limited", "grouped", "running", "retry", "dead", "outbox", *ENDED)
# So many jobs are looked at for one page: it must come soon where few of a million fit.
MOST_LOOKED_AT = 3_000
MOST_SEARCHED = 1_000  # where a text is looked for, which takes longer
MOST_PLACED, MOST_ENDED = 500, 200  # jobs of a page

WAITING = JobState.WAITING.value


def listed(visit: Visit) -> Data:
    """The jobs of a state, in pages. `next` of a page is the `after` of the next one. At most some thousand jobs are
    looked at for one page, and few are told where they are large: so a page may hold fewer jobs than `limit`, even
    none, and not be the last. Of a payload of more than 100 kB only small fields are told. `at` is an order of all
    scheduled jobs, retries and dead jobs. By other columns the first 1,000 that fit are sorted, or fewer if they are
    large, and `sorted_among` is their number if there are more."""
    args = visit.args
    state = args["state"]
    stats = fleet_stats(visit)
    data: dict[str, Any] = {
        "state": state, "queue": args["queue"] or "", "states": STATES, "counts": _counts(stats),
        "filter": asked(visit), "order": args["order"], "queues": [queue for queue in stats.queues if queue.size],
        "jobs": [], "running": [], "ended": [], "next": "", "looked_at": 0, "total": 0,
        "sorted_among": 0, "actions": OFFERED.get(state, ()),
    }  # fmt: skip
    if state == WAITING and not data["queue"]:
        if not data["queues"]:
            return data
        data["queue"] = max(stats.queues, key=lambda queue: queue.size).name
    if state in PLACED:
        data |= _placed(visit, place_of(state, data["queue"]))
    elif state == "running":
        data |= running(visit)
    elif state in ENDED and visit.inspector.knows_records:
        data |= _ended(visit, state)
    return data


def _ended(visit: Visit, state: StateWord) -> dict[str, Any]:
    """Of tracked jobs only; a filter that a record can answer is that by class and queue."""
    args = visit.args
    if args["sort"]:
        page = visit.inspector.ended(state, limit=MOST_SORTED)
    else:
        page = visit.inspector.ended(state, after=args["after"] or "", limit=min(args["limit"], MOST_ENDED))
    fitting = [
        record for record in page.jobs
        if args["class"] in (None, "", record.job_class) and args["queue"] in (None, "", record.queue)
    ]  # fmt: skip
    data = {"ended": fitting, "next": page.next, "looked_at": len(page.jobs), "total": page.total}
    if args["sort"]:
        data["ended"], data["next"] = window(visit, ENDED_JOBS.sorted(fitting, args["sort"]), MOST_ENDED)
        data["sorted_among"] = len(fitting) if page.next else 0
    return data


def _placed(visit: Visit, place: Place) -> dict[str, Any]:
    args, wanted, sorting = visit.args, wanted_of(visit), sorts(visit, place)
    begin_reading(visit)
    page = visit.inspector.page(
        place, wanted, after="" if sorting else args["after"] or "", most=_most(wanted),
        limit=MOST_SORTED if sorting else min(args["limit"], MOST_PLACED), newest_first=newest_first(visit, place),
        glance=Glance(),
    )  # fmt: skip
    total = visit.inspector.count(place)
    jobs, after, among = held(visit, page.jobs), page.next, 0
    if sorting:
        jobs, after = window(visit, PLACED_JOBS.sorted(page.jobs, args["sort"]), MOST_PLACED)
        among = len(page.jobs) if page.next and page.looked_at < total else 0
    return {
        "jobs": [row_of(job, visit.hiding) for job in jobs],
        "next": after,
        "looked_at": page.looked_at,
        "total": total,
        "sorted_among": among,
    }


def _most(wanted: Wanted) -> int:
    return MOST_SEARCHED if isinstance(wanted, Unrevealing) else MOST_LOOKED_AT


def _counts(stats: Stats) -> Mapping[str, int | None]:
    return {
        "scheduled": stats.scheduled,
        "waiting": sum(queue.size for queue in stats.queues),
        "limited": stats.parked,
        "grouped": stats.grouped,
        "running": stats.in_progress,
        "retry": stats.retries,
        "dead": stats.dead,
        "outbox": stats.outbox,
    }


# By state, what can be done to its jobs: the path, the label, whether jobs are lost by it.
_RETRY, _KILL = ("/jobs/retry", "Run now", False), ("/jobs/kill", "Kill", True)
_DELETE = "/jobs/delete", "Delete", True
OFFERED: Mapping[str, Sequence[tuple[str, str, bool]]] = {
    "scheduled": (_RETRY, _KILL, _DELETE),
    "limited": (_KILL, _DELETE),
    "retry": (_RETRY, _KILL, _DELETE),
    "dead": (_RETRY, _DELETE),
    "waiting": (_DELETE,),
    "outbox": (_DELETE,),
}


def _retry(visit: Visit) -> ActionDone:
    """Puts jobs at the back of their queues, to run now."""
    return _bulk(
        visit, lambda place, wanted, start: visit.inspector.retry(place, wanted, start=start), "put into their queues"
    )


def _kill(visit: Visit) -> ActionDone:
    """Moves jobs to the dead jobs."""
    return _bulk(visit, lambda place, wanted, start: visit.inspector.kill(place, wanted, start=start), "killed")


def _delete(visit: Visit) -> ActionDone:
    """Deletes jobs for good."""
    return _bulk(visit, lambda place, wanted, start: visit.inspector.delete(place, wanted, start=start), "deleted")


def _reschedule(visit: Visit) -> ActionDone:
    """Lets jobs that are scheduled, or wait for a retry, wait for another time instead."""
    at = visit.args["at"]
    return _bulk(
        visit, lambda place, wanted, start: visit.inspector.reschedule(place, wanted, at, start=start), "rescheduled"
    )


def _move(visit: Visit) -> ActionDone:
    """Moves jobs that wait in a queue to the back of another one, in their order."""
    to = visit.args["to"]
    return _bulk(
        visit, lambda place, wanted, start: visit.inspector.move(place.queue, to, wanted, start=start),
        f"moved to queue {to}",
    )  # fmt: skip


def _bulk(visit: Visit, verb: Callable[[Place, Wanted, Reached], Steps], done: str) -> ActionDone:
    return Bulk(visit, verb, done).run()


VIEWS = [
    View(
        "/jobs", "Jobs", "jobs.html", listed,
        (
            Param("state", "the state of the jobs", default=WAITING, choices=STATES),
            QUEUE,
            *FILTER,
            Param("order", "newest or oldest first", choices=("newest", "oldest")),
            param_of(PLACED_JOBS, RUNNING_JOBS, ENDED_JOBS),
            Param("after", "`next` of the former page"),
            Param("limit", "jobs of a page, 500 at most; 200 of those that have ended", COUNT, 50),
        ),
        menu="Jobs",
    ),
]  # fmt: skip
ACTIONS = [
    Action("/jobs/retry", _retry, FIELDS, question("Run now")),
    Action("/jobs/kill", _kill, FIELDS, question("Kill")),
    Action("/jobs/delete", _delete, FIELDS, question("Delete")),
    Action(
        "/jobs/reschedule", _reschedule,
        fields_for(["scheduled", "retry"], Param("at", "the new time", TIME, needed=True)),
        question("Change the time of", lambda visit: f" to {clock(visit.args['at'])}"),
    ),
    Action(
        "/jobs/move", _move,
        fields_for([WAITING], Param("to", "the queue to which they go", needed=True)),
        question("Move", lambda visit: f" to queue {visit.args['to']}"),
    ),
]  # fmt: skip
