"""Makes a change: asks who may, and whether it is meant; carries it out, and notes it for the audit."""

from __future__ import annotations

import logging

from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ArgumentError, WorkersError
from goworkers_py.core.escaping import one_line
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.params import read_all
from goworkers_py.web.http.response import JSON_TYPE, Response, see_other
from goworkers_py.web.site import csrf, notice
from goworkers_py.web.site.access import ACT, PUSH
from goworkers_py.web.site.page import Pages, back_of
from goworkers_py.web.site.plain import as_json
from goworkers_py.web.site.rates import Rates
from goworkers_py.web.site.table import Action, ActionDone, RowTable
from goworkers_py.web.site.visit import PARTITION, Visit

log = logging.getLogger(__name__)

SURE = "_sure"
MOST_PROBLEMS = 5


class Acting:
    """Made for one request."""

    def __init__(self, table: RowTable, pages: Pages, rates: Rates, read_only: bool) -> None:
        self._table = table
        self._pages = pages
        self._rates = rates
        self._read_only = read_only

    def act(self, visit: Visit, path: str, of_api: bool) -> Response:
        action = self._table.actions.get(path)
        if action is None:
            raise Refused(405 if path in self._table.views else 404, f"there is no action {path}")
        self._check(visit, action)
        if visit.request.is_json:
            _refuse_unknown(action, visit)
        visit.args = read_all(action.fields, visit.request.form)
        unsure = action.question is not None and not of_api and SURE not in visit.request.form
        if unsure and action.question is not None and (question := action.question(visit)):
            return self._pages.question(visit, action, question)
        try:
            done = action.run(visit)
        except Exception as error:
            _note(visit, action, _without_success(error), visit.trace.count, of_api)
            raise
        finally:
            if not (action.routine and of_api):  # pages would count anew as often as a program pushes
                visit.now_new()
        _note(visit, action, done.noted or done.said, done.count, of_api)
        return self._answer_as_json(visit, done) if of_api else self._answer(visit, action, done)

    def _check(self, visit: Visit, action: Action) -> None:
        if visit.request.method != "POST":
            raise Refused(405, "changes are made by POST", (("Allow", "POST"),))
        csrf.check(visit.request, visit.grant.by_token)
        if self._read_only:
            raise Refused(403, "these pages are read-only: nothing can be changed here")
        if not visit.grant.may(action.needs):
            may = "look and push jobs" if visit.grant.may(PUSH) else "look"
            raise Refused(403, f"you may {may}: to do this, ask who runs these pages for the role `{action.needs}`")
        self._rates.take(f"{visit.grant.who} {visit.request.environ.get('REMOTE_ADDR') or ''}")

    def _answer_as_json(self, visit: Visit, done: ActionDone) -> Response:
        fields = {"said": done.said, "count": done.count, "problems": done.problems, **done.result}
        if done.go_on is not None:
            fields["go_on"] = done.go_on
        return Response.of_text(as_json(fields, visit.hiding), JSON_TYPE)

    def _answer(self, visit: Visit, action: Action, done: ActionDone) -> Response:
        if done.page is not None:
            template, data = done.page
            return self._pages.plain(visit, template, done.said, {**data, "back": back_of(visit)})
        if done.go_on is not None:
            data = {"done": done, "go_on": done.go_on, "path": action.path, "back": back_of(visit)}
            return self._pages.plain(visit, "going_on.html", "At work", data)
        said = " · ".join([done.said, *done.problems[:MOST_PROBLEMS]])
        if len(done.problems) > MOST_PROBLEMS:
            said += f" · and {len(done.problems) - MOST_PROBLEMS} more"
        response = see_other(done.to or back_of(visit))
        response.headers.append(notice.cookie(visit.request, said))
        return response


def _refuse_unknown(action: Action, visit: Visit) -> None:
    known = [field.name for field in action.fields]
    for name in visit.request.form:
        if name not in known and not name.startswith("_") and name != PARTITION:
            raise bad_request(f"{name} is not a field of {action.path}{did_you_mean(name, known)}")


def _without_success(error: Exception) -> str:
    """A sentence for the audit: the reason of a refusal may quote a secret, and a fault of other code anything."""
    if isinstance(error, ArgumentError) or (isinstance(error, Refused) and error.status == 400):
        return "refused, perhaps in the middle"
    reason = error if isinstance(error, WorkersError | Refused) else type(error).__name__
    return f"failed, perhaps in the middle: {reason}"


def _note(visit: Visit, action: Action, said: str, count: int | None, of_api: bool) -> None:
    """Into the log, and into the list that the page of the audit shows, also each request of a change over many: the
    next one may never come, and only this server knows how much it has changed. A list that cannot be written makes no
    done change look failed."""
    who, source, trace = visit.grant.who, str(visit.request.environ.get("REMOTE_ADDR") or ""), visit.trace
    what = f"{trace.scope}: {said}" if trace.scope else said
    details = {"count": count, "who": who, "source": source, "partition": visit.partition, "change": trace.change}
    fields = " ".join(f"{name}={one_line(str(value))}" for name, value in details.items() if value not in (None, ""))
    log.info("pages: %s: %s %s", action.audit_name, one_line(what), fields)
    if action.routine and (of_api or not visit.grant.may(ACT)):
        return
    try:
        visit.inspector.note_action(who, action.audit_name, what, count, source=source, change=trace.change)
    except WorkersError as error:
        log.warning("pages: this change could not be added to the audit list: %s", one_line(str(error)))
