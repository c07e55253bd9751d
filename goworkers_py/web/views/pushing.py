"""Pushes jobs, one or many: for programs that cannot reach the broker, and for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.admin.filter import counted
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.job_options import PushOptions, options_of
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ArgumentError, BrokerError, DuplicateJob
from goworkers_py.core.values import NamedTuple
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.params import ARRAY, OBJECT, TIME, Param, ParamKind
from goworkers_py.web.site.access import PUSH
from goworkers_py.web.site.openapi import object_of
from goworkers_py.web.site.table import Action, ActionDone, Data, View
from goworkers_py.web.site.visit import Visit

MOST_JOBS = 1_000
MOST_QUEUES = 200  # that the form suggests

OPTIONS = ParamKind(
    OBJECT.read,
    {
        "type": "object",
        "properties": {
            name: {"description": f"{option.about}; {option.wanted}"}
            for name, option in sorted(options_of(PushOptions).items())
            if name != "at"
        },
        "additionalProperties": False,
    },
)
JOB = (
    Param("class", "class of the job", needed=True),
    Param("args", "arguments, a JSON array", ARRAY),
    Param("kwargs", "keyword arguments, a JSON object", OBJECT),
    Param("queue", "its queue", default="default"),
    Param("at", "when it runs; at once if left out", TIME),
    Param(
        "options", "a JSON object with options of a push, such as retry, tags, track, retain, expires_in, jid", OPTIONS
    ),
)
JOBS = ParamKind(ARRAY.read, {"type": "array", "minItems": 1, "maxItems": MOST_JOBS, "items": object_of(JOB)})

_JID = {"type": ["string", "null"], "description": "null: a client middleware stopped the push, or a lock is held"}


class _Push(NamedTuple):
    """A push that was checked and not made."""

    queue: str
    job_class: str
    make: Callable[[], str | None]


def _checked(visit: Visit, fields: Mapping[str, Any]) -> _Push:
    options = dict(fields["options"] or {})
    if "at" in options:
        raise ArgumentError("options: give `at` beside `options`, not in them")
    said = EnqueueOptions(**options) if fields["at"] is None else EnqueueOptions(**options, at=fields["at"])
    queue, job_class = fields["queue"], fields["class"]
    return _Push(
        queue, job_class, visit.part.checked_push(queue, job_class, fields["args"] or [], said, fields["kwargs"])
    )


def _enqueue(visit: Visit) -> ActionDone:
    """Pushes one job, in Sidekiq's format, and answers its jid; null where a client middleware has stopped the push, or
    a unique job holds the lock. 409 if there is a tracked job with this jid."""
    push = _checked(visit, visit.args)
    jid = push.make()
    said = f"job {jid} of class {push.job_class} was pushed to queue {push.queue}" if jid else "nothing was pushed"
    return ActionDone(said, int(jid is not None), result={"jid": jid})


def _enqueue_many(visit: Visit) -> ActionDone:
    """Pushes up to 1,000 jobs, in order, and answers their jids. If one of them is wrong, none is pushed. A job whose
    jid or lock another job has is left out: its jid is null, and `problems` names it. A broker that fails in the middle
    leaves some pushed: give each job `track` and a jid of your own under `options`, and then repeat the request."""
    jobs = visit.args["jobs"]
    if not jobs:
        raise bad_request("jobs: must be a JSON array of objects as POST /enqueue takes them")
    if len(jobs) > MOST_JOBS:
        raise bad_request(f"jobs: at most {MOST_JOBS:,} at once, are {len(jobs):,}")
    jids: list[str | None] = []
    problems: list[str] = []
    try:
        for number, push in enumerate([_checked_at(visit, number, job) for number, job in enumerate(jobs)]):
            try:
                jids.append(push.make())
            except DuplicateJob as error:
                jids.append(None)
                problems.append(f"jobs[{number}]: {error}")
            visit.trace.count = sum(jid is not None for jid in jids)
    except BrokerError as error:
        done = sum(jid is not None for jid in jids)
        text = f"{done} of the first {len(jids)} jobs were pushed, and perhaps the next one: {error}"
        raise Refused(503, text, (("Retry-After", "5"),)) from error
    done = sum(jid is not None for jid in jids)
    return ActionDone(f"{counted(done)} pushed", done, result={"jids": jids}, problems=problems)


def _checked_at(visit: Visit, number: int, job: Any) -> _Push:
    if not isinstance(job, dict):
        raise bad_request(f"jobs[{number}]: must be a JSON object")
    known = {param.name for param in JOB}
    if unknown := [name for name in job if name not in known]:
        raise bad_request(f"jobs[{number}]: {unknown[0]} is not a field of a job{did_you_mean(unknown[0], known)}")
    try:
        return _checked(visit, {param.name: param.read({param.name: [job.get(param.name)]}) for param in JOB})
    except (Refused, ArgumentError) as error:
        raise bad_request(f"jobs[{number}]: {error}") from None


def _form(visit: Visit) -> Data:
    """A form to push a job by hand."""
    return {"queues": [queue.name for queue in visit.inspector.queues()][:MOST_QUEUES]}


VIEWS = [View("/enqueue-form", "Push a job", "enqueue.html", _form, section="/jobs")]
ACTIONS = [
    Action("/enqueue", _enqueue, JOB, routine=True, needs=PUSH, result={"jid": _JID}),
    Action(
        "/enqueue/bulk",
        _enqueue_many,
        (Param("jobs", "up to 1,000 jobs, a JSON array", JOBS, needed=True),),
        routine=True,
        needs=PUSH,
        result={"jids": {"type": "array", "items": _JID}},
    ),
]
