"""Pushes jobs, one or many, and tells what became of one: for programs that cannot reach the broker, and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goworkers_py.admin.filter import counted
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.core.errors import ArgumentError, BrokerError, JobCancelled, JobFailed, NoResult
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.params import JSON, SPAN, TIME, Param
from goworkers_py.web.http.response import JSON_TYPE, Response
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.plain import as_json
from goworkers_py.web.site.table import Action, Data, Done, View
from goworkers_py.web.site.visit import Visit

JID = Param("jid", "the job's jid", needed=True)
MOST_JOBS, LONGEST_WAIT_S = 1_000, 10.0

JOB = (
    Param("class", "class of the job", needed=True),
    Param("args", "arguments, a JSON array", JSON),
    Param("kwargs", "keyword arguments, a JSON object", JSON),
    Param("queue", "its queue", default="default"),
    Param("at", "when it runs; at once if left out", TIME),
    Param("options", "a JSON object with options of a push, such as retry, tags, track, retain, expires_in, jid", JSON),
)


class _Push(NamedTuple):
    queue: str
    job_class: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    options: EnqueueOptions


def _push_of(told: Mapping[str, Any]) -> _Push:
    args, kwargs, options = told["args"], told["kwargs"], told["options"]
    if args is not None and not isinstance(args, list):
        raise ArgumentError("args: must be a JSON array")
    for name, value in (("kwargs", kwargs), ("options", options)):
        if value is not None and not isinstance(value, dict):
            raise ArgumentError(f"{name}: must be a JSON object")
    said = dict(options or {}) | ({} if told["at"] is None else {"at": told["at"]})
    return _Push(told["queue"], told["class"], args or [], kwargs, EnqueueOptions(**said))


def _pushed(visit: Visit, push: _Push) -> str | None:
    return visit.part.enqueue_with_options(push.queue, push.job_class, push.args, push.options, push.kwargs)


def _enqueue(visit: Visit) -> Done:
    """Pushes one job, in Sidekiq's format, and answers its jid; null where a client middleware has stopped the push, or
    a unique job holds the lock."""
    push = _push_of(visit.args)
    jid = _pushed(visit, push)
    said = f"job {jid} of class {push.job_class} was pushed to queue {push.queue}" if jid else "nothing was pushed"
    return Done(said, int(jid is not None), result={"jid": jid})


def _enqueue_many(visit: Visit) -> Done:
    """Pushes up to 1,000 jobs, in order, and answers their jids. If one of them is wrong, none is pushed. A broker that
    fails in the middle leaves some pushed: give each job a jid of your own under `options`, and repeat."""
    told = visit.args["jobs"]
    if not isinstance(told, list) or not told:
        raise bad_request("jobs: must be a JSON array of objects as POST /enqueue takes them")
    if len(told) > MOST_JOBS:
        raise bad_request(f"jobs: at most {MOST_JOBS:,} at once, are {len(told):,}")
    pushes = [_checked(number, one) for number, one in enumerate(told)]
    jids: list[str | None] = []
    try:
        jids.extend(_pushed(visit, push) for push in pushes)
    except BrokerError as error:
        raise Refused(503, f"only the first {len(jids)} jobs were pushed: {error}") from error
    done = sum(jid is not None for jid in jids)
    return Done(f"{counted(done)} pushed", done, result={"jids": jids})


def _checked(number: int, told: Any) -> _Push:
    if not isinstance(told, dict):
        raise bad_request(f"jobs[{number}]: must be a JSON object")
    known = {param.name for param in JOB}
    if unknown := [name for name in told if name not in known]:
        raise bad_request(f"jobs[{number}]: {unknown[0]} is not a field of a job")
    try:
        return _push_of({param.name: param.read({param.name: [told.get(param.name)]}) for param in JOB})
    except (Refused, ArgumentError) as error:
        raise bad_request(f"jobs[{number}]: {error}") from None


def _status(visit: Visit) -> Data:
    """Where a job is: its state, since when, its error, its progress, its timeline. A job without `track` or `retain`
    is searched for."""
    return visit.inspector.status(visit.args["jid"]).as_dict()


def _result(visit: Visit) -> Data | Response:
    """The result of a job with `retain`. Waits for its end up to `timeout`, 10 seconds at most: 202 when it has not
    ended then, 404 when there is no result, 409 when it has failed for good, 410 when it was cancelled."""
    try:
        found = visit.part.result(visit.args["jid"], min(visit.args["timeout"], LONGEST_WAIT_S))
    except TimeoutError as error:
        return _told(202, {"ended": False, "told": str(error)})
    except NoResult as error:
        return _told(404, {"error": str(error)})
    except JobFailed as error:
        told = {"error": str(error), "error_class": error.error_class, "error_message": error.error_message}
        return _told(409, told)
    except JobCancelled as error:
        return _told(410, {"error": str(error)})
    return {"ended": True, "result": visit.hiding.value(found)}


def _told(status: int, told: Data) -> Response:
    return Response.of_text(as_json(told, Hiding()), JSON_TYPE, status)


def _stats(visit: Visit) -> Data:
    """The counters, the sizes of the states and of the queues."""
    return visit.inspector.stats().as_dict()


def _form(visit: Visit) -> Data:
    """A form to push a job by hand."""
    return {"queues": [queue.name for queue in visit.inspector.queues()][:200]}


VIEWS = [
    View("/enqueue-form", "Push a job", "enqueue.html", _form, section="/jobs"),
    View("/status", "Status", "", _status, (JID,)),
    View("/result", "Result", "", _result, (JID, Param("timeout", "how long to wait", SPAN, 0.0))),
    View("/stats", "Stats", "", _stats),
]
ACTIONS = [
    Action("/enqueue", _enqueue, JOB),
    Action("/enqueue/bulk", _enqueue_many, (Param("jobs", "up to 1,000 jobs, a JSON array", JSON, needed=True),)),
]
