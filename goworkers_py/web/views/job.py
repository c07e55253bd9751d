"""The page of one job: where it is and how it came there, its arguments, its error, its result; what can be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import simplejson

from goworkers_py.core.errors import WorkersError
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import TIME, YES_NO, Param
from goworkers_py.web.http.response import TEXT_TYPE, Response
from goworkers_py.web.site.hiding import MASK
from goworkers_py.web.site.table import Action, Data, Done, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.backtrace import lines_of
from goworkers_py.web.views.job_lists import ACTIONS_OF
from goworkers_py.web.views.rows import row_of
from goworkers_py.web.views.seeking import JOB, Found, by_key, needed, status_of
from goworkers_py.web.views.tree import tree_of
from goworkers_py.wire.batch import batch_of
from goworkers_py.wire.chain import chain_of
from goworkers_py.wire.lock import lock_of
from goworkers_py.wire.message import Message

# Fields of a payload that have a place of their own on the page.
_SHOWN = {
    "class", "wrapped", "args", "kwargs", "jid", "queue", "error_class", "error_message", "error_backtrace", "tags",
    "retry_count", "created_at", "enqueued_at", "failed_at", "retried_at", "at", "pyworkers",
}  # fmt: skip
LONGEST_TO_EDIT = 50_000


def one(visit: Visit) -> Data:
    """One job: where it is, how it came there, its arguments, its error with the backtrace, its progress and result."""
    found = by_key(visit)
    status = status_of(visit, found)
    data: dict[str, Any] = {"jid": visit.args["jid"], "status": status, "found": found is not None, "result": None}
    if status.value is not None and status.value.has_result:
        data["result"] = visit.hiding.value(_result(visit))
    return data | (_of_payload(visit, found) if found is not None else {"row": None})


def _of_payload(visit: Visit, found: Found) -> dict[str, Any]:
    row, message = row_of(found.job, visit.hiding), found.job.message
    fields = visit.hiding.value(dict(message.fields)) if message is not None else {}
    return {
        "row": row,
        "state": found.state,
        "process": found.process,
        "since": found.since,
        "tree": tree_of(row.args),
        "backtrace": lines_of(fields.get("error_backtrace")),
        "fields": {name: value for name, value in fields.items() if name not in _SHOWN},
        "ties": {} if message is None else _ties(message),
        "actions": ACTIONS_OF.get(found.state, ()),
        "to_edit": _to_edit(row.args, message),
        "hides": MASK in simplejson.dumps(row.args, default=str),
        "times": _times(message),
    }


def _ties(message: Message) -> dict[str, str]:
    """To what the job belongs."""
    batch, chain, lock = batch_of(message.fields), chain_of(message.fields), lock_of(message.fields)
    told = {
        "batch": None if batch is None else batch.bid,
        "chain": None if chain is None else chain.cid,
        "lock": None if lock is None else lock.name,
    }
    return {name: value for name, value in told.items() if value}


def _times(message: Message | None) -> Mapping[str, float]:
    if message is None:
        return {}
    told = {"created": message.created_at, "enqueued": message.enqueued_at, "expires": message.expires_at}
    return {name: at for name, at in told.items() if at is not None}


def _to_edit(args: Any, message: Message | None) -> str:
    """The positional arguments as JSON; empty where they cannot be edited here."""
    if message is None or "wrapped" in message or not isinstance(message.args, list):
        return ""
    own = args[: len(message.args)] if message.kwargs else args
    text = simplejson.dumps(own, ensure_ascii=False, indent=2)
    return text if len(text) <= LONGEST_TO_EDIT else ""


def _result(visit: Visit) -> Any:
    try:
        return visit.part.result(visit.args["jid"], 0)
    except (WorkersError, TimeoutError) as error:
        return f"({error})"


def raw(visit: Visit) -> Response:
    """The whole payload of a job as text, with hidden values masked."""
    job = visit.hiding.masked(needed(visit).job)
    response = Response(job.payload, TEXT_TYPE)
    response.headers.append(("Content-Disposition", 'attachment; filename="job.json"'))
    return response


def _cancel(visit: Visit) -> Done:
    """Cancels a job, wherever it waits or runs."""
    jid, retry = visit.args["jid"], visit.args["retry"]
    answer = visit.inspector.cancel(jid, retry=retry, timeout=2.0)
    return Done(f"job {jid}: {answer}", int(answer in ("cancelled", "interrupted")), result={"answer": answer})


def _again(visit: Visit) -> Done:
    """Pushes a new job like this one, with a jid of its own; the first one stays where it is."""
    args = visit.args
    found = needed(visit)
    shown = row_of(found.job, visit.hiding).args
    others = _edited(args["args"], _to_edit(shown, found.job.message), list, "a JSON array")
    kwargs = _edited(args["kwargs"], "", dict, "a JSON object")
    jid = visit.inspector.enqueue_again(found.job, args=others, kwargs=kwargs, queue=args["to"], at=args["at"])
    return Done(f"job {jid} was pushed", 1, to=visit.link("/job", jid=jid), result={"jid": jid})


def _edited(text: str | None, before: str, kind: type, wanted: str) -> Any:
    """The value of an edited field; None where nothing was changed."""
    if not text or text.replace("\r\n", "\n").strip() == before.strip():
        return None
    try:
        value = simplejson.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the arguments are no JSON: {error}") from None
    if not isinstance(value, kind):
        raise bad_request(f"the arguments must be {wanted}")
    if MASK in text:
        raise bad_request(f"{MASK} stands for a value that is not shown: write the value itself, or change nothing")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


VIEWS = [
    View("/job", "Job", "job.html", one, JOB, "/jobs"),
    View("/job/raw", "Payload", "job.html", raw, JOB, "/jobs"),
]
ACTIONS = [
    Action(
        "/job/cancel",
        _cancel,
        (
            Param("jid", "the job's jid", needed=True),
            Param("retry", "interrupt a running job only; it is retried as after a failure", YES_NO, default=False),
        ),
    ),
    Action(
        "/job/again",
        _again,
        (
            *JOB,
            Param("args", "other arguments, as the text of a JSON array"),
            Param("kwargs", "other keyword arguments, as the text of a JSON object"),
            Param("to", "another queue"),
            Param("at", "when it runs; at once if left out", TIME),
        ),
    ),
]
