"""One job: where it is, how it came there, its arguments, its error, its result."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from goworkers_py.admin.job_status import as_seen
from goworkers_py.core.job_state import STATES, StateWord
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.response import TEXT_TYPE, Response
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.table import Data, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views import job_facts as facts
from goworkers_py.web.views.job_actions import ACTIONS, edited_form
from goworkers_py.web.views.job_finding import NAMED, WAITING, Finder, FoundOnPage, Spot
from goworkers_py.web.views.job_lists import OFFERED
from goworkers_py.web.views.rows import key_of, refuse_large, row_of
from goworkers_py.wire.job_record import JobRecord, Move

__all__ = ["ACTIONS", "VIEWS"]

MOST_MOVES = 100


def details(visit: Visit) -> Data:
    """One job. `key` and `state` of a list find it at once; without them a tracked job is found by its record, and any
    other is searched for: among some thousand jobs of each place. `elsewhere` lists all places where a job with this
    jid was seen; `search.complete` says whether every place was searched to its end."""
    finder = Finder(visit, waits=visit.request.path.startswith("/api/"))
    record = visit.inspector.record(finder.jid)
    found = finder.found()
    search = finder.search()
    spots = [] if search.value is None else search.value.spots
    data: dict[str, Any] = {
        "jid": finder.jid,
        "state": found.state if found is not None else record.state if record is not None else "unknown",
        "record": None if record is None else _fields_of(record),
        "timeline": _timeline(found, record),
        "result": facts.result_of(record, visit.hiding),
        "search": search,
        "elsewhere": [spot for spot in spots if found is None or not _is(spot, found, visit.hiding)],
        "row": None,
    }
    return data if found is None else {**data, **_of_found(visit, found)}


def _of_found(visit: Visit, found: FoundOnPage) -> Data:
    job, hiding = found.job, visit.hiding
    args, kwargs = facts.arguments(found, hiding)
    row = row_of(job, hiding)
    return {
        "row": dataclasses.replace(row, queue=found.queue or row.queue),
        "process": found.process,
        "args": args,
        "kwargs": kwargs,
        "unreadable": facts.unreadable_text(found, hiding),
        "size": job.size,
        "whole": not job.whole,
        "times": facts.times(found),
        "error": facts.error_of(job.message),
        "retries": facts.retries(job.message),
        **facts.ties(job.message, job.line),
        "fields": facts.other_fields(job.message, hiding),
        "actions": OFFERED.get(found.state, ()),
        "again": edited_form(job, hiding),
    }


def _is(spot: Spot, found: FoundOnPage, hiding: Hiding) -> bool:
    if (spot.state, spot.key, spot.process) != (found.state, key_of(found.job, hiding), found.process):
        return False
    return spot.state != WAITING or spot.queue == found.queue


def _fields_of(record: JobRecord) -> Data:
    fields = ("state", "at", "queue", "job_class", "group", "owner", "error_class", "error_message", "progress")
    return {name: getattr(record, name) for name in fields} | {
        "percent": record.progress.percent if record.progress is not None else None
    }


def _timeline(found: FoundOnPage | None, record: JobRecord | None) -> list[Move]:
    if record is not None:
        return list(record.timeline)[-MOST_MOVES:]
    if found is None:
        return []
    word: StateWord = next((state for state in STATES if state == found.state), "waiting")
    return list(as_seen(found.job, word).timeline)


def raw(visit: Visit) -> Response:
    """The payload of a job as it is stored, as a file. Values that are to be hidden are masked in it."""
    found = Finder(visit, waits=True).found()
    if found is None:
        raise Refused(404, f"no job with jid {visit.args['jid']} was seen there: it may have moved")
    refuse_large(found.job)
    name = re.sub(r"[^A-Za-z0-9]", "-", visit.args["jid"])[:60]
    headers = [("Content-Disposition", f'attachment; filename="job-{name}.txt"')]
    return Response(visit.hiding.masked(found.job), TEXT_TYPE, headers=headers)


VIEWS = [
    View("/job", "Job", "job.html", details, NAMED, "/jobs"),
    View("/job/raw", "Payload", "", raw, NAMED, "/jobs"),
]
