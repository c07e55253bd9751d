"""Tells the state and the result of a job: JSON only, for programs."""

from __future__ import annotations

import threading

from goworkers_py.core.errors import JobCancelled, JobFailed, NoResult
from goworkers_py.web.http.params import SPAN, Param
from goworkers_py.web.http.response import JSON_TYPE, Response
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.plain import as_json
from goworkers_py.web.site.table import Data, FeaturePages, View
from goworkers_py.web.site.visit import Visit

JID = Param("jid", "the job's jid", needed=True)
LONGEST_WAIT_S = 10.0
# Each wait holds a thread, and the port has 50 of them: some stay for the pages.
MOST_WAITING = 20
_room = threading.BoundedSemaphore(MOST_WAITING)


def _status(visit: Visit) -> Data:
    """Where a job is: its state, since when, its error, its progress, its timeline. A job without `track` or `retain`
    is searched for."""
    return visit.inspector.status(visit.args["jid"]).as_dict()


def _result(visit: Visit) -> Data | Response:
    """The result of a job with `retain`. Waits for its end up to `timeout`, 10 seconds at most: 202 when it has not
    ended then, 404 when there is no result, 409 when it has failed for good, 410 when it was cancelled. While 20
    others wait, it answers at once."""
    try:
        found = _waited_for(visit)
    except TimeoutError as error:
        return _answer(202, {"ended": False, "told": str(error)})
    except NoResult as error:
        return _answer(404, {"error": str(error)})
    except JobFailed as error:
        failure = {"error": str(error), "error_class": error.error_class, "error_message": error.error_message}
        return _answer(409, failure)
    except JobCancelled as error:
        return _answer(410, {"error": str(error)})
    return {"ended": True, "result": visit.hiding.value(found)}


def _waited_for(visit: Visit) -> object:
    jid, timeout_s = visit.args["jid"], min(visit.args["timeout"], LONGEST_WAIT_S)
    if timeout_s == 0 or not _room.acquire(blocking=False):
        return visit.part.result(jid, 0)
    try:
        return visit.part.result(jid, timeout_s)
    finally:
        _room.release()


def _answer(status: int, data: Data) -> Response:
    return Response.of_text(as_json(data, Hiding()), JSON_TYPE, status)


_ENDS = {
    202: "the job has not ended: ask again",
    404: "no such job, or its result was not kept",
    409: "the job has failed for good; with `error_class` and `error_message`",
    410: "the job was cancelled or deleted, or has expired",
}

PAGES = FeaturePages(
    views=[
        View("/status", "Status", "", _status, (JID,)),
        View("/result", "Result", "", _result, (JID, Param("timeout", "how long to wait", SPAN, 0.0)), others=_ENDS),
    ],
)
