"""The WSGI application: finds the view or the action of a request, asks who may, and answers as a page or as JSON.

GET  /queues           a page                  POST /queue/pause         a form; then back to the page
GET  /api/queues       the same data as JSON   POST /api/queue/pause     a JSON object
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import simplejson

from goworkers_py.core.errors import ArgumentError, BrokerError, BrokerUnavailable, ConfigError, DuplicateJob
from goworkers_py.core.fence import as_producer
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.params import read_all
from goworkers_py.web.http.request import Environ, Request
from goworkers_py.web.http.response import JSON_TYPE, Response, StartResponse
from goworkers_py.web.site import csrf
from goworkers_py.web.site.access import VIEW, Access, Grant
from goworkers_py.web.site.acting import Acting
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.host import Host
from goworkers_py.web.site.page import Pages
from goworkers_py.web.site.plain import as_json
from goworkers_py.web.site.rates import Rates
from goworkers_py.web.site.rendering import static
from goworkers_py.web.site.settings import PageSettings
from goworkers_py.web.site.snapshots import Snapshots
from goworkers_py.web.site.table import RowTable, View
from goworkers_py.web.site.trends import Trends
from goworkers_py.web.site.visit import SharedVisits, Visit

log = logging.getLogger(__name__)

API, STATIC = "/api", "/static/"
FOR_EVER = ("Cache-Control", "public, max-age=31536000, immutable")
ASK_AGAIN = ("Cache-Control", "no-cache")


class Application:
    """Threads share it."""

    def __init__(
        self, host: Host, table: RowTable, access: Callable[[], Access], settings: Callable[[], PageSettings]
    ) -> None:
        self._host = host
        self._table = table
        self._access = access
        self._settings = settings
        self._shared = SharedVisits(Snapshots(), Trends())
        self._rates = Rates()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        with closing(Request(environ)) as request, as_producer():  # whether or not this process leads
            return self._answer(request).send(request, start_response)

    def _answer(self, request: Request) -> Response:
        if request.path.startswith(STATIC):
            return _file(request)
        of_api, path = _split(request.path)
        pages = Pages(self._table, self._settings())
        visit: Visit | None = None
        try:
            _check_site(request)
            grant = self._access().decide(request.environ)
            if isinstance(grant, Response):
                return grant
            visit = Visit(request, self._host, grant, self._shared, Hiding(self._settings().hide))
            _check_view(grant)
            if request.changes:
                return Acting(self._table, pages, self._rates, self._settings().read_only).act(visit, path, of_api)
            return self._show(visit, path, of_api, pages)
        except Exception as fault:
            # Without its frames: they hold the body, and `error`, so that only the collector would free them.
            error = _refused(fault, request, path).with_traceback(None)
        if of_api:
            response = Response.of_text(as_json({"error": error.message}, Hiding()), JSON_TYPE, error.status)
        else:
            response = pages.error(request, visit, error)
        response.headers += error.headers
        return response

    def _show(self, visit: Visit, path: str, of_api: bool, pages: Pages) -> Response:
        view = self._table.views.get(path)
        if view is None:
            if path in self._table.actions:
                raise Refused(405, f"{path} makes a change: use POST", (("Allow", "POST"),))
            raise Refused(404, f"there is no page {path}")
        visit.args = read_all(view.query, visit.request.query)
        data = view.data(visit)
        if isinstance(data, Response):
            return data
        if of_api or not view.template:
            return Response.of_text(as_json(data, visit.hiding), JSON_TYPE)
        return self._page(visit, view, data, pages)

    def _page(self, visit: Visit, view: View, data: Any, pages: Pages) -> Response:
        request = visit.request
        token = csrf.token_of(request) or csrf.new_token()
        response = pages.page(visit, view, data, token)
        if not csrf.token_of(request):
            response.headers.append(csrf.cookie(request, token))
        return response


def _refused(fault: Exception, request: Request, path: str) -> Refused:
    """The answer to a request that has failed."""
    if isinstance(fault, Refused):
        return fault
    if isinstance(fault, BrokerUnavailable):
        return Refused(503, f"the broker does not answer: {fault}", (("Retry-After", "5"),))
    if isinstance(fault, ArgumentError | ConfigError):
        return Refused(400, str(fault))
    if isinstance(fault, DuplicateJob):
        return Refused(409, str(fault))
    if isinstance(fault, BrokerError):
        return Refused(502, f"the broker has refused: {fault}")
    if isinstance(fault, UnicodeEncodeError) and _has_broken_text(request):
        return Refused(400, "a name holds half a character, which no broker can hold")
    log.error("page %s failed", path, exc_info=fault)
    return Refused(500, f"this page has a fault, and the log its traceback: {type(fault).__name__}")


def _has_broken_text(request: Request) -> bool:
    values = [*request.query.values(), *(request.form.values() if request.changes else ())]
    try:
        simplejson.dumps(values, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return True
    return False


def _check_site(request: Request) -> None:
    """A page of another site may link here. It gets nothing else, and so costs nothing: no picture, no frame, no call
    of its script. A change has a check of its own, see `csrf`."""
    if request.changes or request.header("Sec-Fetch-Site") != "cross-site":
        return
    if (request.header("Sec-Fetch-Mode"), request.header("Sec-Fetch-Dest")) != ("navigate", "document"):
        raise Refused(403, "a page of another site may only link to these pages")


def _check_view(grant: Grant) -> None:
    if not grant.may(VIEW):
        raise Refused(403, "you may not see these pages: ask who runs them for the role `view`")


def _split(path: str) -> tuple[bool, str]:
    if path == API or path.startswith(f"{API}/"):
        return True, path[len(API) :] or "/"
    return False, path


def _file(request: Request) -> Response:
    found = static(request.path.removeprefix(STATIC))
    if found is None or request.changes:
        return Response.of_text("no such file\n", "text/plain; charset=utf-8", 404)
    body, kind = found
    return Response(body, kind, headers=[FOR_EVER if request.query.get("v") else ASK_AGAIN])
