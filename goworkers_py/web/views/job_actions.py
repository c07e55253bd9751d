"""Actions on the page of one job: push another job with the same class and arguments."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import simplejson

from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.params import JSON, TIME, Param, ParamKind
from goworkers_py.web.site.hiding import MASK, Hiding
from goworkers_py.web.site.table import Action, ActionDone
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.job_facts import is_wrapped
from goworkers_py.web.views.job_finding import NAMED, WAITING, Finder
from goworkers_py.web.views.rows import queue_of, refuse_large
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

# Longer arguments are no text that somebody edits in a page.
LONGEST_EDITED = 50_000

_INDENTED = simplejson.JSONEncoder(ensure_ascii=False, indent=2)

# Read by `_given`, which compares the text with the one that was shown.
_AS_GIVEN = ParamKind(lambda value: value, JSON.schema)
JID = Param("jid", "the job", needed=True)


@dataclass(frozen=True, slots=True)
class EditedForm:
    """The arguments as text that people may change; None: they cannot be changed here."""

    args: str | None
    kwargs: str | None
    masked: bool  # some of their values are hidden


def edited_form(job: StoredJob, hiding: Hiding) -> EditedForm:
    message = job.message
    if message is None or job.whole or job.original is not None or is_wrapped(message):
        return EditedForm(None, None, False)
    args = _text(hiding.value(message.args))
    kwargs = _text(hiding.value(message.kwargs)) if message.kwargs else ""
    if args is None or kwargs is None or len(args) + len(kwargs) > LONGEST_EDITED:
        return EditedForm(None, None, False)
    return EditedForm(args, kwargs, _is_masked(message, hiding))


def _is_masked(message: Message, hiding: Hiding) -> bool:
    given = [message.args, message.kwargs]
    return hiding.value(given) is not given


def _text(value: Any, longest: float = LONGEST_EDITED) -> str | None:
    """Indented JSON. Characters that a page would show in another way are escaped, so that it comes back as it was.
    None where it would be too long to be edited: a longer text is not made."""
    parts, length = [], 0
    try:
        for part in _INDENTED.iterencode(value):
            parts.append(part)
            length += len(part)
            if length > longest:
                return None
    except (ValueError, RecursionError):
        return None  # a number of more digits than Python writes
    text = "".join(parts)
    return "".join(char if char.isprintable() or char == "\n" else simplejson.dumps(char)[1:-1] for char in text)


def _again(visit: Visit) -> ActionDone:
    """Pushes a new job like this one, with a jid of its own; with other arguments, another queue or another time if
    given. The first job stays where it is. `jid` is the new one."""
    finder = Finder(visit, waits=True)
    found = finder.found()
    if found is None:
        raise Refused(404, f"no job with jid {finder.jid} was seen there: it may have moved")
    refuse_large(found.job)
    form = edited_form(found.job, visit.hiding)
    args, kwargs = _given(visit, form, "args", list), _given(visit, form, "kwargs", dict)
    at = visit.args["at"]
    jid = visit.inspector.enqueue_again(found.job, args=args, kwargs=kwargs, queue=visit.args["to"] or None, at=at)
    later = at is not None and at > time.time()
    where = {"state": "scheduled", "key": f"{at!r}|{jid}"} if later else {"state": WAITING}
    queue = visit.args["to"] or queue_of(found.job)
    to = visit.link("/job", jid=jid, queue=queue, **where)
    return ActionDone(f"job {jid} is {'scheduled' if later else f'in queue {queue}'}", 1, to=to, result={"jid": jid})


def _given(visit: Visit, form: EditedForm, name: str, kind: type) -> Any:
    """The value of the field; None for one that says the same as the job."""
    request = visit.request
    given = request.json.get(name) if request.is_json else next(iter(request.form.get(name) or ()), None)
    shown = getattr(form, name)
    if given is None or (isinstance(given, str) and given.replace("\r\n", "\n").strip() in ("", shown)):
        return None
    try:
        value = JSON.read(given)
    except ArgumentError as error:
        raise bad_request(f"{name}: {error}") from None
    if not isinstance(value, kind):
        raise bad_request(f"{name}: must be a JSON {'array' if kind is list else 'object'}")
    if form.masked and MASK in (given if isinstance(given, str) else _text(given, math.inf) or ""):
        raise bad_request(
            f'{name}: a hidden value of this job is shown as "{MASK}", and would be pushed as this text; write the '
            "value in its place, or leave the arguments as they are"
        )
    return value


ACTIONS: Sequence[Action] = [
    Action(
        "/job/again", _again,
        (
            *NAMED,
            Param("args", "other arguments: a JSON array", _AS_GIVEN),
            Param("kwargs", "other keyword arguments: a JSON object", _AS_GIVEN),
            Param("to", "another queue"),
            Param("at", "run at this time", TIME),
        ),
    ),
]  # fmt: skip
